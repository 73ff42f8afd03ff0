"""Rounds of tiering as tasks of the pipeline: what the home of streams asks for, workers take from the one queue."""

from __future__ import annotations

from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import NoSuchWarehouse, NotFound
from lakebed.core.jobs import JobKind, Option, TaskOrder, decode_order
from lakebed.core.settings import Address
from lakebed.meta.outbox import Event, Outbox
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.tasks import TaskQueue, TaskState
from lakebed.streams.admin.lake_planning import Outcome
from lakebed.tables import rows
from lakebed.tables.backing import served_here
from lakebed.tables.maintenance.planner import SCHEDULER
from lakebed.tables.maintenance.tasks.events import append_events
from lakebed.tables.maintenance.tasks.queue import TaskSubmissions

_OUTCOMES: Final = {TaskState.DONE: Outcome.DONE, TaskState.DEAD: Outcome.GIVEN_UP}


class QueuedRounds:
    """Rounds into the tables of one warehouse: a database is a namespace there."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        queue: TaskQueue,
        warehouse: str,
        advertised: Address | None,
    ) -> None:
        """`advertised` is where workers find streams, if they are told."""
        self._meta = meta
        self._outbox = outbox
        self._queue = queue
        self._orders = TaskSubmissions(outbox, clock, queue)
        self._warehouse = warehouse
        self._advertised = advertised

    async def ask(self, database: str, table: str, reason: str) -> int:
        """Have a table tiered; the task. Raises NoSuchWarehouse; NotSupported if another catalog is behind it."""
        options: dict[str, Option] = {"stream": f"{database}.{table}"}
        if self._advertised is not None:
            options["streams"] = str(self._advertised)
        return await self._place(JobKind.TIER_STREAM, database, table, reason, options)

    async def tidy(self, database: str, table: str, *, compact: bool, expire: bool) -> None:
        """Have the table of the lake compacted, or old snapshots of it given up. Raises as `ask`."""
        for job, is_meant in ((JobKind.COMPACT, compact), (JobKind.EXPIRE_SNAPSHOTS, expire)):
            if is_meant:
                await self._place(job, database, table, "the stream's table asks for it after tiering", {})

    async def _place(self, job: JobKind, database: str, table: str, reason: str, options: dict[str, Option]) -> int:
        order = TaskOrder(
            job=job,
            warehouse=self._warehouse,
            namespace=(database,),
            table=table,
            options=options,
            reason=reason,
            requested_by=SCHEDULER,
        )

        async def work(tx: Transaction) -> int:
            found = await tx.row(rows.WAREHOUSE, self._warehouse)
            if found is None:
                raise NoSuchWarehouse(
                    f"no table bucket has the name that streams.warehouse says. warehouse={self._warehouse}"
                )
            served_here(rows.warehouse_from(found))
            return (await self._orders.submit_one(tx, order)).task_id

        return await self._meta.transact(work)

    async def outcome(self, number: int) -> Outcome:
        """What became of a task. One that nothing is known of any more was given up."""
        try:
            task = await self._queue.find(self._meta, number)
        except NotFound:
            return Outcome.GIVEN_UP
        return _OUTCOMES.get(task.state, Outcome.OPEN)

    async def withdraw(self, number: int, why: str) -> None:
        """Take a task back that waits. One that is under way ends by itself."""

        async def work(tx: Transaction) -> None:
            told: list[Event] = []
            try:
                order = decode_order((await self._queue.find(tx, number)).payload)
            except NotFound:
                return
            await self._orders.withdraw(tx, number, order, why, told)
            await append_events(self._outbox, tx, told)

        await self._meta.transact(work)
