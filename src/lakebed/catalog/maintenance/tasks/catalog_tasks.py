"""Submits and withdraws table tasks in a separate transaction, by catalog name: for planners of other services."""

from __future__ import annotations

from lakebed.catalog import rows
from lakebed.catalog.external.checks import reject_federated
from lakebed.core.clock import Clock
from lakebed.core.errors import NoSuchCatalog, NotFound
from lakebed.core.jobs import TaskSpec, decode_spec
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.tasks import TaskQueue

from .events import append_events
from .queue import TaskSubmissions


class CatalogTasks:
    """Table tasks in the task queue. Implements `streams.lake.tiering_tasks.TableTasks`."""

    def __init__(self, meta: MetaStore, outbox: Outbox, clock: Clock, queue: TaskQueue) -> None:
        self._meta = meta
        self._outbox = outbox
        self._queue = queue
        self._submissions = TaskSubmissions(outbox, clock, queue)

    async def place(self, spec: TaskSpec) -> int:
        """Submit a task; its number. Raises NoSuchCatalog, NotSupported for a federated catalog."""

        async def work(tx: Transaction) -> int:
            found = await tx.row(rows.CATALOG, spec.warehouse)
            if found is None:
                raise NoSuchCatalog(f"no table bucket of this name: set streams.warehouse. warehouse={spec.warehouse}")
            reject_federated(rows.catalog_from(found))
            return (await self._submissions.submit_one(tx, spec)).task_id

        return await self._meta.transact(work)

    async def withdraw(self, number: int, reason: str) -> None:
        """Withdraw a waiting task."""

        async def work(tx: Transaction) -> None:
            events: list[OutboxEvent] = []
            try:
                spec = decode_spec((await self._queue.find(tx, number)).payload)
            except NotFound:
                return
            await self._submissions.withdraw(tx, number, spec, reason, events)
            await append_events(self._outbox, tx, events)

        await self._meta.transact(work)
