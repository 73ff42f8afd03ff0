"""The pipeline as a whole: policies and commits lead to tasks, and a worker with a real Spark does them.

Workers have the rights to tables and to tasks, and none in S3.
"""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.cli.main import FAILED
from lakebed.client import TableRef, TaskState
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import JobReport
from lakebed.pipeline.spark.job_runner import SparkJobRunner
from tests.clients.boto import all_keys, connected
from tests.clients.iceberg.rows import ids_of, people
from tests.clients.users import user_with_actions
from tests.fixtures.server import RunningServer, running_server
from tests.fixtures.spark import find_or_install_java
from tests.pipeline.bench import SPARK_MARKS, new_bench
from tests.pipeline.maintenance_run import (
    SOON,
    WORKER_PERMISSIONS,
    MaintainedLake,
    command_of,
    java_of,
    maintained_lake,
    own_runner,
    run_tasks,
    running_worker,
    session_of,
    start_worker,
    wait_until,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

EMBEDDED = {
    **SOON,
    "LAKEBED_PIPELINE__EMBEDDED_WORKER": "on-demand",
    "LAKEBED_PIPELINE__MASTER": "local[2]",
    "LAKEBED_PIPELINE__DRIVER_MEMORY": "1GiB",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for these tests only."""
    with running_server(tmp_path_factory.mktemp("maintained_lake") / "data", workers=2, **SOON) as running:
        yield running


@pytest.fixture(scope="module")
def maintained(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaintainedLake]:
    with maintained_lake(server, tmp_path_factory.mktemp("worker")) as found:
        yield found


@pytest.fixture
def namespace(maintained: MaintainedLake) -> str:
    return maintained.namespace()


def lines_of(log: str, job: JobKind) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(f"{job} ")]


# -- from a policy to a maintained table -------------------------------------------------------------------------------


def test_policies_and_commits_lead_to_tasks_that_a_worker_runs(
    maintained: MaintainedLake, namespace: str, spark: SparkSession, tmp_path: Path
) -> None:
    maintained.attach(namespace, "system.data-compaction", min_input_files=5)
    maintained.attach(namespace, "system.metadata-compaction")
    maintained.attach(namespace, "system.snapshot-expiry", max_snapshot_age_ms=1, min_snapshots_to_keep=1)
    maintained.attach(namespace, "system.orphan-file-removal", older_than_ms=1, allow_young=True)
    ref = maintained.table(namespace, appends=12)
    with maintained.loaded(ref) as table, connected(maintained.lake.server) as s3:
        prefix = table.location().removeprefix(f"s3://{ref.warehouse}/")
        orphan = f"{prefix}/data/left-behind.parquet"
        s3.put_object(Bucket=ref.warehouse, Key=orphan, Body=b"of a writer that crashed")
        before = (len(table.snapshots()), ids_of(table))
    jobs = {JobKind.COMPACT, JobKind.REWRITE_MANIFESTS, JobKind.EXPIRE_SNAPSHOTS, JobKind.REMOVE_ORPHANS}
    wait_until(
        lambda: {task.kind for task in maintained.tasks_of(ref)} == jobs, "all four are planned after the commits"
    )
    planned = {task.kind: task for task in maintained.tasks_of(ref)}
    for task in planned.values():
        assert task.spec.policy is not None
        assert task.spec.policy.attached_to == f"namespace {namespace}"
        assert task.spec.reason.startswith(f"policy {namespace}.{task.spec.policy.name} v0, inherited from")
    assert re.search(r"\d+ of \d+ data files are under 384 MiB", planned[JobKind.COMPACT].spec.reason)
    assert re.search(r"\d+ of \d+ snapshots have expired", planned[JobKind.EXPIRE_SNAPSHOTS].spec.reason)

    with running_worker(maintained, tmp_path, "--idle", "3s") as worker:
        reports = {job: maintained.wait_done(task.id).report or {} for job, task in planned.items()}
        assert worker.process.wait(60) == 0, worker.said()

    assert [report["changed"] for report in reports.values()] == [True] * 4
    assert reports[JobKind.COMPACT]["read"]["files"] == 12
    assert reports[JobKind.REMOVE_ORPHANS]["details"]["orphans"] == [f"s3://{ref.warehouse}/{orphan}"]
    assert reports[JobKind.EXPIRE_SNAPSHOTS]["removed"]["files"] > 0
    events = maintained.task_events()
    assert [events[task.id] for task in planned.values()] == [["Planned", "Started", "Succeeded"]] * 4
    log = worker.said()
    assert all(len(lines_of(log, job)) == 1 and "done in" in lines_of(log, job)[0] for job in jobs), log

    assert len(maintained.data_files(ref)) == 1
    with maintained.loaded(ref) as table:
        assert (len(table.snapshots()) < before[0], ids_of(table)) == (True, before[1])
    with connected(maintained.lake.server) as s3:
        assert orphan not in all_keys(s3, ref.warehouse, prefix)
    # Every referenced file exists and has its rows.
    bench = new_bench(spark, maintained.lake, maintained.worker_keys)
    bench.checksum(bench.table(namespace))


def test_worker_with_permission_exports_events(
    maintained: MaintainedLake, server: RunningServer, spark: SparkSession, tmp_path: Path
) -> None:
    keys = user_with_actions(server, tmp_path, *WORKER_PERMISSIONS, "lakebed:ReadEvents").keys
    reader = replace(maintained, worker_keys=keys)
    spec = TaskSpec(job=JobKind.EXPORT_EVENTS, warehouse=maintained.lake.warehouse)
    task = maintained.client.tasks.submit(spec).task
    (ended,) = run_tasks(reader, own_runner(reader))
    assert ended.summary == "done"
    report = maintained.client.tasks.get(task.id).report or {}
    assert report["table"] == f"{maintained.lake.warehouse}.system.events"
    bench = new_bench(spark, maintained.lake, keys)
    exported = {
        event.seq
        for page in maintained.client.events.pages(until=report["details"]["last-seq"])
        for event in page.events
    }
    assert {row[0] for row in bench.sql(f"SELECT seq FROM {bench.table('system', 'events').sql}")} == exported


# -- dropped and renamed tables ----------------------------------------------------------------------------------------


class InterruptingRunner(SparkJobRunner):
    """Runs callbacks between the lease of a task and its job, and during the job."""

    after_start: Callable[[], object] | None = None
    before_run: Callable[[], object] | None = None

    def start(self, progress: Progress) -> None:
        super().start(progress)
        callback, self.after_start = self.after_start, None
        if callback is not None:
            callback()

    def run(self, spec: TaskSpec, progress: Progress) -> JobReport:
        callback, self.before_run = self.before_run, None
        if callback is not None:
            callback()
        return super().run(spec, progress)


@pytest.fixture
def runner(spark: SparkSession, maintained: MaintainedLake) -> InterruptingRunner:
    """A runner with the Spark of the other tests."""
    engine = own_runner(maintained, InterruptingRunner)
    assert isinstance(engine, InterruptingRunner)
    return engine


def compact(maintained: MaintainedLake, ref: TableRef, runner: InterruptingRunner) -> dict[str, Any]:
    """Compact a table; returns the task's report."""
    task = maintained.submit(JobKind.COMPACT, ref, min_input_files=2)
    (ended,) = run_tasks(maintained, runner)
    assert ended.report is not None, ended.summary
    return maintained.client.tasks.get(task.id).report or {}


def test_table_dropped_during_its_task_is_skipped_with_a_reason(
    maintained: MaintainedLake, namespace: str, runner: InterruptingRunner
) -> None:
    ref = maintained.table(namespace, appends=3)
    runner.before_run = lambda: maintained.drop(ref)
    report = compact(maintained, ref, runner)
    assert not report["changed"]
    assert report["skipped"] == [{"what": str(ref), "reason": "the table was dropped after the task was submitted"}]


def test_table_dropped_before_its_task_is_skipped_with_a_reason(
    maintained: MaintainedLake, namespace: str, runner: InterruptingRunner
) -> None:
    ref, other = maintained.table(namespace, appends=3), maintained.table(namespace, "other", appends=3)
    task = maintained.submit(JobKind.COMPACT, ref, min_input_files=2)
    maintained.drop(ref)
    assert compact(maintained, other, runner)["changed"]
    seen = maintained.client.tasks.get(task.id)
    assert seen.state is TaskState.DONE
    assert (seen.report or {})["skipped"] == [{"what": str(ref), "reason": "the table was dropped"}]
    assert maintained.task_events()[task.id] == ["Planned", "Withdrawn"]


def test_new_table_of_the_same_name_is_not_touched(
    maintained: MaintainedLake, namespace: str, runner: InterruptingRunner
) -> None:
    ref = maintained.table(namespace, appends=3)

    def exchange() -> None:
        maintained.rename(ref, "meant")
        maintained.table(namespace, appends=3)

    runner.after_start = exchange
    assert compact(maintained, ref, runner)["table"] == f"{ref.warehouse}.{namespace}.meant"
    assert len(maintained.data_files(ref)) == 3
    assert len(maintained.data_files(ref._replace(table="meant"))) == 1


def test_task_continues_on_a_renamed_table(
    maintained: MaintainedLake, namespace: str, runner: InterruptingRunner
) -> None:
    ref = maintained.table(namespace, appends=3)
    runner.before_run = lambda: maintained.rename(ref, "meant")
    report = compact(maintained, ref, runner)
    assert (report["changed"], report["table"]) == (True, f"{ref.warehouse}.{namespace}.meant")
    assert len(maintained.data_files(ref._replace(table="meant"))) == 1


# -- without Spark -----------------------------------------------------------------------------------------------------

WITHOUT_JAVA = """
import sys
from pathlib import Path
from lakebed.cli.main import main
from lakebed.pipeline.spark.java import find_java
find_java.__kwdefaults__["installed"] = Path("/nowhere")  # the machine may have one
sys.exit(main(sys.argv[1:]))
"""


def test_worker_without_java_reports_it_and_another_worker_runs_the_task(
    maintained: MaintainedLake, namespace: str, spark: SparkSession, tmp_path: Path
) -> None:
    ref = maintained.table(namespace, appends=3)
    task = maintained.submit(JobKind.COMPACT, ref, min_input_files=2)
    nothing = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    worker = start_worker(maintained, tmp_path, environment=nothing, program=("-c", WITHOUT_JAVA))
    assert worker.process.wait(60) == FAILED
    output = worker.said()
    assert "Spark needs Java 17 or 21: install it" in output
    assert "Traceback" not in output
    failed = maintained.client.tasks.get(task.id)
    assert (failed.state, failed.attempts) == (TaskState.READY, 1)
    assert failed.failure is not None
    assert "apt-get install openjdk-17-jre-headless), or set JAVA_HOME." in failed.failure
    assert maintained.task_events()[task.id] == ["Planned", "Started", "Failed"]

    # The server continues, and another worker runs the task.
    with urllib.request.urlopen(f"{maintained.lake.server.endpoint}/health/ready", timeout=10) as answer:
        assert answer.status == 200
    with maintained.loaded(ref) as table:
        table.append(people(100))
    (ended,) = run_tasks(maintained, own_runner(maintained))
    assert (ended.task.id, ended.summary, ended.task.attempts) == (task.id, "done", 2)


@pytest.mark.heavy
def test_worker_whose_jvm_dies_releases_the_task_and_restarts_spark(
    maintained: MaintainedLake, namespace: str, tmp_path: Path
) -> None:
    find_or_install_java()
    ref = maintained.table(namespace, appends=3)
    task = maintained.submit(JobKind.COMPACT, ref, min_input_files=2)
    with running_worker(maintained, tmp_path) as worker:

        def stage() -> str:
            return str((maintained.client.tasks.get(task.id).progress or {}).get("stage", ""))

        wait_until(lambda: stage() not in ("", "starting Spark"), "Spark is at work")
        (java,) = java_of(worker.process.pid)
        os.kill(java, signal.SIGKILL)
        done = maintained.wait_done(task.id)
        assert (done.attempts, done.worker) == (2, worker.name)
        assert maintained.task_events()[task.id] == ["Planned", "Started", "Failed", "Started", "Succeeded"]
        # The new session is warm, too.
        maintained.wait_done(maintained.submit(JobKind.VERIFY, ref).id)
        assert worker.stop() == 0, worker.said()
    assert "Traceback" not in worker.said()
    assert len(maintained.data_files(ref)) == 1


# -- the embedded worker -----------------------------------------------------------------------------------------------


def request_compaction(maintained: MaintainedLake) -> int:
    """Create a table that needs compaction; returns the id of the planned task."""
    namespace = maintained.namespace()
    maintained.attach(namespace, "system.data-compaction", min_input_files=3)
    ref = maintained.table(namespace, appends=3)
    wait_until(lambda: bool(maintained.tasks_of(ref)), "a task is planned after the commits")
    return maintained.tasks_of(ref)[0].id


def test_server_starts_and_stops_its_embedded_worker(tmp_path: Path) -> None:
    find_or_install_java()
    with (
        running_server(tmp_path / "data", workers=2, **EMBEDDED) as server,
        maintained_lake(server, tmp_path) as maintained,
    ):
        assert java_of(server.process.pid) == []
        report = maintained.wait_done(request_compaction(maintained)).report or {}
        assert (report["read"]["files"], report["wrote"]["files"]) == (3, 1)
        # The worker stays for the next task. Its command line has no secrets.
        assert java_of(server.process.pid) != []
        assert not any(server.secret_key in command_of(pid) for pid in session_of(server.process.pid))
        assert server.stop() == 0
        wait_until(lambda: not session_of(server.process.pid), "all processes ended")


@pytest.mark.heavy
@pytest.mark.parametrize("killed", ["all of its processes", "the first of its processes"])
@pytest.mark.parametrize("moment", ["while Spark starts", "after a task"])
def test_embedded_worker_exits_with_a_killed_server(tmp_path: Path, killed: str, moment: str) -> None:
    find_or_install_java()
    with (
        running_server(tmp_path / "data", workers=2, **EMBEDDED) as server,
        maintained_lake(server, tmp_path) as maintained,
    ):
        task = request_compaction(maintained)
        if moment == "after a task":
            maintained.wait_done(task)
        wait_until(lambda: bool(java_of(server.process.pid)), "Java is started")
        own = [pid for pid in session_of(server.process.pid) if " serve " in command_of(pid)]
        for pid in own if killed == "all of its processes" else [server.process.pid]:
            os.kill(pid, signal.SIGKILL)
        server.process.wait()
        wait_until(lambda: not session_of(server.process.pid), "all processes ended")
