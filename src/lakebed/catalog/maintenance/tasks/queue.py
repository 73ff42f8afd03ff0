"""Submits maintenance tasks to the task queue: at most one open task of a job per table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.jobs import JobKind, TaskSpec, decode_spec, encode_spec
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Reader, Transaction
from lakebed.meta.tasks import Task, TaskQueue

from .events import TaskEventKind, append_events, task_event

__all__ = ["KINDS", "OpenTask", "Submission", "TaskSubmissions"]

KINDS: Final = tuple(kind.value for kind in JobKind)
"""The kinds of tasks that workers of the pipeline run."""

MAX_ATTEMPTS: Final = 5


class Submission(NamedTuple):
    """A task in the queue."""

    task_id: int
    is_new: bool
    """False if the table had an open task of that job already, possibly of another principal."""


class OpenTask(NamedTuple):
    """A task that waits or runs, with its decoded specification."""

    task: Task
    spec: TaskSpec


class TaskSubmissions:
    """Submits tasks, revises them while they wait, and withdraws them.

    Each method adds its events to `events`, for `append_events` at the end of the transaction's work.
    """

    def __init__(self, outbox: Outbox, clock: Clock, queue: TaskQueue) -> None:
        self._outbox = outbox
        self._clock = clock
        self._queue = queue

    async def submit(
        self, tx: Transaction, spec: TaskSpec, events: list[OutboxEvent], *, run_at_ms: int | None = None, slot: int = 0
    ) -> Submission:
        """Submit a task. Each `slot` allows one more open task of the same job and table."""
        added = await self._queue.add(
            tx,
            spec.job,
            encode_spec(spec),
            dedupe=_subject(spec) + (f"\x1f{slot}" if slot else ""),
            run_at_ms=run_at_ms,
            max_attempts=MAX_ATTEMPTS,
        )
        if added.is_new:
            events.append(task_event(TaskEventKind.PLANNED, added.id, spec, self._clock.now_ms()))
        return Submission(added.id, added.is_new)

    async def submit_one(self, tx: Transaction, spec: TaskSpec) -> Submission:
        """Submit a task, as the last step of a transaction's work."""
        events: list[OutboxEvent] = []
        placed = await self.submit(tx, spec, events)
        await append_events(self._outbox, tx, events)
        return placed

    async def revise(
        self, tx: Transaction, task_id: int, spec: TaskSpec, events: list[OutboxEvent], *, run_at_ms: int
    ) -> bool:
        """Replace the specification of a waiting task; False if it has begun."""
        changed = await self._queue.revise(tx, task_id, encode_spec(spec), run_at_ms=run_at_ms)
        if changed:
            events.append(task_event(TaskEventKind.PLANNED, task_id, spec, self._clock.now_ms()))
        return changed

    async def withdraw(
        self, tx: Transaction, task_id: int, spec: TaskSpec, why: str, events: list[OutboxEvent]
    ) -> bool:
        """Withdraw a waiting task; False if it runs or has ended."""
        withdrawn = await self._queue.withdraw(tx, task_id)
        if withdrawn:
            events.append(task_event(TaskEventKind.WITHDRAWN, task_id, spec, self._clock.now_ms(), failure=why))
        return withdrawn

    async def open_for(self, reader: Reader, entries: Sequence[str]) -> Mapping[str, Sequence[OpenTask]]:
        """The open tasks of tables, by table."""
        found: dict[str, list[OpenTask]] = {}
        for task in await self._queue.open_with(reader, KINDS, entries):
            if task.dedupe is not None:
                found.setdefault(task.dedupe, []).append(OpenTask(task, decode_spec(task.payload)))
        return found


def _subject(spec: TaskSpec) -> str:
    """The dedupe key of a task: a table's id, or the name of a table that the job creates."""
    return spec.entry or "\x1f".join((spec.warehouse, *spec.namespace, spec.table))
