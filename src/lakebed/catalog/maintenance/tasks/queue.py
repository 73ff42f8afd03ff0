"""Submits maintenance tasks to the task queue: at most one open task of a job per table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.jobs import JobKind, TaskOrder, decode_order, encode_order
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
    """A task that waits or runs, with its decoded order."""

    task: Task
    order: TaskOrder


class TaskSubmissions:
    """Submits tasks, revises them while they wait, and withdraws them.

    Each method adds its events to `told`, for `append_events` at the end of the transaction's work.
    """

    def __init__(self, outbox: Outbox, clock: Clock, queue: TaskQueue) -> None:
        self._outbox = outbox
        self._clock = clock
        self._queue = queue

    async def submit(
        self, tx: Transaction, order: TaskOrder, told: list[OutboxEvent], *, run_at_ms: int | None = None, turn: int = 0
    ) -> Submission:
        """Submit a task. Each `turn` allows one more open task of the same job and table."""
        added = await self._queue.add(
            tx,
            order.job,
            encode_order(order),
            dedupe=_subject(order) + (f"\x1f{turn}" if turn else ""),
            run_at_ms=run_at_ms,
            max_attempts=MAX_ATTEMPTS,
        )
        if added.is_new:
            told.append(task_event(TaskEventKind.PLANNED, added.id, order, self._clock.now_ms()))
        return Submission(added.id, added.is_new)

    async def submit_one(self, tx: Transaction, order: TaskOrder) -> Submission:
        """Submit a task, as the last step of a transaction's work."""
        told: list[OutboxEvent] = []
        placed = await self.submit(tx, order, told)
        await append_events(self._outbox, tx, told)
        return placed

    async def revise(
        self, tx: Transaction, task_id: int, order: TaskOrder, told: list[OutboxEvent], *, run_at_ms: int
    ) -> bool:
        """Replace the order of a task that has not begun; False if it has."""
        changed = await self._queue.revise(tx, task_id, encode_order(order), run_at_ms=run_at_ms)
        if changed:
            told.append(task_event(TaskEventKind.PLANNED, task_id, order, self._clock.now_ms()))
        return changed

    async def withdraw(
        self, tx: Transaction, task_id: int, order: TaskOrder, why: str, told: list[OutboxEvent]
    ) -> bool:
        """Withdraw a waiting task; False if it runs or has ended."""
        gone = await self._queue.withdraw(tx, task_id)
        if gone:
            told.append(task_event(TaskEventKind.WITHDRAWN, task_id, order, self._clock.now_ms(), failure=why))
        return gone

    async def open_for(self, reader: Reader, entries: Sequence[str]) -> Mapping[str, Sequence[OpenTask]]:
        """The open tasks of tables, by table."""
        found: dict[str, list[OpenTask]] = {}
        for task in await self._queue.open_with(reader, KINDS, entries):
            if task.dedupe is not None:
                found.setdefault(task.dedupe, []).append(OpenTask(task, decode_order(task.payload)))
        return found


def _subject(order: TaskOrder) -> str:
    """The dedupe key of a task: a table's id, or the name of a table that the job creates."""
    return order.entry or "\x1f".join((order.warehouse, *order.namespace, order.table))
