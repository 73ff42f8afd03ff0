from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec
import pytest

from lakebed.client.tasks import LeasedTask, TaskState
from lakebed.core.errors import (
    AccessDenied,
    CommitConflict,
    Fenced,
    InvalidInput,
    NoSuchTable,
    PipelineUnavailable,
    Unavailable,
)
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import JobReport
from lakebed.pipeline.worker import STOPPED, TaskResult, Worker

LEASE_SECONDS = 1.5


def leased(number: int, table: str = "orders") -> LeasedTask:
    spec = TaskSpec(job=JobKind.COMPACT, warehouse="lake", namespace=("sales",), table=table)
    return LeasedTask(
        id=number,
        kind=JobKind.COMPACT,
        state=TaskState.CLAIMED,
        spec=spec,
        attempts=1,
        max_attempts=5,
        due_ms=0,
        created_ms=0,
        changed_ms=0,
        token=number * 10,
    )


class Queue:
    """A queue with the given tasks, which records reports."""

    def __init__(self, *tasks: LeasedTask, away: int = 0) -> None:
        self.waiting = list(tasks)
        self.away = away
        self.completed: list[tuple[int, JobReport]] = []
        self.failed: list[tuple[int, str, bool]] = []
        self.heartbeats = 0
        self.is_lease_lost = False
        self.renamed: dict[str, str | None] = {}
        """Current table names; None for dropped tables."""

    def lease(
        self,
        worker: str,
        kinds: Sequence[JobKind],
        *,
        lease_seconds: float,
        limit: int = 1,
        wait_seconds: float = 0.0,
    ) -> Sequence[LeasedTask]:
        if self.away:
            self.away -= 1
            raise Unavailable("unreachable")
        return [self.waiting.pop(0)] if self.waiting else []

    def heartbeat(
        self, leased: LeasedTask, *, lease_seconds: float, progress: dict[str, object] | None = None
    ) -> TaskSpec | None:
        self.heartbeats += 1
        if self.is_lease_lost:
            raise Fenced("lease lost")
        name = self.renamed.get(leased.spec.table, leased.spec.table)
        return None if name is None else msgspec.structs.replace(leased.spec, table=name)

    def complete(self, leased: LeasedTask, report: JobReport) -> None:
        if self.is_lease_lost:
            raise Fenced("lease lost")
        self.completed.append((leased.id, report))

    def fail(self, leased: LeasedTask, reason: str, *, retry: bool = True) -> TaskState:
        self.failed.append((leased.id, reason, retry))
        return TaskState.READY if retry else TaskState.DEAD


