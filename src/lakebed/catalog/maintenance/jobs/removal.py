"""Carries out a removal plan: removes files, or moves them to quarantine, in batches.

Each batch is one transaction that checks again: the lease of the job, the version of the table, and for each file that
it is in the table's own directories, unchanged since the plan, and old enough.

A file that one version does not need may be named by the next: a commit may name any file that it finds. A batch that
removes files therefore moves the table to a new version with the same metadata. A commit that was validated before,
while the file existed, is not published; it is validated again, and its error names the missing file. A commit that was
first makes the batch fail. In both cases no table refers to a removed file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import msgspec

from lakebed.catalog import rows as catalog_rows
from lakebed.catalog.entries import LiveEntry, live_entry_from
from lakebed.catalog.model import Catalog, Entry
from lakebed.core.errors import AccessDenied, CommitConflict
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller
from lakebed.objects.publishing import NewGarbage, current_of

from ..reachability.files import ObjectKind, ObjectReport, ObjectState, Reason
from ..reachability.removal_plan import RemovalPlan
from . import rows
from .job_store import JobStore
from .model import FileCounts, JobRecord, MaintenanceJob
from .quarantine import move_to_quarantine, remove_file

__all__ = ["OPERATION", "Removal", "Remover"]

OPERATION: Final = "remove-unreferenced-files"
"""The operation in the commit log of a version that changes files only."""

_BATCH_FILES: Final = 64
"""Files per transaction: few enough that other requests run in between."""
_PAUSE: Final = 3.0
"""The pause between batches, as a multiple of a batch's duration, so that commits to the table are not starved."""
_LONGEST_PAUSE_SECONDS: Final = 1.0


@dataclass(slots=True)
class Removal:
    """The progress of a removal."""

    version_token: str
    """The version that the table must be at for the next batch."""
    generation: int | None = None
    """The generation that the removal created, if any."""
    outcomes: dict[str, tuple[ObjectState, Reason]] = field(default_factory=dict)
    """Outcomes by location."""


