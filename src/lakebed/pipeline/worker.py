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

STOPPED: Final = "the worker was stopped; another one begins anew"

_WAIT_SECONDS: Final = 5.0
"""How long a call waits for a task. Not longer, because meanwhile nothing tells the worker to stop."""
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0

_HOPELESS: Final = (InvalidInput, NotSupported, AccessDenied, Unauthenticated)
"""What the next attempt would meet again: somebody has to look at it."""
_NOT_THERE: Final = (NoSuchTable, NoSuchNamespace, NoSuchCatalog)
"""What a table that was dropped looks like, and one that was renamed."""


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
        """Take due tasks."""
        ...

    def complete(self, leased: LeasedTask, report: JobReport) -> None:
        """End a task. Raises Fenced."""
        ...

    def fail(self, leased: LeasedTask, reason: str, *, retry: bool = True) -> TaskState:
        """Give a task back. Raises Fenced."""
        ...


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of a task, for whoever looks on."""

    task: LeasedTask
    report: JobReport | None
    """None if it did not succeed."""
    words: str
    failure: LakebedError | None = None


class Worker:
    """Claims, runs, tells."""

    def __init__(
        self,
        tasks: WorkerQueue,
        engine: JobRunner,
        *,
        name: str,
        kinds: Sequence[JobKind],
        lease_seconds: float,
        idle_seconds: float | None = None,
        tell: Callable[[TaskResult], None] | None = None,
    ) -> None:
        """With `idle_seconds`, it ends when there was nothing to do for so long."""
        self._tasks = tasks
        self._engine = engine
        self._name = name
        self._kinds = kinds
        self._lease_seconds = lease_seconds
        self._idle_seconds = idle_seconds
        self._tell = tell or (lambda ended: None)

    def run(self, stop: threading.Event) -> int:
        """Work until `stop` is set or there is nothing to do; how many tasks were seen to.

        Raises PipelineUnavailable when Spark cannot be started: whatever it claimed, it could not do. The task that
        showed it is given back first. Raises AccessDenied or Unauthenticated when it may not have tasks.
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
                log.warning("the server has no answer; asked again soon: %s", error)
                stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            pause = _FIRST_PAUSE_SECONDS
            for task in leased:
                ended = self._see_to(task, stop)
                self._tell(ended)
                if isinstance(ended.failure, PipelineUnavailable):
                    raise ended.failure
                count += 1
                idle_since = time.monotonic()
            if self._idle_seconds is not None and time.monotonic() - idle_since >= self._idle_seconds:
                break
        return count

    def _see_to(self, task: LeasedTask, stop: threading.Event) -> TaskResult:
        """Run a task and tell the server what it came to."""
        holding = LeaseKeeper(self._tasks, task, self._lease_seconds, stop, self._engine.cancel)
        report: JobReport | None = None
        failure: LakebedError | None = None
        try:
            with holding:
                report = self._run(task, holding)
        except LakebedError as error:
            failure = error
        except Exception as error:  # a mistake of ours in one job must not end the worker
            log.exception("a job crashed", extra={"task": task.id, "job": str(task.kind)})
            failure = Unavailable(f"the job crashed: {type(error).__name__}: {error}")
        if holding.is_lost:
            return TaskResult(task, None, "lost: another worker has it, or may have it")
        try:
            return self._conclude(task, report, failure, stopped=stop.is_set())
        except Fenced:
            return TaskResult(task, None, "lost: another worker has it")
        except LakebedError as error:
            # Its lease runs out, and whoever gets it next finds that there is nothing left to do.
            log.warning("the server was not told of a task's end: %s", error, extra={"task": task.id})
            return TaskResult(task, None, f"the server was not told: {error}", failure)

    def _run(self, task: LeasedTask, holding: LeaseKeeper) -> JobReport:
        """Do what is ordered to the table that is meant, whatever it is called by now."""
        self._engine.start(holding)
        # Only now: Spark took its time, and by the name that the order came with there may be another table.
        spec = holding.current_spec()
        while spec is not None:
            try:
                return self._engine.run(spec, holding)
            except _NOT_THERE:
                now = holding.current_spec()
                if now is not None and _name(now) == _name(spec):
                    raise
                spec = now
        # Dropped since it was ordered: nothing is left to be done, and nothing is wrong.
        name = _name(task.spec)
        skipped = Skipped(name, "the table was dropped after the task was asked for")
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
        words = str(failure)
        state = self._tasks.fail(task, words, retry=not isinstance(failure, _HOPELESS))
        return TaskResult(task, None, f"failed, now {state}: {words}", failure)


def _name(spec: TaskSpec) -> str:
    return ".".join((spec.warehouse, *spec.namespace, spec.table))
