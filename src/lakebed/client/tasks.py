"""Maintenance tasks: submitted by clients, leased and completed by workers.

A worker calls `lease`, then `heartbeat` regularly while it works, then `complete` or `fail`. Fenced from any of the
last three means that the lease is lost and another worker may run the task: stop working on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from lakebed.core.errors import Fenced, NotFound
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.core.sigv4 import encode_segment
from lakebed.net.http import HttpResponse

from .connection import ServerConnection

MAX_WAIT_SECONDS: Final = 30.0
"""The longest long-poll that a server supports."""

_BASE: Final = "/lakebed/v1/tasks"

Document = dict[str, Any]
"""A JSON object. Any: JSON."""


class TaskState(StrEnum):
    """The state of a task."""

    READY = "ready"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"
    """Failed in its last attempt; `redrive` resets the attempts."""


class Task(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A task of the queue."""

    id: int
    kind: JobKind
    state: TaskState
    spec: TaskSpec = msgspec.field(name="order")
    attempts: int
    max_attempts: int
    due_ms: int
    """Start time of a ready task; end of the lease of a leased one."""
    worker: str | None = None
    created_ms: int
    changed_ms: int
    report: Document | None = None
    """The job's report."""
    failure: str | None = None
    """Failure of the last attempt."""
    progress: Document | None = None
    """Progress of the last heartbeat."""


class LeasedTask(Task, frozen=True, kw_only=True, rename="kebab"):
    """A task leased to this worker."""

    token: int


class TaskSubmission(msgspec.Struct, frozen=True):
    """A submitted task."""

    task: Task
    is_new: bool
    """False if an open task for the same job and table existed already."""


class _TaskPage(msgspec.Struct, rename="kebab"):
    tasks: list[Task]
    next_page_token: str | None = None


class _Leases(msgspec.Struct):
    tasks: list[LeasedTask]


class _State(msgspec.Struct):
    state: TaskState


class _Held(msgspec.Struct):
    spec: TaskSpec | None = msgspec.field(name="order")


class Tasks:
    """The task API."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self, *, state: TaskState | None = None, kind: JobKind | None = None) -> Iterator[Task]:
        """The matching tasks, oldest first."""
        query = {name: str(value) for name, value in (("state", state), ("kind", kind)) if value is not None}
        for page in self._connection.pages(_TaskPage, _BASE, query):
            yield from page.tasks

    def get(self, task_id: int) -> Task:
        """Get a task. Raises NotFound."""
        return self._connection.read(Task, "GET", _path(task_id))

    def submit(self, spec: TaskSpec) -> TaskSubmission:
        """Submit a task. Returns the open task of the same job and table instead, if there is one."""
        # So it is safe to repeat after a lost response.
        reply = self._connection.call("POST", _BASE, document=spec, repeatable=True)
        return TaskSubmission(self._connection.decode(reply, Task), reply.status == 201)

    def redrive(self, task_id: int) -> Task:
        """Reset the attempts of a dead task.

        Raises NotFound if it is not dead, AlreadyExists if the same work was submitted since.
        """
        return self._connection.read(Task, "POST", _path(task_id, "redrive"))

    def lease(
        self,
        worker: str,
        kinds: Sequence[JobKind],
        *,
        lease_seconds: float,
        limit: int = 1,
        wait_seconds: float = 0.0,
    ) -> Sequence[LeasedTask]:
        """Lease up to `limit` due tasks for `lease_seconds`; empty if none is due within `wait_seconds`."""
        document = {
            "worker": worker,
            "kinds": [str(kind) for kind in kinds],
            "lease-seconds": lease_seconds,
            "limit": limit,
            "wait-seconds": min(wait_seconds, MAX_WAIT_SECONDS),
        }
        # Not repeated after a lost response: its tasks become due again when their leases expire.
        leased = self._connection.read(_Leases, "POST", f"{_BASE}/claim", document=document, wait_seconds=wait_seconds)
        return leased.tasks

    def heartbeat(
        self, leased: LeasedTask, *, lease_seconds: float, progress: Mapping[str, object] | None = None
    ) -> TaskSpec | None:
        """Extend a lease to `lease_seconds` from now. Raises Fenced if the lease is lost or the task has ended.

        Returns the spec with the table's current name; None for a dropped table: its name may be reused.
        """
        document: Document = {"token": leased.token, "lease-seconds": lease_seconds}
        if progress is not None:
            document["progress"] = progress
        return self._connection.decode(self._call(leased, "heartbeat", document), _Held).spec

    def complete(self, leased: LeasedTask, report: Mapping[str, object] | msgspec.Struct) -> None:
        """Complete a task with its report. Raises Fenced."""
        document: Document = {"token": leased.token, "report": report}
        self._call(leased, "complete", document)

    def fail(self, leased: LeasedTask, reason: str, *, retry: bool = True) -> TaskState:
        """Fail a task with a reason, for a retry or for good. Raises Fenced."""
        document: Document = {"token": leased.token, "reason": reason, "retry": retry}
        return self._connection.decode(self._call(leased, "fail", document), _State).state

    def _call(self, leased: LeasedTask, word: str, document: Document) -> HttpResponse:
        """Send a request of the lease holder. The server accepts repetitions."""
        try:
            return self._connection.call("POST", _path(leased.id, word), document=document, repeatable=True)
        except NotFound as error:
            # The task was leased to another worker, or ended so long ago that it was removed.
            raise Fenced(f"no such task. id={leased.id}") from error


def _path(task_id: int, *words: str) -> str:
    return "/".join((_BASE, encode_segment(str(task_id)), *words))
