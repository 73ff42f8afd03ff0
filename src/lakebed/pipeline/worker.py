"""A worker: leases tasks from the server's queue, one at a time, and runs them in one warm Spark session.

There may be any number of workers, on any machines: the queue leases a task to one of them at a time. A worker that
dies sends no more heartbeats, and its task is leased to another when its lease expires.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.client.tasks import LeasedTask, TaskState
from lakebed.core.errors import (
    AccessDenied,
    Fenced,
    InvalidInput,
    LakebedError,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchTable,
    NotSupported,
    PipelineUnavailable,
    Unauthenticated,
    Unavailable,
)
from lakebed.core.jobs import JobKind, TaskSpec

from .heartbeats import HeartbeatClient, LeaseKeeper
from .report import JobReport, Skipped
from .spark.job_runner import JobRunner

log = logging.getLogger("lakebed.pipeline")

STOPPED: Final = "worker stopped; another worker runs the task again"

_WAIT_SECONDS: Final = 5.0
"""Long-poll timeout of a lease request. Short, because `stop` is not seen during a request."""
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0

_PERMANENT: Final = (InvalidInput, NotSupported, AccessDenied, Unauthenticated)
"""Failures that a retry would repeat: an operator has to act."""
_TABLE_MISSING: Final = (NoSuchTable, NoSuchNamespace, NoSuchCatalog)
"""Raised for a table that was dropped, and for one that was renamed."""


class WorkerQueue(HeartbeatClient, Protocol):
    """The part of the task queue that a worker needs."""

    def lease(
        self,
        worker: str,
        kinds: Sequence[JobKind],
        *,
        lease_seconds: float,
        limit: int = 1,
        wait_seconds: float = 0.0,
    ) -> Sequence[LeasedTask]:
        """Lease due tasks."""
        ...

    def complete(self, leased: LeasedTask, report: JobReport) -> None:
        """Report success. Raises Fenced."""
        ...

    def fail(self, leased: LeasedTask, reason: str, *, retry: bool = True) -> TaskState:
        """Report failure. Raises Fenced."""
        ...


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outcome of a task."""

    task: LeasedTask
    report: JobReport | None
    """None if it did not succeed."""
    summary: str
    failure: LakebedError | None = None


class Worker:
    """Leases tasks, runs them and reports the outcome."""

    def __init__(
        self,
        tasks: WorkerQueue,
        runner: JobRunner,
        *,
        name: str,
        kinds: Sequence[JobKind],
        lease_seconds: float,
        idle_seconds: float | None = None,
        on_result: Callable[[TaskResult], None] | None = None,
    ) -> None:
        """With `idle_seconds`, the worker ends after that time without a task."""
        self._tasks = tasks
        self._runner = runner
        self._name = name
        self._kinds = kinds
        self._lease_seconds = lease_seconds
        self._idle_seconds = idle_seconds
        self._on_result = on_result or (lambda _: None)

    def run(self, stop: threading.Event) -> int:
        """Run tasks until `stop` is set or the worker is idle; the number of tasks.

        Raises PipelineUnavailable when Spark cannot be started, after failing the task that needed it. Raises
        AccessDenied or Unauthenticated when the worker's principal may not lease tasks.
        """
        count = 0
        wait_seconds = _WAIT_SECONDS if self._idle_seconds is None else min(_WAIT_SECONDS, self._idle_seconds)
        pause = _FIRST_PAUSE_SECONDS
        idle_since = time.monotonic()
        while not stop.is_set():
            try:
                leased = self._tasks.lease(
                    self._name, self._kinds, lease_seconds=self._lease_seconds, wait_seconds=wait_seconds
                )
            except LakebedError as error:
                if not error.retryable:
                    raise
                log.warning("task lease request failed, retrying: %s", error)
                stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            pause = _FIRST_PAUSE_SECONDS
            for task in leased:
                ended = self._process(task, stop)
                self._on_result(ended)
                if isinstance(ended.failure, PipelineUnavailable):
                    raise ended.failure
                count += 1
                idle_since = time.monotonic()
            if self._idle_seconds is not None and time.monotonic() - idle_since >= self._idle_seconds:
                break
        return count

    def _process(self, task: LeasedTask, stop: threading.Event) -> TaskResult:
        """Run a task and report its outcome to the server."""
        keeper = LeaseKeeper(self._tasks, task, self._lease_seconds, stop, self._runner.cancel)
        report: JobReport | None = None
        failure: LakebedError | None = None
        try:
            with keeper:
                report = self._run(task, keeper)
        except LakebedError as error:
            failure = error
        except Exception as error:  # a bug in one job must not end the worker
            log.exception("job crashed", extra={"task": task.id, "job": str(task.kind)})
            failure = Unavailable(f"job crashed: {type(error).__name__}: {error}")
        if keeper.is_lost:
            return TaskResult(task, None, "lease lost: another worker may run the task")
        try:
            return self._conclude(task, report, failure, stopped=stop.is_set())
        except Fenced:
            return TaskResult(task, None, "lease lost: another worker runs the task")
        except LakebedError as error:
            # The lease expires, and the next worker finds nothing left to do.
            log.warning("task outcome not reported: %s", error, extra={"task": task.id})
            return TaskResult(task, None, f"outcome not reported: {error}", failure)

    def _run(self, task: LeasedTask, keeper: LeaseKeeper) -> JobReport:
        """Run the job on the task's table, under the table's current name."""
        self._runner.start(keeper)
        # After the start of Spark, which takes seconds: meanwhile another table may have got the task's table name.
        spec = keeper.current_spec()
        while spec is not None:
            try:
                return self._runner.run(spec, keeper)
            except _TABLE_MISSING:
                now = keeper.current_spec()
                if now is not None and _name(now) == _name(spec):
                    raise
                spec = now
        # The table was dropped after the task was submitted: there is nothing to do.
        name = _name(task.spec)
        skipped = Skipped(name, "the table was dropped after the task was submitted")
        return JobReport(job=task.kind, table=name, dry_run=False, changed=False, skipped=(skipped,))

    def _conclude(
        self, task: LeasedTask, report: JobReport | None, failure: LakebedError | None, *, stopped: bool
    ) -> TaskResult:
        if report is not None:
            self._tasks.complete(task, report)
            return TaskResult(task, report, "done")
        if stopped:
            state = self._tasks.fail(task, STOPPED)
            return TaskResult(task, None, f"{STOPPED} ({state})")
        message = str(failure)
        state = self._tasks.fail(task, message, retry=not isinstance(failure, _PERMANENT))
        return TaskResult(task, None, f"failed, now {state}: {message}", failure)


def _name(spec: TaskSpec) -> str:
    return ".".join((spec.warehouse, *spec.namespace, spec.table))