class Remover:
    """Removes the files that a plan allows."""

    def __init__(self, object_context: ObjectContext, jobs: JobStore) -> None:
        self._f = object_context
        self._jobs = jobs

    async def remove(self, caller: Caller, job: MaintenanceJob, plan: RemovalPlan) -> Removal:
        """Remove what is deletable. Raises CommitConflict when the table changed, Fenced when the lease was lost.

        What was removed before it raised stays removed, and is counted in the job.
        """
        clock = self._f.clock
        removal = Removal(plan.version_token)
        deletable = plan.deletable
        for start in range(0, len(deletable), _BATCH_FILES):
            began = clock.monotonic()
            await self._batch(caller, job, plan, deletable[start : start + _BATCH_FILES], removal)
            if start + _BATCH_FILES < len(deletable):
                await asyncio.sleep(min(_LONGEST_PAUSE_SECONDS, _PAUSE * (clock.monotonic() - began)))
        return removal

    async def _batch(
        self,
        caller: Caller,
        job: MaintenanceJob,
        plan: RemovalPlan,
        deletable: Sequence[ObjectReport],
        removal: Removal,
    ) -> None:
        f = self._f
        now_ms = f.clock.now_ms()
        displaced = NewGarbage(now_ms + f.garbage_grace_ms)
        next_token = uuid4().hex

        async def work(tx: Transaction) -> tuple[dict[str, tuple[ObjectState, Reason]], int | None]:
            displaced.blobs.clear()
            record = await self._jobs.renew(tx, job)
            known = await self._unmoved(tx, job.entry, removal.version_token)
            entry = known.entry
            prefixes = tuple(str(row[0]) for row in await tx.rows(catalog_rows.LOCATIONS_OF, entry.id))
            outcomes: dict[str, tuple[ObjectState, Reason]] = {}
            for one in deletable:
                outcomes[one.location] = await self._one(
                    tx, caller, record.job, known.catalog, prefixes, plan, one, now_ms, displaced
                )
            generation = removal.generation
            removed = [one for one in deletable if outcomes[one.location][0] is not ObjectState.RETAINED]
            if removed:
                generation = await self._move_on(tx, record.job, entry, generation, next_token, now_ms)
            counts = _counted(record.job.counts, removed, outcomes)
            changed = msgspec.structs.replace(record.job, counts=counts, heartbeat_ms=now_ms)
            await self._jobs.change(tx, JobRecord(job=changed, audit=record.audit), now_ms)
            return outcomes, generation

        outcomes, generation = await f.meta.transact(work)
        if displaced.blobs:
            f.garbage_collector.wake(displaced.blobs)
        if any(state is not ObjectState.RETAINED for state, _ in outcomes.values()):
            removal.version_token, removal.generation = next_token, generation
        removal.outcomes.update(outcomes)

    async def _unmoved(self, tx: Transaction, entry_id: str, version_token: str) -> LiveEntry:
        row = await tx.row(catalog_rows.ENTRY_BY_ID, entry_id)
        known = None if row is None else live_entry_from(row)
        if known is None or known.entry.version_token != version_token:
            raise CommitConflict(
                "the table was changed or dropped since the plan was made: plan again", condition="version-token"
            )
        return known

    async def _one(
        self,
        tx: Transaction,
        caller: Caller,
        job: MaintenanceJob,
        catalog: Catalog,
        prefixes: tuple[str, ...],
        plan: RemovalPlan,
        candidate: ObjectReport,
        now_ms: int,
        displaced: NewGarbage,
    ) -> tuple[ObjectState, Reason]:
        planned, bucket = plan.files[candidate.location], catalog.bucket
        key = planned.key
        if not key.startswith(prefixes) or key.startswith(catalog.reserved_prefix):
            return ObjectState.RETAINED, Reason.CHANGED_SINCE_PLAN
        current = await current_of(tx, bucket, key)
        if (
            current is None
            or current.modified_ms > plan.watermark_ms
            or (current.etag, current.modified_ms) != (planned.etag, planned.modified_ms)
        ):
            return ObjectState.RETAINED, Reason.CHANGED_SINCE_PLAN
        try:
            # Another table may be registered with a metadata file of this one.
            await self._f.table_buckets.check_write(tx, bucket, key)
        except AccessDenied:
            return ObjectState.RETAINED, Reason.IN_USE
        if job.config.quarantine_enabled:
            await move_to_quarantine(self._f, tx, catalog, job, current, candidate.kind, now_ms, displaced)
        await remove_file(self._f, tx, bucket, current, caller, now_ms, displaced)
        if job.config.quarantine_enabled:
            return ObjectState.QUARANTINED, Reason.QUARANTINE_ENABLED
        return ObjectState.DELETED, Reason.DELETED_BY_MAINTENANCE

    async def _move_on(
        self, tx: Transaction, job: MaintenanceJob, entry: Entry, generation: int | None, token: str, now_ms: int
    ) -> int:
        """Give the table a new version with the same metadata; its generation."""
        number = entry.generation + 1 if generation is None else generation
        await tx.run(rows.NEXT_VERSION, token, number, entry.id, entry.version_token)
        if generation is not None:
            # All batches of a job are one row of the commit log, with the version of the last.
            await tx.run(rows.LOG_VERSION, token, token, entry.id, number)
            return number
        await tx.run(
            catalog_rows.INSERT_COMMIT,
            entry.id,
            number,
            token,
            OPERATION,
            job.worker_id,
            entry.metadata_at,
            entry.metadata_at,
            entry.version_token,
            token,
            "",
            b"[]",
            now_ms,
        )
        return number


def _counted(
    counts: FileCounts, removed: Sequence[ObjectReport], outcomes: dict[str, tuple[ObjectState, Reason]]
) -> FileCounts:
    held = sum(outcomes[one.location][0] is ObjectState.QUARANTINED for one in removed)
    deleted = [one for one in removed if outcomes[one.location][0] is ObjectState.DELETED]
    metadata = sum(one.kind is ObjectKind.METADATA_FILE for one in deleted)
    return msgspec.structs.replace(
        counts,
        deleted_metadata_files=counts.deleted_metadata_files + metadata,
        deleted_objects=counts.deleted_objects + len(deleted) - metadata,
        quarantined_objects=counts.quarantined_objects + held,
    )
