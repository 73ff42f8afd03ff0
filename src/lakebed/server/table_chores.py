"""What the catalog does when nobody asks: dropped tables expire, purges run, maintenance is due, old answers go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.meta.tasks import TaskQueue
from lakebed.tables.dropping import PURGE_KIND, Dropping
from lakebed.tables.idempotency import IdempotencyKeys
from lakebed.tables.maintenance.background import Background, BackgroundReport
from lakebed.tables.purging import PurgeWorker
from lakebed.tables.reports import Reports

_WAIT_SECONDS: Final = 60.0


class ChoreReport(NamedTuple):
    """What one pass did."""

    expired: int
    """Dropped tables and views whose time to be restored is over."""
    answers: int
    """Answers under idempotency keys that nobody can ask for any more."""
    reports: int
    """Reports of engines that are too old."""
    maintenance: BackgroundReport


@dataclass(frozen=True, slots=True)
class TableChores:
    """The chores of the catalog."""

    dropping: Dropping
    keys: IdempotencyKeys
    reports: Reports
    maintenance: Background
    purges: PurgeWorker
    tasks: TaskQueue

    async def run(self) -> ChoreReport:
        """One pass over all but purges."""
        expired = 0
        # A page at a time, until there is none.
        while count := await self.dropping.expire_dropped():
            expired += count
        return ChoreReport(
            expired, await self.keys.forget_old(), await self.reports.forget_old(), await self.maintenance.run_due()
        )

    async def purge_next(self) -> int:
        """Wait until tables are to be purged, and purge them; how many, none if the time was over first.

        For every worker to call, again and again: each task is done by one of them.
        """
        if not await self.tasks.wait_for_work([PURGE_KIND], _WAIT_SECONDS):
            return 0
        return await self.purges.run_due()
