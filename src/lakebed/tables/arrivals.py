"""Files that arrived and are to be added to tables: noted with the task that is to add them, until that has.

A file is noted by the number of its event, and no more than once at a time. Whoever adds it to the table writes that
number beside its rows, and looks for it before: an event that is delivered again adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.jobs import JobKind, TaskOrder
from lakebed.meta.outbox import Event, Outbox
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.tasks import TaskQueue, TaskState
from lakebed.objects.facilities import Facilities
from lakebed.objects.model import Caller
from lakebed.tables.gate import Gate, ServerAction

from .maintenance.tasks.events import append_events
from .maintenance.tasks.queue import TaskSubmissions

__all__ = ["Arrival", "ArrivalRecorder", "Arrivals", "Destination"]

MAX_PAGE: Final = 1000

_ADD: Final = """
INSERT INTO arrivals (destination, event, source, version, etag, bytes, format) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (destination, event) DO NOTHING
"""
_LIST: Final = """
SELECT event, source, version, etag, bytes, format FROM arrivals
WHERE destination = ? AND event > ? ORDER BY event LIMIT ?
"""
_TAKE: Final = "DELETE FROM arrivals WHERE destination = ? AND event = ?"


class Destination(msgspec.Struct, frozen=True):
    """A table by name; it may come to be with the first file."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str

    @property
    def key(self) -> str:
        """One text for all of it."""
        return "\x1f".join((self.warehouse, *self.namespace, self.table))


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A file that arrived."""

    event: int
    """The number of the event that told of it."""
    source: str
    """`<bucket>/<key>`."""
    version: str = ""
    etag: str = ""
    """What it was then: what is there now may be another."""
    bytes: int = 0
    format: str = ""


class ArrivalRecorder:
    """Notes files, for whoever is told of them by events."""

    def __init__(self, meta: MetaStore, outbox: Outbox, clock: Clock, queue: TaskQueue) -> None:
        self._meta = meta
        self._outbox = outbox
        self._queue = queue
        self._orders = TaskSubmissions(outbox, clock, queue)

    async def arrive(self, destination: Destination, arrival: Arrival) -> None:
        """Note a file, and see that there is a task which has yet to begin. In one transaction. The same again is none.

        The rights to have it done are those of who set up the target (`lakebed:ManageTargets`).
        """
        order = TaskOrder(
            job=JobKind.INGEST,
            warehouse=destination.warehouse,
            namespace=destination.namespace,
            table=destination.table,
            reason=f"files arrive: {arrival.source[:500]}",
        )

        async def work(tx: Transaction) -> None:
            one = arrival
            added = await tx.run(
                _ADD, destination.key, one.event, one.source, one.version, one.etag, one.bytes, one.format
            )
            if not added:
                return
            told: list[Event] = []
            for turn in count():
                placed = await self._orders.submit(tx, order, told, turn=turn)
                # One that is under way may have looked for files already.
                if placed.is_new or (await self._queue.find(tx, placed.task_id)).state is not TaskState.CLAIMED:
                    break
            await append_events(self._outbox, tx, told)

        await self._meta.transact(work)


class Arrivals:
    """What was noted, for the workers that add it."""

    def __init__(self, facilities: Facilities) -> None:
        self._f = facilities
        self._gate = Gate(facilities)

    async def list(self, caller: Caller, destination: Destination, *, after: int, limit: int) -> Sequence[Arrival]:
        """What is to be added to a table, in the order of its events. For workers. Raises AccessDenied."""
        await self._gate.check_server(caller, ServerAction.RUN_TASKS)
        found = await self._f.meta.rows(_LIST, destination.key, after, limit)
        return [
            Arrival(event=event, source=source, version=version, etag=etag, bytes=size, format=format)
            for event, source, version, etag, size, format in found
        ]

    async def take(self, caller: Caller, destination: Destination, events: Sequence[int]) -> None:
        """Forget files that were added, or never will be. The same again changes nothing. Raises AccessDenied."""
        await self._gate.check_server(caller, ServerAction.RUN_TASKS)

        async def work(tx: Transaction) -> None:
            for event in events:
                await tx.run(_TAKE, destination.key, event)

        await self._f.meta.transact(work)
