"""Runs a job: plans, removes files unless it is a dry run, and records how it ended."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec

from lakebed.catalog.entries import Entries, LiveEntry
from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.tables.files import CatalogFiles
from lakebed.core.errors import CommitConflict, Fenced, LakebedError
from lakebed.iceberg.metadata import TableMetadata
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..reachability.removal_plan import RemovalPlan
from ..reachability.survey import Surveyor
from ..reachability.walking import LiveFiles, walker_of
from .job_store import JobStore, StoredJob
from .lifecycle import fail, succeed
from .model import Actor, AuditStep, Findings, JobRecord, MaintenanceJob, RemovalMode
from .removal import Remover
from .reports import findings_of, plan_counts, record_step, with_outcomes

__all__ = ["JobExecutor", "Surveyed", "planned"]


class Surveyed(NamedTuple):
    """A table and its removal plan."""

    known: LiveEntry
    table: TableMetadata
    plan: RemovalPlan


class JobExecutor:
    """Plans and runs jobs."""

    def __init__(self, object_context: ObjectContext, entries: Entries, files: CatalogFiles, jobs: JobStore) -> None:
        self._f = object_context
        self._entries = entries
        self._jobs = jobs
        self._files = files
        self._surveyor = Surveyor(object_context.meta, files)
        self._remover = Remover(object_context, jobs)

    async def live_files(self, entry_id: str, snapshot: Snapshot) -> LiveFiles:
        """The live files of a snapshot of a table."""
        return await walker_of(self._files, self._f.meta, entry_id).live_files(snapshot)

    async def table(self, known: LiveEntry) -> TableMetadata:
        """The current metadata of a table."""
        return (await self._entries.metadata(known.catalog, known.entry)).table

    async def survey(self, entry_id: str, *, retain_recent: int, watermark_ms: int) -> Surveyed:
        """Plan a removal on the current version of a table. Raises NotFound."""
        known = await self._entries.by_id(entry_id)
        table = await self.table(known)
        plan = await self._surveyor.plan(known, table, retain_recent=retain_recent, watermark_ms=watermark_ms)
        return Surveyed(known, table, plan)

    async def run(self, caller: Caller, record: JobRecord, actor: Actor) -> StoredJob:
        """Run a job that is running under its lease, to its end.

        A failure is recorded and returned as a failed job. Raises CommitConflict when the table changed, which is
        recorded too; Fenced when the lease was lost.
        """
        job = record.job
        try:
            surveyed = await self.survey(job.entry, retain_recent=job.retain_recent, watermark_ms=job.watermark_ms)
            plan = surveyed.plan
            if job.version_token not in ("", plan.version_token):
                raise CommitConflict("the table was changed since the job was planned", condition="version-token")
            findings = findings_of(plan)
            record = await self._note_plan(planned(job, plan), findings, actor)
            if job.operation is RemovalMode.DELETE:
                removal = await self._remover.remove(caller, record.job, plan)
                findings = with_outcomes(findings, removal.outcomes)
            return await self._succeed(caller, surveyed.known, record.job, findings, actor)
        except Fenced:
            raise
        except CommitConflict as error:
            await self._fail(job, str(error), actor)
            raise
        except LakebedError as error:
            return await self._fail(job, str(error), actor)
        except BaseException as error:
            # Also when the client disconnects: the table need not wait for the lease to expire.
            await asyncio.shield(self._fail(job, f"the worker ended: {type(error).__name__}", actor))
            raise

    async def _note_plan(self, job: MaintenanceJob, findings: Findings, actor: Actor) -> JobRecord:
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> JobRecord:
            record = await self._jobs.renew(tx, job)
            changed = record_step(
                record, msgspec.structs.replace(job, heartbeat_ms=now_ms), now_ms, actor, AuditStep.PLANNED
            )
            await self._jobs.change(tx, changed, now_ms, findings)
            return changed

        return await self._f.meta.transact(work)

    async def _succeed(
        self, caller: Caller, known: LiveEntry, job: MaintenanceJob, findings: Findings, actor: Actor
    ) -> StoredJob:
        f = self._f
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> StoredJob:
            record = await self._jobs.held(tx, job)
            done = succeed(record.job, record.job.counts, now_ms)
            changed = record_step(record, done, now_ms, actor, AuditStep.WORKER_SUCCEEDED)
            await self._jobs.finish(tx, changed, now_ms, findings)
            await append_catalog_event(
                f.outbox,
                tx,
                "TableMaintained",
                caller,
                now_ms,
                known.catalog.name,
                known.identifier.namespace,
                known.entry,
                operation=done.operation,
                facts=_facts(done),
            )
            return StoredJob(changed, findings)

        return await f.meta.transact(work)

    async def _fail(self, job: MaintenanceJob, reason: str, actor: Actor) -> StoredJob:
        f = self._f
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> StoredJob:
            record = await self._jobs.held(tx, job)
            changed = record_step(
                record, fail(record.job, reason, now_ms), now_ms, actor, AuditStep.WORKER_FAILED, reason
            )
            await self._jobs.finish(tx, changed, now_ms)
            return StoredJob(changed, (await self._jobs.find(tx, job.entry, job.id)).findings)

        return await f.meta.transact(work)


def planned(job: MaintenanceJob, plan: RemovalPlan) -> MaintenanceJob:
    """The job with the version and counts of its plan."""
    return msgspec.structs.replace(
        job,
        metadata_at=plan.metadata_at,
        generation=plan.generation,
        version_token=plan.version_token,
        watermark_ms=plan.watermark_ms,
        counts=plan_counts(plan),
    )


def _facts(job: MaintenanceJob) -> dict[str, str]:
    counts = job.counts
    return {
        "job": job.id,
        "deleted-metadata-files": str(counts.deleted_metadata_files),
        "deleted-objects": str(counts.deleted_objects),
        "quarantined-objects": str(counts.quarantined_objects),
    }
