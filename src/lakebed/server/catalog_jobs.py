"""Periodic jobs of the catalog: dropped tables expire, purges and maintenance run, old rows are removed.

The maintenance scheduler runs here too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.catalog.locations.claims import LocationClaims
from lakebed.catalog.maintenance.jobs.background import BackgroundMaintenance, BackgroundReport
from lakebed.catalog.maintenance.scheduler import Scheduler
from lakebed.catalog.maintenance.table_planner import PlanningTotals
from lakebed.catalog.restrictions.copies import Copies
from lakebed.catalog.scans.scan_plans import ScanPlans
from lakebed.catalog.tables.drops import PURGE_KIND, Dropping
from lakebed.catalog.tables.metrics_reports import MetricsReports
from lakebed.catalog.tables.purging import PurgeWorker
from lakebed.core.clock import Clock
from lakebed.governance.delegation.delegations import DelegationLog
from lakebed.meta.tasks import TaskQueue

TASKS_KEPT_MS: Final = 30 * 86_400_000
"""How long ended tasks are kept, with their reports."""

_WAIT_SECONDS: Final = 60.0


class RemovedRows(NamedTuple):
    """Numbers of removed rows, by kind."""

    responses: int
    """Stored responses of idempotency keys."""
    reports: int
    """Reports of engines."""
    plans: int
    """Plans of scans."""
    tasks: int
    """Ended tasks."""
    delegations: int
    """Expired credentials and signatures."""
    copies: int = 0
    """Restricted copies of tables: tasks purge their files."""
    promises: int = 0
    """Reservations of directories for staged tables."""


@dataclass(frozen=True, slots=True)
class CatalogJobs:
    """The periodic jobs of the catalog."""

    dropping: Dropping
    keys: IdempotencyKeys
    reports: MetricsReports
    scans: ScanPlans
    copies: Copies
    claims: LocationClaims
    maintenance: BackgroundMaintenance
    purges: PurgeWorker
    tasks: TaskQueue
    scheduler: Scheduler
    clock: Clock
    delegations: DelegationLog
    trace_retention_seconds: float

    async def expire_dropped(self) -> int:
        """Expire dropped tables and views after their undrop window; returns their number."""
        total = 0
        while count := await self.dropping.expire_dropped():
            total += count
        return total

    async def remove_old(self) -> RemovedRows:
        """Remove expired rows."""
        before_ms = self.clock.now_ms() - TASKS_KEPT_MS
        tasks = 0
        while count := await self.tasks.forget_ended(before_ms=before_ms):
            tasks += count
        ended_ms = self.clock.now_ms() - round(self.trace_retention_seconds * 1000)
        delegations = 0
        while count := await self.delegations.delete_expired(before_ms=ended_ms):
            delegations += count
        delegations += await self.delegations.delete_unrecorded(before_ms=ended_ms)
        copies = 0
        while count := await self.copies.discard_unneeded():
            copies += count
        return RemovedRows(
            await self.keys.delete_expired(),
            await self.reports.delete_expired(),
            await self.scans.delete_expired(),
            tasks,
            delegations,
            copies,
            await self.claims.delete_expired(),
        )

    async def maintain(self) -> BackgroundReport:
        """Run the maintenance of tables that is due."""
        return await self.maintenance.run_due()

    async def schedule(self, report: Callable[[PlanningTotals], None]) -> None:
        """Run the maintenance scheduler, in one process of all; does not return."""
        await self.scheduler.run(report)

    async def purge_next(self) -> int:
        """Wait for purge tasks, and run them; returns their number, 0 on timeout.

        Every server process calls this in a loop: each task is run by one of them.
        """
        if not await self.tasks.wait_for_work([PURGE_KIND], _WAIT_SECONDS):
            return 0
        return await self.purges.run_due()
