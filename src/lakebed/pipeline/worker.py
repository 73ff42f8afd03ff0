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

from lakebed.client.tasks import ClaimedTask, TaskState
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
from lakebed.core.jobs import JobKind, TaskOrder

from .heartbeats import Heartbeats, Holding
from .report import JobReport, Skipped
from .spark.engine import Engine

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


class TaskQueue(Heartbeats, Protocol):
    """The part of the task queue that a worker needs."""

    def claim(
        self,
        worker: str,
        kinds: Sequence[JobKind],
        *,
        lease_seconds: float,
        limit: int = 1,
        wait_seconds: float = 0.0,
    ) -> Sequence[ClaimedTask]:
        """Take due tasks."""
        ...

    def complete(self, claimed: ClaimedTask, report: JobReport) -> None:
        """End a task. Raises Fenced."""
        ...

    def fail(self, claimed: ClaimedTask, reason: str, *, retry: bool = True) -> TaskState:
        """Give a task back. Raises Fenced."""
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a task, for whoever looks on."""

    task: ClaimedTask
    report: JobReport | None
    """None if it did not succeed."""
    words: str
    failure: LakebedError | None = None


class Worker:
    """Claims, runs, tells."""

    def __init__(
        self,
        tasks: TaskQueue,
        engine: Engine,
        *,
        name: str,
        kinds: Sequence[JobKind],
        lease_seconds: float,
        idle_seconds: float | None = None,
        tell: Callable[[Ended], None] | None = None,
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
                claimed = self._tasks.claim(
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
            for task in claimed:
                ended = self._see_to(task, stop)
                self._tell(ended)
                if isinstance(ended.failure, PipelineUnavailable):
                    raise ended.failure
                count += 1
                idle_since = time.monotonic()
            if self._idle_seconds is not None and time.monotonic() - idle_since >= self._idle_seconds:
                break
        return count

    def _see_to(self, task: ClaimedTask, stop: threading.Event) -> Ended:
        """Run a task and tell the server what it came to."""
        holding = Holding(self._tasks, task, self._lease_seconds, stop, self._engine.cancel)
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
            return Ended(task, None, "lost: another worker has it, or may have it")
        try:
            return self._conclude(task, report, failure, stopped=stop.is_set())
        except Fenced:
            return Ended(task, None, "lost: another worker has it")
        except LakebedError as error:
            # Its lease runs out, and whoever gets it next finds that there is nothing left to do.
            log.warning("the server was not told of a task's end: %s", error, extra={"task": task.id})
            return Ended(task, None, f"the server was not told: {error}", failure)

    def _run(self, task: ClaimedTask, holding: Holding) -> JobReport:
        """Do what is ordered to the table that is meant, whatever it is called by now."""
        self._engine.start(holding)
        # Only now: Spark took its time, and by the name that the order came with there may be another table.
        order = holding.order_now()
        while order is not None:
            try:
                return self._engine.run(order, holding)
            except _NOT_THERE:
                now = holding.order_now()
                if now is not None and _name(now) == _name(order):
                    raise
                order = now
        # Dropped since it was ordered: nothing is left to be done, and nothing is wrong.
        name = _name(task.order)
        skipped = Skipped(name, "the table was dropped after the task was asked for")
        return JobReport(job=task.kind, table=name, dry_run=False, changed=False, skipped=(skipped,))

    def _conclude(
        self, task: ClaimedTask, report: JobReport | None, failure: LakebedError | None, *, stopped: bool
    ) -> Ended:
        if report is not None:
            self._tasks.complete(task, report)
            return Ended(task, report, "done")
        if stopped:
            state = self._tasks.fail(task, STOPPED)
            return Ended(task, None, f"{STOPPED} ({state})")
        words = str(failure)
        state = self._tasks.fail(task, words, retry=not isinstance(failure, _HOPELESS))
        return Ended(task, None, f"failed, now {state}: {words}", failure)


def _name(order: TaskOrder) -> str:
    return ".".join((order.warehouse, *order.namespace, order.table))
