"""Arrived files that an ingestion task adds to a table: recorded with the task until they are added.

A file is recorded once, by the number of its event. The job writes that number with the rows, and checks for it first:
an event that is delivered again adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.tasks import TaskQueue, TaskState
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..access.authorization import CatalogAuthorizer, ServerAction
from ..maintenance.tasks.events import append_events
from ..maintenance.tasks.queue import TaskSubmissions

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
    """A table by name; the first file may create it."""

    catalog: str
    namespace: tuple[str, ...]
    table: str

    @property
    def key(self) -> str:
        """The name as one string."""
        return "\x1f".join((self.catalog, *self.namespace, self.table))


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """An arrived file."""

    event: int
    """The number of its event."""
    source: str
    """`<bucket>/<key>`."""
    version: str = ""
    etag: str = ""
    """At the time of the event: the object may have changed since."""
    bytes: int = 0
    format: str = ""


class ArrivalRecorder:
    """Records files that events report."""

    def __init__(self, meta: MetaStore, outbox: Outbox, clock: Clock, queue: TaskQueue) -> None:
        self._meta = meta
        self._outbox = outbox
        self._queue = queue
        self._submissions = TaskSubmissions(outbox, clock, queue)

    async def arrive(self, destination: Destination, arrival: Arrival) -> None:
        """Record a file, and ensure a task that has not started, in one transaction. Idempotent.

        The task runs with the permissions of the principal that configured the target (`lakebed:ManageTargets`).
        """
        spec = TaskSpec(
            job=JobKind.INGEST,
            warehouse=destination.catalog,
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
            events: list[OutboxEvent] = []
            for slot in count():
                placed = await self._submissions.submit(tx, spec, events, slot=slot)
                # A running task may have listed the files already.
                if placed.is_new or (await self._queue.find(tx, placed.task_id)).state is not TaskState.CLAIMED:
                    break
            await append_events(self._outbox, tx, events)

        await self._meta.transact(work)


class Arrivals:
    """Recorded files, for the workers that add them."""

    def __init__(self, object_context: ObjectContext) -> None:
        self._f = object_context
        self._authorizer = CatalogAuthorizer(object_context)

    async def list(self, caller: Caller, destination: Destination, *, after: int, limit: int) -> Sequence[Arrival]:
        """The files to add to a table, in the order of their events. For workers. Raises AccessDenied."""
        await self._authorizer.check_server(caller, ServerAction.RUN_TASKS)
        found = await self._f.meta.rows(_LIST, destination.key, after, limit)
        return [
            Arrival(event=event, source=source, version=version, etag=etag, bytes=size, format=format)
            for event, source, version, etag, size, format in found
        ]

    async def take(self, caller: Caller, destination: Destination, events: Sequence[int]) -> None:
        """Delete files that were added, or never will be. Idempotent. Raises AccessDenied."""
        await self._authorizer.check_server(caller, ServerAction.RUN_TASKS)

        async def work(tx: Transaction) -> None:
            for event in events:
                await tx.run(_TAKE, destination.key, event)

        await self._f.meta.transact(work)
