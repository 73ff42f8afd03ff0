"""The services of table maintenance on a fixed clock: policies, tables with real manifests, scheduler and queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakebed.catalog.entries import LiveEntry
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.maintenance.scheduler import CURSOR, Scheduler
from lakebed.catalog.maintenance.service import MaintenanceParts, build_maintenance
from lakebed.catalog.maintenance.table_planner import PlanningTotals, TablePlanner
from lakebed.catalog.maintenance.tasks.events import TaskEvent, decode_event
from lakebed.catalog.maintenance.tasks.history import TaskHistory
from lakebed.catalog.maintenance.tasks.queue import KINDS, TaskSubmissions
from lakebed.catalog.maintenance.tasks.service import TaskView
from lakebed.catalog.policies.attachments import TargetName
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.meta.leases import Leases
from lakebed.meta.seam import Transaction
from lakebed.meta.tasks import TaskState
from lakebed.objects.model import Caller
from tests.catalog.harness import CatalogHarness, name
from tests.catalog.policies.policy_catalog import NS, PolicyHarness, wire_policies
from tests.objects.stores import ROOT, ObjectStore

from .job_catalog import JobCatalog, wire_job_catalog

INTERVAL_SECONDS = 300.0
DEBOUNCE_SECONDS = 10.0

_NOT_OF_A_TABLE = ("job_speeds", "leases", "outbox_cursors")
"""Tables whose rows are not deleted with a bucket: a reused store still has them."""


@dataclass(frozen=True, slots=True)
class MaintainedCatalog:
    """The use cases, their dependencies, and helpers that call them as root."""

    job_catalog: JobCatalog
    policing: PolicyHarness
    parts: MaintenanceParts
    orders: TaskSubmissions
    records: TaskHistory
    planner: TablePlanner

    @property
    def catalog(self) -> CatalogHarness:
        return self.job_catalog.catalog

    @property
    def store(self) -> ObjectStore:
        return self.job_catalog.store

    @property
    def scheduler(self) -> Scheduler:
        return self.parts.scheduler

    def age(self, seconds: float) -> None:
        """Advance the clock."""
        self.store.clock.advance(seconds)

    # -- tables and policies --------------------------------------------------------------------------------------

    async def table(self, table: str = "t", *, files: int = 0, commits: int = 1, **request: Any) -> Identifier:
        """Create a table, and append a number of small files in a number of commits."""
        made = await self.job_catalog.table(table, **request)
        for _ in range(commits if files else 0):
            await self.job_catalog.append(made, files=files)
        return made

    async def known(self, table: str = "t") -> LiveEntry:
        """A table by name."""
        found = await self.catalog.entries.find(self.store.meta, "lake", name(table))
        assert found.live is not None
        return LiveEntry(found.catalog, found.namespace, found.live)

    async def policy(
        self,
        policy: str = "p",
        kind: str = "system.data-compaction",
        target: TargetName = NS,
        *,
        enable: bool = True,
        parameters: Mapping[str, str] | None = None,
        **config: Any,
    ) -> None:
        """Create and attach a policy; `_` in names of its config becomes `-`."""
        content = json.dumps({"enable": enable, "config": {key.replace("_", "-"): one for key, one in config.items()}})
        await self.policing.create(policy, kind, content)
        await self.policing.attach(policy, target, parameters)

    # -- the scheduler --------------------------------------------------------------------------------------------

    async def schedule(self, scheduler: Scheduler | None = None) -> PlanningTotals:
        """Run the scheduler until it has no work."""
        scheduler = scheduler or self.scheduler
        assert await scheduler.hold()
        total = PlanningTotals()
        while True:
            done = await scheduler.step()
            total = total.plus(done.planned)
            if not done.more and not done.planned.tables and not done.passed:
                return total

    def another_scheduler(self, holder: str = "other") -> Scheduler:
        """A scheduler of another process."""
        return Scheduler(
            self.store.object_context,
            self.catalog.entries,
            Leases(self.store.meta, self.store.clock),
            self.planner,
            holder,
            interval_seconds=INTERVAL_SECONDS,
            debounce_seconds=DEBOUNCE_SECONDS,
        )

    async def cursor(self) -> int:
        """The stored cursor of the scheduler."""
        position = await self.store.object_context.outbox.cursor(self.store.meta, CURSOR)
        assert position is not None
        return position

    # -- tasks ----------------------------------------------------------------------------------------------------

    async def open_tasks(self) -> list[TaskView]:
        """Waiting and running tasks."""
        seen = await self.parts.tasks.list(ROOT, limit=1000)
        return [one for one in seen if one.task.state in (TaskState.READY, TaskState.CLAIMED)]

    async def specs_in(self, state: TaskState = TaskState.READY) -> list[TaskSpec]:
        """The specifications of tasks in a state."""
        return [one.spec for one in await self.parts.tasks.list(ROOT, state=state, limit=1000)]

    async def lease(self, worker: str = "w", *jobs: JobKind, caller: Caller = ROOT) -> TaskView:
        """Lease one task."""
        (seen,) = await self.parts.tasks.lease(caller, worker, jobs, lease_seconds=60)
        return seen

    async def complete(self, seen: TaskView, **report: Any) -> None:
        """Complete a task."""
        document = json.dumps({key.replace("_", "-"): one for key, one in report.items()}).encode()
        await self.parts.tasks.complete(ROOT, seen.task.id, seen.task.token, document)

    async def events(self, after: int = 0) -> list[tuple[str, TaskEvent]]:
        """The task events after an event."""
        return [
            (entry.event.kind.removeprefix("lakebed:Task"), decode_event(entry.event.payload))
            for entry in await self.store.events(after)
            if entry.event.kind.startswith("lakebed:Task")
        ]


async def open_maintained_catalog(catalog: CatalogHarness) -> MaintainedCatalog:
    """Table maintenance on a catalog."""

    async def empty(tx: Transaction) -> None:
        for table in _NOT_OF_A_TABLE:
            await tx.run(f"DELETE FROM {table}")

    await catalog.store.meta.transact(empty)
    object_context = catalog.store.object_context
    orders, records = TaskSubmissions(object_context.outbox, object_context.clock, catalog.tasks), TaskHistory()
    return MaintainedCatalog(
        job_catalog=wire_job_catalog(catalog),
        policing=wire_policies(catalog),
        parts=build_maintenance(
            object_context,
            catalog.authorizer,
            catalog.catalogs,
            catalog.entries,
            catalog.files,
            catalog.tasks,
            holder="here",
            interval_seconds=INTERVAL_SECONDS,
            debounce_seconds=DEBOUNCE_SECONDS,
        ),
        orders=orders,
        records=records,
        planner=TablePlanner(object_context, catalog.entries, catalog.files, orders, records),
    )


__all__ = [
    "DEBOUNCE_SECONDS",
    "INTERVAL_SECONDS",
    "KINDS",
    "ROOT",
    "MaintainedCatalog",
    "name",
    "open_maintained_catalog",
]
