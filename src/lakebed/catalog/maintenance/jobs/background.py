"""Background maintenance: runs jobs of tables that are due, purges quarantine, removes old jobs."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from lakebed.catalog.entries import Entries
from lakebed.core.access import root_of
from lakebed.core.errors import LakebedError, NotFound
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from . import rows
from .job_store import KEPT_MS, JobStore, StoredJob
from .model import JobStatus
from .quarantine import Quarantine
from .scheduling import JobScheduling

__all__ = ["BackgroundMaintenance", "BackgroundReport"]

log = logging.getLogger("lakebed.catalog")

IDLE_RECHECK_MS: Final = 86_400_000
"""How soon an idle table is run again: failed writers leave files behind without a commit."""

_PAGE: Final = 100


class BackgroundReport(NamedTuple):
    """What one pass did."""

    jobs: int = 0
    failed: int = 0
    deleted: int = 0
    quarantined: int = 0
    purged: int = 0


class BackgroundMaintenance:
    """Runs what is due, as a periodic job of the server."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        jobs: JobStore,
        scheduling: JobScheduling,
        quarantine: Quarantine,
        worker_id: str,
    ) -> None:
        self._f = object_context
        self._entries = entries
        self._jobs = jobs
        self._scheduling = scheduling
        self._quarantine = quarantine
        self._worker_id = worker_id

    async def run_due(self) -> BackgroundReport:
        """One pass over all tables that are due, one after the other."""
        report = BackgroundReport(purged=await self._quarantine.purge_due())
        clock = self._f.clock
        after = ""
        while True:
            now_ms = clock.now_ms()
            found = await self._f.meta.rows(rows.DUE_TABLES, now_ms, now_ms - IDLE_RECHECK_MS, after, _PAGE)
            for (entry_id,) in found:
                after = entry_id
                report = _sum(report, await self._run(entry_id))
            if len(found) < _PAGE:
                break
        await self._jobs.delete_expired(clock.now_ms() - KEPT_MS, clock.now_ms())
        return report

    async def _run(self, entry_id: str) -> StoredJob | None:
        """Run the job of a table; None if it could not run, or the table was dropped."""
        try:
            known = await self._entries.by_id(entry_id)
            system = Caller(root_of(known.catalog.bucket.owner))
            stored = await self._scheduling.work(system, known, self._worker_id)
        except NotFound:
            return None
        except LakebedError as error:
            # A concurrent commit, or a job that another worker took over: the next pass tries again.
            log.info("table maintenance postponed", extra={"table": entry_id, "reason": str(error)})
            await self._set_due(entry_id, self._f.clock.now_ms(), "")
            return None
        await self._plan_next(entry_id, stored)
        return stored

    async def _plan_next(self, entry_id: str, stored: StoredJob) -> None:
        now_ms = self._f.clock.now_ms()
        job, window_ms = stored.job, self._scheduling.safety_window_ms
        if job.next_retry_ms is not None:
            await self._set_due(entry_id, job.next_retry_ms, "")
            return
        waits = job.status is not JobStatus.SUCCESSFUL or stored.findings.pending
        # Young files are old enough one window later; a table without pending files waits for a commit.
        token = ""
        if not waits:
            token = (await self._entries.by_id(entry_id)).entry.version_token
        await self._set_due(entry_id, now_ms + window_ms, token)

    async def _set_due(self, entry_id: str, due_ms: int, idle_token: str) -> None:
        async def work(tx: Transaction) -> None:
            if await tx.row("SELECT 1 FROM entries WHERE id = ?", entry_id) is not None:
                await tx.run(rows.SET_DUE, entry_id, due_ms, idle_token)

        await self._f.meta.transact(work)


def _sum(report: BackgroundReport, stored: StoredJob | None) -> BackgroundReport:
    if stored is None:
        return report
    counts = stored.job.counts
    return report._replace(
        jobs=report.jobs + 1,
        failed=report.failed + (stored.job.status is JobStatus.FAILED),
        deleted=report.deleted + counts.deleted_metadata_files + counts.deleted_objects,
        quarantined=report.quarantined + counts.quarantined_objects,
    )
