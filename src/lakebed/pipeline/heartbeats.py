"""Heartbeats: a thread renews a task's lease and reports progress while the job runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

from lakebed.client.tasks import LeasedTask
from lakebed.core.errors import Fenced, LakebedError
from lakebed.core.jobs import TaskSpec

_TICK_SECONDS: Final = 0.5


class HeartbeatClient(Protocol):
    """The part of the task queue that heartbeats need."""

    def heartbeat(
        self, leased: LeasedTask, *, lease_seconds: float, progress: dict[str, object] | None = None
    ) -> TaskSpec | None:
        """Renew a lease. Returns the spec with the table's current name, None for a dropped table. Raises Fenced."""
        ...


class LeaseKeeper:
    """A worker's lease of a task, and the progress of its job, which the next heartbeat reports."""

    def __init__(
        self,
        tasks: HeartbeatClient,
        leased: LeasedTask,
        lease_seconds: float,
        stop: threading.Event,
        cancel: Callable[[], None],
    ) -> None:
        """`cancel` stops the job. Called repeatedly after the lease is lost or `stop` is set, until the job ends."""
        self._tasks = tasks
        self._leased = leased
        self._lease_seconds = lease_seconds
        self._stop = stop
        self._cancel = cancel
        self._ended = threading.Event()
        self._stage = ""
        self._done = self._total = 0
        self._thread = threading.Thread(target=self._keep, name="heartbeat", daemon=True)
        self.is_lost = False
        """Whether another worker holds the task, or may hold it."""

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def current_spec(self) -> TaskSpec | None:
        """The spec with the table's current name; None for a dropped table. Raises Fenced."""
        try:
            return self._beat()
        except Fenced:
            self.is_lost = True
            raise

    def stage(self, text: str) -> None:
        """Start a stage of the job."""
        self._stage, self._done, self._total = text, 0, 0

    def tasks(self, done: int, total: int) -> None:
        """Set the number of finished Spark tasks."""
        self._done, self._total = done, total

    def _keep(self) -> None:
        held_until = time.monotonic() + self._lease_seconds
        due, reported = 0.0, ""
        while not self._ended.wait(_TICK_SECONDS):
            if self._stop.is_set() or self.is_lost:
                # Repeated, because a job between two queries would start the next one.
                self._cancel()
                continue
            if time.monotonic() < due and self._stage == reported:
                continue
            reported = self._stage
            sent = time.monotonic()
            try:
                self._beat()
            except Fenced:
                self.is_lost = True
            except LakebedError:
                # The server may be restarting. When the lease has expired, another worker may hold the task.
                self.is_lost = time.monotonic() >= held_until
                due = sent + 1.0
            else:
                held_until = sent + self._lease_seconds
                due = sent + self._lease_seconds / 3

    def _beat(self) -> TaskSpec | None:
        progress: dict[str, object] = {"stage": self._stage, "tasks-done": self._done, "tasks-total": self._total}
        return self._tasks.heartbeat(self._leased, lease_seconds=self._lease_seconds, progress=progress)
