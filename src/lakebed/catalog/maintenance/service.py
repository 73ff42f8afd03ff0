"""Use cases of table maintenance: table health, and the plan of a table's policies; and their wiring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.core.errors import NoSuchNamespace
from lakebed.core.jobs import TaskSpec
from lakebed.meta.leases import Leases
from lakebed.meta.outbox import OutboxEvent
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskQueue
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer, ServerAction
from ..catalogs.service import CatalogService
from ..entries import Entries, LiveEntry, live_entry_from
from ..identifiers import Identifier, Levels, display, path_of
from ..model import EntryKind
from ..tables.files import CatalogFiles
from .health import TableHealth, health_from_files, health_from_summary
from .scheduler import Scheduler
from .table_planner import TablePlan, TablePlanner
from .tasks.authorization import TaskAuthorization
from .tasks.events import append_events
from .tasks.history import TaskHistory
from .tasks.queue import TaskSubmissions
from .tasks.service import TaskService

__all__ = ["HealthPage", "MaintenanceParts", "SubmittedTask", "TableMaintenance", "build_maintenance"]


@dataclass(frozen=True, slots=True)
class HealthPage:
    """A page of tables, ordered by id."""

    tables: list[TableHealth]
    last_id: str
    """The next page begins after it."""
    truncated: bool


class SubmittedTask(NamedTuple):
    """An open task of the table."""

    task_id: int
    spec: TaskSpec


class TableMaintenance:
    """Reports table health, and plans tables on request."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        entries: Entries,
        planner: TablePlanner,
        submissions: TaskSubmissions,
        history: TaskHistory,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._entries = entries
        self._planner = planner
        self._submissions = submissions
        self._history = history

    async def health(self, caller: Caller, catalog_name: str, identifier: Identifier) -> TableHealth:
        """The health of a table, by its files, or by its summary if it has too many. Reads every manifest."""
        known = await self._entries.get(caller, catalog_name, identifier, EntryKind.TABLE, Action.GET_MAINTENANCE)
        table = (await self._entries.metadata(known.catalog, known.entry)).table
        maintained = (await self._maintained([known])).get(known.entry.id, {})
        snapshot = table.current_snapshot
        if snapshot is None:
            return health_from_summary(known, table, last_maintained=maintained)
        live = await self._planner.live_files(known.entry.id, snapshot)
        if live.problems and not live.data:
            return health_from_summary(known, table, last_maintained=maintained, manifests=live.manifests)
        return health_from_files(known, table, live, last_maintained=maintained)

    async def list_health(
        self, caller: Caller, catalog_name: str, namespace: Levels = (), *, after: str = "", limit: int = 100
    ) -> HealthPage:
        """The health of the tables of a table bucket or namespace that the caller can read, by their summaries.

        Raises NoSuchNamespace.
        """
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, Action.LIST_TABLES, namespace=namespace)
        if namespace:
            path = path_of(namespace)
            if await self._f.meta.row(rows.NAMESPACE, catalog.id, path) is None:
                raise NoSuchNamespace(f"Namespace does not exist: {display(namespace)}")
            found = await self._f.meta.rows(rows.TABLES_OF_NAMESPACE_AFTER, catalog_name, path, after, limit + 1)
        else:
            found = await self._f.meta.rows(rows.TABLES_OF_CATALOG_AFTER, catalog_name, after, limit + 1)
        page = [live_entry_from(row) for row in found[:limit]]
        readable = [known for known in page if await self._can_read(caller, known)]
        maintained = await self._maintained(readable)
        tables = [
            health_from_summary(
                known,
                (await self._entries.peek_metadata(known.catalog, known.entry)).table,
                last_maintained=maintained.get(known.entry.id),
            )
            for known in readable
        ]
        return HealthPage(tables, page[-1].entry.id if page else after, len(found) > limit)

    async def plan(self, caller: Caller, catalog_name: str, identifier: Identifier) -> TablePlan:
        """The tasks that a table's policies require now, and the policies that are skipped. Changes nothing."""
        known = await self._entries.get(caller, catalog_name, identifier, EntryKind.TABLE, Action.GET_MAINTENANCE)
        (plan,) = await self._planner.plan_tables([known], force=True)
        return plan

    async def plan_now(
        self, caller: Caller, catalog_name: str, identifier: Identifier
    ) -> tuple[TablePlan, list[SubmittedTask]]:
        """Plan a table without waiting for the scheduler; the plan and the open tasks of the table."""
        await self._authorizer.check_server(caller, ServerAction.SUBMIT_TASK)
        known = await self._entries.get(caller, catalog_name, identifier, EntryKind.TABLE, Action.RUN_MAINTENANCE)
        (plan,) = await self._planner.plan_tables([known], force=True)

        async def work(tx: Transaction) -> None:
            events: list[OutboxEvent] = []
            await self._planner.apply(tx, [plan], events)
            await append_events(self._f.outbox, tx, events)

        await self._f.meta.transact(work)
        opened = (await self._submissions.open_for(self._f.meta, [known.entry.id])).get(known.entry.id, ())
        return plan, [SubmittedTask(one.task.id, one.spec) for one in opened]

    async def _can_read(self, caller: Caller, known: LiveEntry) -> bool:
        return await self._authorizer.allows(
            caller, known.catalog, Action.GET_MAINTENANCE, namespace=known.namespace.levels, entry=known.entry
        )

    async def _maintained(self, tables: list[LiveEntry]) -> dict[str, dict[str, int]]:
        """When each job last succeeded, by table and job."""
        runs = await self._history.runs(self._f.meta, [known.entry.id for known in tables])
        return {
            entry: {job.value: run.succeeded_ms for job, run in by_job.items() if run.succeeded_ms is not None}
            for entry, by_job in runs.items()
        }


@dataclass(frozen=True, slots=True)
class MaintenanceParts:
    """The use cases, and the scheduler that the server runs."""

    maintenance: TableMaintenance
    tasks: TaskService
    scheduler: Scheduler


def build_maintenance(
    object_context: ObjectContext,
    authorizer: CatalogAuthorizer,
    catalogs: CatalogService,
    entries: Entries,
    files: CatalogFiles,
    queue: TaskQueue,
    *,
    holder: str,
    interval_seconds: float,
    debounce_seconds: float,
) -> MaintenanceParts:
    """Table maintenance on the services of the catalog."""
    history, submissions = TaskHistory(), TaskSubmissions(object_context.outbox, object_context.clock, queue)
    planner = TablePlanner(object_context, entries, files, submissions, history)
    admission = TaskAuthorization(object_context, authorizer, catalogs, entries, history)
    return MaintenanceParts(
        maintenance=TableMaintenance(object_context, authorizer, catalogs, entries, planner, submissions, history),
        tasks=TaskService(object_context, authorizer, entries, queue, admission, submissions, history),
        scheduler=Scheduler(
            object_context,
            entries,
            Leases(object_context.meta, object_context.clock),
            planner,
            holder,
            interval_seconds=interval_seconds,
            debounce_seconds=debounce_seconds,
        ),
    )
