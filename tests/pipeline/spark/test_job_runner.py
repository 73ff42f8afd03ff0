"""The job runner, with sessions that die on request."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.client.access import ServerAccess
from lakebed.core.errors import InvalidInput, Unavailable
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.core.secrets import Secret
from lakebed.core.settings import PipelineSettings
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import Options
from lakebed.pipeline.progress import NoProgress, Progress
from lakebed.pipeline.report import JobReport, ReportBuilder
from lakebed.pipeline.spark import job_runner as module
from lakebed.pipeline.spark.job_runner import SparkJobRunner
from lakebed.pipeline.table_ref import CatalogTable

ACCESS = ServerAccess("http://127.0.0.1:9000", "AKEXAMPLE", Secret("hush"))
SPEC = TaskSpec(job=JobKind.VERIFY, warehouse="lake", namespace=("sales",), table="orders")


class Session:
    """A partial session. Every attribute is the session itself."""

    def __init__(self) -> None:
        self.has_ended = False
        self.properties: dict[str, str] = {}

    def __getattr__(self, name: str) -> Session:
        return self

    def sc(self) -> Session:
        return self

    def isStopped(self) -> bool:
        if self.has_ended:
            raise ConnectionRefusedError("refused")
        return False

    def set(self, name: str, value: str) -> None:
        self.isStopped()
        self.properties[name] = value

    def statusTracker(self) -> Session:
        return self

    def getActiveJobsIds(self) -> list[int]:
        return []


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """The started sessions, newest last."""
    started: list[Session] = []

    def start(settings: PipelineSettings) -> Session:
        started.append(Session())
        return started[-1]

    monkeypatch.setattr(module, "start_spark", start)
    monkeypatch.setattr(module, "_stop", lambda spark: None)
    return started


@pytest.fixture
def engine(sessions: list[Session]) -> SparkJobRunner:
    return SparkJobRunner(ACCESS, PipelineSettings())


def has_job(monkeypatch: pytest.MonkeyPatch, happens: Any = lambda spark: None) -> list[CatalogTable]:
    """Replace every job by a function; returns the tables of its runs. Any: a function."""
    seen: list[CatalogTable] = []

    def run(spark: Any, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
        happens(spark)
        seen.append(table)
        return ReportBuilder(JobKind.VERIFY, table, dry_run=dry_run).end()

    monkeypatch.setattr(module, "find_job", lambda kind: JobDefinition(kind, "a job", (), run))
    return seen


def test_tasks_share_a_session_with_a_catalog_per_warehouse(
    engine: SparkJobRunner, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = has_job(monkeypatch)
    for spec in (SPEC, SPEC, TaskSpec(job=JobKind.VERIFY, warehouse="pond", namespace=("a",), table="b")):
        engine.run(spec, NoProgress())
    first, second, third = (table.catalog for table in seen)
    assert (len(sessions), first == second, first == third) == (1, True, False)
    assert sessions[0].properties[f"spark.sql.catalog.{third}.warehouse"] == "pond"
    # The same warehouse name on another server is another catalog of a shared session.
    other = SparkJobRunner(ServerAccess("http://127.0.0.1:9001", "AKEXAMPLE", Secret("hush")), PipelineSettings())
    other.run(SPEC, NoProgress())
    assert seen[-1].catalog != first


def test_spark_that_dies_during_a_job_is_reported_and_restarted(
    engine: SparkJobRunner, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(spark: Session) -> None:
        spark.has_ended = len(sessions) == 1
        spark.isStopped()

    seen = has_job(monkeypatch, end)
    with pytest.raises(Unavailable, match=r"Spark died during the job.*table=lake\.sales\.orders"):
        engine.run(SPEC, NoProgress())
    engine.run(SPEC, NoProgress())
    assert (len(sessions), len(seen)) == (2, 1)


def test_spark_that_dies_before_a_job_is_reported_and_restarted(
    engine: SparkJobRunner, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = has_job(monkeypatch)

    class Ending(NoProgress):
        def stage(self, text: str) -> None:
            sessions[0].has_ended = len(sessions) == 1 and text == "starting the job"

    engine.start(NoProgress())
    with pytest.raises(Unavailable, match="Spark died during the job"):
        engine.run(SPEC, Ending())
    engine.run(SPEC, NoProgress())
    assert (len(sessions), len(seen)) == (2, 1)


def test_spark_that_died_between_two_tasks_fails_neither(
    engine: SparkJobRunner, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = has_job(monkeypatch)
    engine.run(SPEC, NoProgress())
    sessions[0].has_ended = True
    engine.run(SPEC, NoProgress())
    assert (len(sessions), len(seen)) == (2, 2)


def test_job_failure_is_not_a_spark_failure_while_spark_runs(
    engine: SparkJobRunner, sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(spark: Session) -> None:
        raise InvalidInput("not so")

    has_job(monkeypatch, refuse)
    for _ in range(2):
        with pytest.raises(InvalidInput, match="not so"):
            engine.run(SPEC, NoProgress())
    assert len(sessions) == 1