class ScriptedRunner:
    """A job runner with scripted jobs."""

    def __init__(
        self,
        work: Callable[[TaskSpec], None] = lambda spec: None,
        start: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._start = start
        self.cancelled = threading.Event()
        self.done: list[str] = []
        """Tables of finished jobs."""

    def start(self, progress: Progress) -> None:
        self._start()

    def run(self, spec: TaskSpec, progress: Progress) -> JobReport:
        progress.stage("working")
        self._work(spec)
        self.done.append(spec.table)
        return JobReport(job=spec.job, table=spec.table, dry_run=False, changed=True)

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        """Nothing to close."""


def run_worker(queue: Queue, runner: ScriptedRunner, stop: threading.Event | None = None) -> list[TaskResult]:
    """Run a worker until the queue is empty; returns its results."""
    results: list[TaskResult] = []
    Worker(
        queue,
        runner,
        name="w",
        kinds=[JobKind.COMPACT],
        lease_seconds=LEASE_SECONDS,
        idle_seconds=0.05,
        on_result=results.append,
    ).run(stop or threading.Event())
    return results


def raising(error: Exception) -> Callable[[TaskSpec], None]:
    def work(spec: TaskSpec) -> None:
        raise error

    return work


def test_tasks_run_in_order_and_reports_are_sent() -> None:
    queue = Queue(leased(1), leased(2))
    results = run_worker(queue, ScriptedRunner())
    assert [(number, report.changed) for number, report in queue.completed] == [(1, True), (2, True)]
    assert queue.failed == []
    assert [ended.summary for ended in results] == ["done", "done"]


@pytest.mark.parametrize("error", [CommitConflict("others were first"), Unavailable("gone"), ValueError("a mistake")])
def test_transient_failure_is_retried(error: Exception) -> None:
    queue = Queue(leased(1), leased(2))
    run_worker(queue, ScriptedRunner(raising(error)))
    assert [(number, retry) for number, _, retry in queue.failed] == [(1, True), (2, True)]
    assert str(error) in queue.failed[0][1]


@pytest.mark.parametrize("error", [InvalidInput("no such option"), AccessDenied("not yours")])
def test_permanent_failure_is_not_retried(error: Exception) -> None:
    queue = Queue(leased(1))
    run_worker(queue, ScriptedRunner(raising(error)))
    assert queue.failed == [(1, str(error), False)]


def test_task_of_a_dropped_table_does_nothing() -> None:
    queue = Queue(leased(1))

    def work(spec: TaskSpec) -> None:
        queue.renamed["orders"] = None
        raise NoSuchTable("no such table")

    run_worker(queue, ScriptedRunner(work))
    ((_, report),) = queue.completed
    assert not report.changed
    ((what, reason),) = [(skipped.what, skipped.reason) for skipped in report.skipped]
    assert (what, reason) == ("lake.sales.orders", "the table was dropped after the task was submitted")


def test_table_that_got_the_name_during_spark_start_is_not_touched() -> None:
    for name, done in (("orders_2025", ["orders_2025"]), (None, [])):
        queue = Queue(leased(1))

        def start(queue: Queue = queue, name: str | None = name) -> None:
            queue.renamed["orders"] = name

        runner = ScriptedRunner(start=start)
        run_worker(queue, runner)
        assert runner.done == done
        assert [number for number, _ in queue.completed] == [1]


def test_task_of_a_renamed_table_continues_under_the_new_name() -> None:
    queue = Queue(leased(1))

    def work(spec: TaskSpec) -> None:
        if spec.table == "orders":
            queue.renamed["orders"] = "orders_2025"
            raise NoSuchTable("no such table")

    runner = ScriptedRunner(work)
    run_worker(queue, runner)
    assert runner.done == ["orders_2025"]
    assert [number for number, _ in queue.completed] == [1]


def test_existing_table_that_spark_cannot_find_is_a_failure() -> None:
    queue = Queue(leased(1))
    run_worker(queue, ScriptedRunner(raising(NoSuchTable("no such table"))))
    assert queue.completed == []
    assert queue.failed == [(1, "no such table", True)]


def test_worker_without_spark_fails_the_task_and_exits() -> None:
    queue = Queue(leased(1), leased(2))

    def start() -> None:
        raise PipelineUnavailable("install Java 17")

    with pytest.raises(PipelineUnavailable, match="install Java"):
        run_worker(queue, ScriptedRunner(start=start))
    # Left to a worker with Spark: the second task was not leased.
    assert queue.failed == [(1, "install Java 17", True)]
    assert [task.id for task in queue.waiting] == [2]


def test_task_with_a_lost_lease_is_cancelled_and_not_reported() -> None:
    queue = Queue(leased(1))

    def work(spec: TaskSpec) -> None:
        queue.is_lease_lost = True
        assert runner.cancelled.wait(10)

    runner = ScriptedRunner(work)
    (ended,) = run_worker(queue, runner)
    assert runner.cancelled.is_set()
    assert (queue.completed, queue.failed) == ([], [])
    assert ended.summary.startswith("lease lost")


def test_stopped_worker_releases_its_task() -> None:
    stop = threading.Event()
    queue = Queue(leased(1))

    def work(spec: TaskSpec) -> None:
        stop.set()
        assert runner.cancelled.wait(10)
        raise Unavailable("a query was cancelled")

    runner = ScriptedRunner(work)
    run_worker(queue, runner, stop)
    assert queue.failed == [(1, STOPPED, True)]


def test_long_job_sends_heartheartbeats() -> None:
    queue = Queue(leased(1))
    enough = threading.Event()

    def work(spec: TaskSpec) -> None:
        while queue.heartbeats < 3:
            enough.wait(0.05)

    run_worker(queue, ScriptedRunner(work))
    assert [number for number, _ in queue.completed] == [1]


def test_unavailable_server_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.pipeline.worker._FIRST_PAUSE_SECONDS", 0.01)
    queue = Queue(leased(1), away=3)
    run_worker(queue, ScriptedRunner())
    assert [number for number, _ in queue.completed] == [1]
