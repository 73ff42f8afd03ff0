"""Tiering and maintenance of lake tables as tasks in the common task queue."""

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
        """Queue a task; its number. A table has at most one open task of each job.

        Raises NoSuchCatalog; NotSupported if the catalog is federated.
        """
        ...

    async def withdraw(self, number: int, reason: str) -> None:
        """Remove a waiting task. Does nothing if it was claimed or does not exist."""
        ...


class TieringTasks:
    """Implements `TieringTaskQueue` for one catalog, in which each stream database is a namespace."""

    def __init__(
        self, meta: MetaStore, queue: TaskQueue, tasks: TableTasks, catalog: str, advertised: HostPort | None
    ) -> None:
        """`advertised` is the address of the stream server for workers; None: it is in their own settings."""
        self._meta = meta
        self._queue = queue
        self._tasks = tasks
        self._catalog = catalog
        self._advertised = advertised

    async def submit(self, database: str, table: str, reason: str) -> int:
        """Queue a tiering task of a table; its number. Raises NoSuchCatalog; NotSupported for a federated catalog."""
        options: dict[str, Option] = {"stream": f"{database}.{table}"}
        if self._advertised is not None:
            options["streams"] = str(self._advertised)
        return await self._place(JobKind.TIER_STREAM, database, table, reason, options)

    async def maintain(self, database: str, table: str, *, compact: bool, expire: bool) -> None:
        """Queue compaction or snapshot expiration of the Iceberg table. Raises as `submit`."""
        for job, is_requested in ((JobKind.COMPACT, compact), (JobKind.EXPIRE_SNAPSHOTS, expire)):
            if is_requested:
                await self._place(job, database, table, "maintenance after tiering, by the stream table's options", {})

    async def outcome(self, number: int) -> TaskOutcome:
        """The outcome of a task. An unknown task counts as given up."""
        try:
            task = await self._queue.find(self._meta, number)
        except NotFound:
            return TaskOutcome.GIVEN_UP
        return _OUTCOMES.get(task.state, TaskOutcome.OPEN)

    async def withdraw(self, number: int, reason: str) -> None:
        """Remove a waiting task. A claimed one continues."""
        await self._tasks.withdraw(number, reason)

    async def _place(self, job: JobKind, database: str, table: str, reason: str, options: dict[str, Option]) -> int:
        return await self._tasks.place(
            TaskSpec(
                job=job,
                warehouse=self._catalog,
                namespace=(database,),
                table=table,
                options=options,
                reason=reason,
                requested_by=_REQUESTED_BY,
            )
        )
