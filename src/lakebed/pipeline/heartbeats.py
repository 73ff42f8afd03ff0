"""Signs of life: while a job runs, its task is kept, and its progress told, from a thread beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

from lakebed.client.tasks import LeasedTask
from lakebed.core.errors import Fenced, LakebedError
from lakebed.core.jobs import TaskSpec

_LOOK_SECONDS: Final = 0.5


class HeartbeatClient(Protocol):
    """The part of the task queue that is needed here."""

    def heartbeat(
        self, leased: LeasedTask, *, lease_seconds: float, progress: dict[str, object] | None = None
    ) -> TaskSpec | None:
        """Keep a task; the order as its table is called now, None if that is gone. Raises Fenced."""
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
        """`cancel` ends the job; it is called when the task was lost or `stop` is set, until the job has ended."""
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
        """Whether the task is somebody else's by now, or may be."""

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def current_spec(self) -> TaskSpec | None:
        """The order as its table is called by now; None if the table is gone. Raises Fenced."""
        try:
            return self._beat()
        except Fenced:
            self.is_lost = True
            raise

    def stage(self, text: str) -> None:
        """The job begins something."""
        self._stage, self._done, self._total = text, 0, 0

    def tasks(self, done: int, total: int) -> None:
        """So many of Spark's tasks are done."""
        self._done, self._total = done, total

    def _keep(self) -> None:
        held_until = time.monotonic() + self._lease_seconds
        due, told = 0.0, ""
        while not self._ended.wait(_LOOK_SECONDS):
            if self._stop.is_set() or self.is_lost:
                # Again and again: a job that was between two of its queries begins the next one.
                self._cancel()
                continue
            if time.monotonic() < due and self._stage == told:
                continue
            told = self._stage
            asked = time.monotonic()
            try:
                self._beat()
            except Fenced:
                self.is_lost = True
            except LakebedError:
                # The server is away for a while, or restarted. Once the lease is over another worker may have it.
                self.is_lost = time.monotonic() >= held_until
                due = asked + 1.0
            else:
                held_until = asked + self._lease_seconds
                due = asked + self._lease_seconds / 3

    def _beat(self) -> TaskSpec | None:
        progress: dict[str, object] = {"stage": self._stage, "tasks-done": self._done, "tasks-total": self._total}
        return self._tasks.heartbeat(self._leased, lease_seconds=self._lease_seconds, progress=progress)
