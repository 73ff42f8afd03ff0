"""Tiering rounds as tasks of the pipeline: workers take them from the one task queue."""

from __future__ import annotations

from typing import Final, Protocol

from lakebed.core.errors import NotFound
from lakebed.core.jobs import JobKind, Option, TaskSpec
from lakebed.core.settings import HostPort
from lakebed.meta.seam import MetaStore
from lakebed.meta.tasks import TaskQueue, TaskState

from .planner import TaskOutcome

__all__ = ["TableTasks", "TieringTasks"]

_OUTCOMES: Final = {TaskState.DONE: TaskOutcome.DONE, TaskState.DEAD: TaskOutcome.GIVEN_UP}

_REQUESTED_BY: Final = "scheduler"
"""As in tasks that the maintenance scheduler plans."""


class TableTasks(Protocol):
    """Tasks of Iceberg tables in the queue."""

    async def place(self, spec: TaskSpec) -> int:
        """Put an order into the queue; the number of its task. A table has at most one open task of a job.

        Raises NoSuchCatalog; NotSupported if the catalog is federated.
        """
        ...

    async def withdraw(self, number: int, reason: str) -> None:
        """Remove a waiting task. Does nothing to one that was claimed or is not there."""
        ...


class TieringTasks:
    """Implements `Rounds` for one warehouse, in which each stream database is a namespace."""

    def __init__(
        self, meta: MetaStore, queue: TaskQueue, tasks: TableTasks, warehouse: str, advertised: HostPort | None
    ) -> None:
        """`advertised` is the address of streams for workers; None: they have it from their own settings."""
        self._meta = meta
        self._queue = queue
        self._tasks = tasks
        self._warehouse = warehouse
        self._advertised = advertised

    async def ask(self, database: str, table: str, reason: str) -> int:
        """Plan a tiering task of a table; its number. Raises NoSuchCatalog; NotSupported for a federated catalog."""
        options: dict[str, Option] = {"stream": f"{database}.{table}"}
        if self._advertised is not None:
            options["streams"] = str(self._advertised)
        return await self._place(JobKind.TIER_STREAM, database, table, reason, options)

    async def tidy(self, database: str, table: str, *, compact: bool, expire: bool) -> None:
        """Plan compaction or snapshot expiration of the Iceberg table. Raises as `ask`."""
        for job, is_meant in ((JobKind.COMPACT, compact), (JobKind.EXPIRE_SNAPSHOTS, expire)):
            if is_meant:
                await self._place(job, database, table, "the stream's table asks for it after tiering", {})

    async def outcome(self, number: int) -> TaskOutcome:
        """State of a task. One that is no longer known counts as given up."""
        try:
            task = await self._queue.find(self._meta, number)
        except NotFound:
            return TaskOutcome.GIVEN_UP
        return _OUTCOMES.get(task.state, TaskOutcome.OPEN)

    async def withdraw(self, number: int, why: str) -> None:
        """Remove a waiting task. One that is under way ends by itself."""
        await self._tasks.withdraw(number, why)

    async def _place(self, job: JobKind, database: str, table: str, reason: str, options: dict[str, Option]) -> int:
        return await self._tasks.place(
            TaskSpec(
                job=job,
                warehouse=self._warehouse,
                namespace=(database,),
                table=table,
                options=options,
                reason=reason,
                requested_by=_REQUESTED_BY,
            )
        )
