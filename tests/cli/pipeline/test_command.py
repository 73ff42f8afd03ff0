"""Arguments and exit status of `lakebed pipeline run`, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakebed.cli.main import FAILED
from lakebed.cli.pipeline import command
from lakebed.core.errors import PipelineUnavailable
from lakebed.core.jobs import JobKind
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.jobs import find_job
from lakebed.pipeline.options import Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.table_ref import CatalogTable
from tests.cli.conftest import Lakebed

KEYS = {"LAKEBED_ACCESS_KEY": "AKEXAMPLE", "LAKEBED_SECRET_KEY": "not-to-be-printed"}
RUN = ("pipeline", "run", "compact-table", "--warehouse", "wh", "--table", "a.b.t")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def jobs_run(lakebed: Lakebed, keys: None, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of jobs, which run without Spark. Any: of several types."""
    calls: list[dict[str, Any]] = []

    def run(spark: object, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
        calls.append({"table": table, "options": options, "dry_run": dry_run})
        draft = ReportBuilder(JobKind.COMPACT, table, dry_run=dry_run)
        draft.read, draft.changed = FileTotals(7, 3 * 2**20, 1000), True
        draft.skip("2 files", "well sized")
        if options.switch("rewrite-all"):
            draft.find("s3://wh/lost", "missing", "data file is not there")
        return draft.end()

    real = find_job(JobKind.COMPACT)
    monkeypatch.setattr(command, "find_job", lambda kind: JobDefinition(kind, real.text, real.options, run))
    monkeypatch.setattr(command, "spark_session", lambda *_: None)
    monkeypatch.setattr("lakebed.pipeline.job.spark_progress", lambda *_: _Nothing())
    return calls


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_job_runs_on_the_table_with_its_options(lakebed: Lakebed, jobs_run: list[dict[str, Any]]) -> None:
    outcome = lakebed(*RUN, "--option", "min-input-files=3", "--endpoint", "http://127.0.0.1:9999", "--dry-run")
    assert outcome.status == 0
    (call,) = jobs_run
    table: CatalogTable = call["table"]
    assert (str(table), table.access.endpoint, call["dry_run"]) == ("wh.a.b.t", "http://127.0.0.1:9999", True)
    assert call["options"].number("min-input-files") == 3
    assert outcome.out.startswith("compact-table wh.a.b.t: dry run in ")
    assert "3.0 MiB" in outcome.out
    assert "skipped: 2 files: well sized" in outcome.out


def test_report_is_json_with_json_flag(lakebed: Lakebed, jobs_run: list[dict[str, Any]]) -> None:
    document = json.loads(lakebed(*RUN, "--json").out)
    assert (document["job"], document["changed"], document["read"]["files"]) == ("compact-table", True, 7)


def test_problems_set_the_exit_status(lakebed: Lakebed, jobs_run: list[dict[str, Any]]) -> None:
    outcome = lakebed(*RUN, "--option", "rewrite-all=true")
    assert outcome.status == 1
    assert "problem: missing: s3://wh/lost: data file is not there" in outcome.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compact",), "unknown job. found='compact' expected=compact-table, "),
        (("compact-table", "--option", "nonsense=1"), "unknown option of compact-table. option=nonsense"),
        (("compact-table", "--option", "nonsense"), "expected an option as name=value. found='nonsense'"),
        (("compact-table", "--option", "strategy=heap"), "strategy expects one of binpack, sort, zorder. found='heap'"),
        (("compact-table",), "the job needs a table; add --table"),
        (("compact-table", "--table", "a.t"), "table bucket missing: give --warehouse"),
        (("compact-table", "--table", "t", "--warehouse", "wh"), "expected a warehouse and NAMESPACE.TABLE"),
    ],
)
def test_invalid_arguments_fail_before_spark_starts(
    lakebed: Lakebed, keys: None, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    def not_reached(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(command, "spark_session", not_reached)
    outcome = lakebed("pipeline", "run", *words)
    assert outcome.status == FAILED
    assert message in outcome.err


def test_credentials_come_from_environment_or_data_folder(
    lakebed: Lakebed, data: Path, jobs_run: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lakebed(*RUN)
    for name in KEYS:
        monkeypatch.delenv(name)
    lakebed(*RUN, "--data", str(data))
    assert jobs_run[0]["table"].access.access_key_id == "AKEXAMPLE"
    root = lakebed("credentials", "--data", str(data), "--json").document["access_key"]
    assert jobs_run[1]["table"].access.access_key_id == root
    assert jobs_run[1]["table"].access.endpoint == "http://127.0.0.1:9000"
    outcome = lakebed(*RUN, "--data", str(data / "none"))
    assert outcome.status == FAILED
    assert "no credentials" in outcome.err


def test_spark_start_failure_is_one_line_with_advice(
    lakebed: Lakebed, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PipelineUnavailable("Spark needs Java 17 or 21: install one")

    monkeypatch.setattr(command, "spark_session", refuse)
    outcome = lakebed(*RUN)
    assert (outcome.status, outcome.err) == (FAILED, "lakebed: Spark needs Java 17 or 21: install one\n")


def test_help_names_every_job_and_option(lakebed: Lakebed) -> None:
    output = lakebed("pipeline", "run", "--help").out
    for kind in JobKind:
        assert f"  {kind}: " in output
        for spec in find_job(kind).options:
            assert f"    {spec.name}: " in output
