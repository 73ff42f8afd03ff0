"""Tasks: what Spark is to do, who does it, and what became of it.

A worker's round: `lease`, then `heartbeat` from time to time while it works, then `complete` or `fail`. Fenced, from
any of the last three, means that the task is somebody else's by now: stop, and leave the rest to them.
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
"""The longest that a server lets a call wait for news."""

_BASE: Final = "/lakebed/v1/tasks"

Document = dict[str, Any]
"""A JSON object. Any: JSON."""


class TaskState(StrEnum):
    """Where a task is in its life."""

    READY = "ready"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"
    """Given up after its last attempt; `redrive` gives it all of them again."""


class Task(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A task as the server tells of it."""

    id: int
    kind: JobKind
    state: TaskState
    spec: TaskSpec = msgspec.field(name="order")
    attempts: int
    max_attempts: int
    due_ms: int
    """A ready task's start; when a claimed one is given up."""
    worker: str | None = None
    created_ms: int
    changed_ms: int
    report: Document | None = None
    """What a done task came to."""
    failure: str | None = None
    """What the last failed attempt said."""
    progress: Document | None = None
    """What its worker said of it last."""


class LeasedTask(Task, frozen=True, kw_only=True, rename="kebab"):
    """A task that is this worker's until its time is over."""

    token: int


class TaskSubmission(msgspec.Struct, frozen=True):
    """A task that was asked for."""

    task: Task
    is_new: bool
    """False if the same work was waiting or under way already."""


class _TaskPage(msgspec.Struct, rename="kebab"):
    tasks: list[Task]
    next_page_token: str | None = None


class _Claims(msgspec.Struct):
    tasks: list[LeasedTask]


class _State(msgspec.Struct):
    state: TaskState


class _Held(msgspec.Struct):
    spec: TaskSpec | None = msgspec.field(name="order")


class Tasks:
    """The task queue, over the wire."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self, *, state: TaskState | None = None, kind: JobKind | None = None) -> Iterator[Task]:
        """All tasks that fit, oldest first; a page at a time."""
        query = {name: str(value) for name, value in (("state", state), ("kind", kind)) if value is not None}
        for page in self._connection.pages(_TaskPage, _BASE, query):
            yield from page.tasks

    def get(self, task_id: int) -> Task:
        """One task. Raises NotFound."""
        return self._connection.read(Task, "GET", _path(task_id))

    def submit(self, spec: TaskSpec) -> TaskSubmission:
        """Ask for work on a table. The same work that is waiting or under way is given back instead of more of it."""
        # For the same reason a lost answer does not matter.
        reply = self._connection.call("POST", _BASE, document=spec, repeatable=True)
        return TaskSubmission(self._connection.decode(reply, Task), reply.status == 201)

    def redrive(self, task_id: int) -> Task:
        """Give a dead task all its attempts again.

        Raises NotFound if it is not dead, AlreadyExists if the same was asked for anew since.
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
        """Take up to `limit` due tasks, each for `lease_seconds`; none if nothing was due within `wait_seconds`."""
        document = {
            "worker": worker,
            "kinds": [str(kind) for kind in kinds],
            "lease-seconds": lease_seconds,
            "limit": limit,
            "wait-seconds": min(wait_seconds, MAX_WAIT_SECONDS),
        }
        # Not repeated when an answer is lost: what it has claimed falls due again when the lease is over.
        leased = self._connection.read(_Claims, "POST", f"{_BASE}/claim", document=document, wait_seconds=wait_seconds)
        return leased.tasks

    def heartbeat(
        self, leased: LeasedTask, *, lease_seconds: float, progress: Mapping[str, object] | None = None
    ) -> TaskSpec | None:
        """Keep a task for `lease_seconds` from now on. Raises Fenced if it is somebody else's by now, or has ended.

        The order as its table is called now; None if the table is gone, and another may have its name.
        """
        document: Document = {"token": leased.token, "lease-seconds": lease_seconds}
        if progress is not None:
            document["progress"] = progress
        return self._connection.decode(self._hold(leased, "heartbeat", document), _Held).spec

    def complete(self, leased: LeasedTask, report: Mapping[str, object] | msgspec.Struct) -> None:
        """End a task with what it came to. Raises Fenced."""
        document: Document = {"token": leased.token, "report": report}
        self._hold(leased, "complete", document)

    def fail(self, leased: LeasedTask, reason: str, *, retry: bool = True) -> TaskState:
        """Give a task back, with why it failed: to be tried again later, or for good. Raises Fenced."""
        document: Document = {"token": leased.token, "reason": reason, "retry": retry}
        return self._connection.decode(self._hold(leased, "fail", document), _State).state

    def _hold(self, leased: LeasedTask, word: str, document: Document) -> HttpResponse:
        """Speak for a task that was claimed. The server takes the same words twice for the same."""
        try:
            return self._connection.call("POST", _path(leased.id, word), document=document, repeatable=True)
        except NotFound as error:
            # It was taken back, or ended so long ago that it is forgotten.
            raise Fenced(f"the task is no longer there. id={leased.id}") from error


def _path(task_id: int, *words: str) -> str:
    return "/".join((_BASE, encode_segment(str(task_id)), *words))
