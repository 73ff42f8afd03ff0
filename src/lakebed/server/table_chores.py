"""What the catalog does when nobody asks: dropped tables expire, purges run, maintenance is due, old answers go.

And what policies ask of the pipeline is planned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.governance.delegations import Delegations
from lakebed.meta.tasks import TaskQueue
from lakebed.tables.claims import Claims
from lakebed.tables.dropping import PURGE_KIND, Dropping
from lakebed.tables.idempotency import IdempotencyKeys
from lakebed.tables.maintenance.jobs.background import BackgroundMaintenance, BackgroundReport
from lakebed.tables.maintenance.scheduler import Scheduler
from lakebed.tables.maintenance.table_planner import PlanningTotals
from lakebed.tables.purging import PurgeWorker
from lakebed.tables.reports import Reports
from lakebed.tables.restrictions.copies import Copies
from lakebed.tables.scanning import Scans

TASKS_KEPT_MS: Final = 30 * 86_400_000
"""How long tasks are kept that have ended, with what they came to."""

_WAIT_SECONDS: Final = 60.0


class Forgotten(NamedTuple):
    """What was too old to be kept."""

    answers: int
    """Under idempotency keys."""
    reports: int
    """Of engines."""
    plans: int
    """Of scans."""
    tasks: int
    """That have ended."""
    delegations: int
    """Keys and signatures that nobody can use any more."""
    copies: int = 0
    """Of tables, for those who see a part of them: their files are purged by tasks."""
    promises: int = 0
    """Of directories to principals that staged tables there."""


@dataclass(frozen=True, slots=True)
class TableChores:
    """The chores of the catalog."""

    dropping: Dropping
    keys: IdempotencyKeys
    reports: Reports
    scans: Scans
    copies: Copies
    claims: Claims
    maintenance: BackgroundMaintenance
    purges: PurgeWorker
    tasks: TaskQueue
    scheduler: Scheduler
    clock: Clock
    delegations: Delegations
    trace_retention_seconds: float

    async def give_up_dropped(self) -> int:
        """Give up dropped tables and views that nobody restored in time; how many."""
        total = 0
        # A page at a time, until there is none.
        while count := await self.dropping.expire_dropped():
            total += count
        return total

    async def forget_old(self) -> Forgotten:
        """Remove what nobody asks for any more."""
        before_ms = self.clock.now_ms() - TASKS_KEPT_MS
        tasks = 0
        while count := await self.tasks.forget_ended(before_ms=before_ms):
            tasks += count
        ended_ms = self.clock.now_ms() - round(self.trace_retention_seconds * 1000)
        delegations = 0
        while count := await self.delegations.forget_ended(before_ms=ended_ms):
            delegations += count
        delegations += await self.delegations.forget_unrecorded(before_ms=ended_ms)
        copies = 0
        while count := await self.copies.discard_unneeded():
            copies += count
        return Forgotten(
            await self.keys.forget_old(),
            await self.reports.forget_old(),
            await self.scans.forget_old(),
            tasks,
            delegations,
            copies,
            await self.claims.forget_expired(),
        )

    async def maintain(self) -> BackgroundReport:
        """Run the maintenance of tables that is due."""
        return await self.maintenance.run_due()

    async def schedule(self, told: Callable[[PlanningTotals], None]) -> None:
        """Plan what the policies of tables ask for, in one process of all; does not return."""
        await self.scheduler.run(told)

    async def purge_next(self) -> int:
        """Wait until tables are to be purged, and purge them; how many, none if the time was over first.

        For every worker to call, again and again: each task is done by one of them.
        """
        if not await self.tasks.wait_for_work([PURGE_KIND], _WAIT_SECONDS):
            return 0
        return await self.purges.run_due()
