"""Quarantine: files are moved aside instead of deleted, and later released or permanently removed.

A move touches rows only: the object under the new key refers to the content of the one under the old key. Each move
commits together with the row that records the old key, so a file is in exactly one of both places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from lakebed.catalog.locations.directories import QUARANTINE_FOLDER, entry_id_at
from lakebed.catalog.model import Catalog
from lakebed.meta.seam import Row, Transaction
from lakebed.objects import rows as object_rows
from lakebed.objects.buckets.bucket import Bucket, bucket_from
from lakebed.objects.context import ObjectContext
from lakebed.objects.deleting import is_protected
from lakebed.objects.events import emit_object_event
from lakebed.objects.model import MAX_KEY_BYTES, Caller, StoredObject
from lakebed.objects.publishing import NewGarbage, add_marker, current_of, make_current, remove_current

from ..reachability.files import ObjectKind
from . import rows
from .job_store import JobStore
from .lifecycle import settled
from .model import Actor, AuditStep, JobRecord, MaintenanceJob
from .reports import record_step

__all__ = ["Quarantine", "QuarantinedFile", "ReleaseOutcome", "move_to_quarantine", "quarantine_key", "remove_file"]

_BATCH_FILES: Final = 64
_PROTECTED_LONGER_MS: Final = 3_600_000
"""How long a purge is postponed for a file under object lock."""


class QuarantinedFile(NamedTuple):
    """A file in quarantine."""

    bucket: int
    held_key: str
    key: str
    entry: str
    job: str
    kind: ObjectKind
    size: int
    moved_ms: int
    purge_ms: int


class ReleaseOutcome(NamedTuple):
    """Numbers of files that were released or removed."""

    done: int
    kept: int
    """Still in quarantine: another file has the key, or object lock keeps it."""


def quarantine_key(catalog: Catalog, job_id: str, key: str) -> str:
    """The key of a file in quarantine: its own, below the job's folder, unless that is too long."""
    folder = f"{catalog.reserved_prefix}{QUARANTINE_FOLDER}{job_id}/"
    plain = f"{folder}{key}"
    if len(plain.encode("utf-8", "replace")) <= MAX_KEY_BYTES:
        return plain
    return f"{folder}{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()}"


async def move_to_quarantine(
    f: ObjectContext,
    tx: Transaction,
    catalog: Catalog,
    job: MaintenanceJob,
    current: StoredObject,
    kind: ObjectKind,
    now_ms: int,
    displaced: NewGarbage,
) -> None:
    """Put a copy of a file into quarantine, as a step of a transaction."""
    bucket, place = catalog.bucket, quarantine_key(catalog, job.id, current.key)
    # The modification time stays the time of the write.
    await _share(f, tx, bucket, current, place, current.modified_ms, displaced)
    purge_ms = now_ms + job.config.quarantine_retention_seconds * 1000
    held = QuarantinedFile(bucket.id, place, current.key, job.entry, job.id, kind, current.size, now_ms, purge_ms)
    await tx.run(rows.DELETE_QUARANTINED, bucket.id, place)
    await tx.run(rows.INSERT_QUARANTINED, *held)


async def remove_file(
    f: ObjectContext,
    tx: Transaction,
    bucket: Bucket,
    current: StoredObject,
    caller: Caller,
    now_ms: int,
    displaced: NewGarbage,
) -> None:
    """Remove a file as a client of the bucket would, as a step of a transaction."""
    if not bucket.keeps_versions:
        await remove_current(tx, bucket, current, displaced)
        await emit_object_event(f.outbox, tx, "ObjectRemoved:Delete", bucket, current, caller, now_ms)
        return
    marker = await add_marker(tx, bucket, current, current.key, bucket.new_version(f.clock), now_ms, displaced)
    await emit_object_event(f.outbox, tx, "ObjectRemoved:DeleteMarkerCreated", bucket, marker, caller, now_ms)


class Quarantine:
    """Releases files from quarantine, or removes them."""

    def __init__(self, object_context: ObjectContext, jobs: JobStore) -> None:
        self._f = object_context
        self._jobs = jobs

    async def held(self, job_id: str, limit: int) -> list[QuarantinedFile]:
        """The files of a job in quarantine, by key."""
        return [_quarantined_from(row) for row in await self._f.meta.rows(rows.QUARANTINED_BY_JOB, job_id, "", limit)]

    async def of_table(self, entry_id: str) -> list[tuple[str, int]]:
        """The jobs of a table with files in quarantine, latest first, and their number of files."""
        return [(str(job), int(count)) for job, count in await self._f.meta.rows(rows.QUARANTINED_OF_TABLE, entry_id)]

    async def restore(self, caller: Caller, job_id: str) -> ReleaseOutcome:
        """Move a job's files back. A file stays if its key is taken, or is no longer in the table's directories."""

        async def restore(tx: Transaction, one: QuarantinedFile, now_ms: int, displaced: NewGarbage) -> bool:
            return await self._restore(tx, caller, one, now_ms, displaced)

        return await self._all_of(job_id, restore, deletes=False)

    async def purge(self, job_id: str) -> ReleaseOutcome:
        """Remove a job's files permanently."""
        return await self._all_of(job_id, self._purge, deletes=True)

    async def purge_due(self) -> int:
        """Remove files whose retention has ended; returns their number."""
        total = 0
        while due := await self._f.meta.rows(rows.QUARANTINED_DUE, self._f.clock.now_ms(), _BATCH_FILES):
            held = [_quarantined_from(row) for row in due]
            total += (await self._each(held, self._purge, deletes=True, reason="quarantine retention is over")).done
        return total

    async def _all_of(self, job_id: str, release: _Release, *, deletes: bool) -> ReleaseOutcome:
        done = kept = 0
        after = ""
        while page := await self._f.meta.rows(rows.QUARANTINED_BY_JOB, job_id, after, _BATCH_FILES):
            after = page[-1][1]
            some = await self._each([_quarantined_from(row) for row in page], release, deletes=deletes)
            done, kept = done + some.done, kept + some.kept
        return ReleaseOutcome(done, kept)

    async def _each(
        self, held: Sequence[QuarantinedFile], release: _Release, *, deletes: bool, reason: str = ""
    ) -> ReleaseOutcome:
        f = self._f
        now_ms = f.clock.now_ms()
        displaced = NewGarbage(now_ms + f.garbage_grace_ms)

        async def work(tx: Transaction) -> ReleaseOutcome:
            displaced.blobs.clear()
            freed: dict[str, list[QuarantinedFile]] = {}
            for one in held:
                # A concurrent request may have released it.
                there = await tx.row(rows.QUARANTINED_BY_KEY, one.bucket, one.held_key) is not None
                if there and await release(tx, one, now_ms, displaced):
                    await tx.run(rows.DELETE_QUARANTINED, one.bucket, one.held_key)
                    freed.setdefault(one.job, []).append(one)
            for job_id, files in freed.items():
                await self._count(tx, job_id, files, now_ms, deletes=deletes, reason=reason)
            done = sum(map(len, freed.values()))
            return ReleaseOutcome(done, len(held) - done)

        outcome = await f.meta.transact(work)
        if displaced.blobs:
            f.garbage_collector.wake(displaced.blobs)
        return outcome

    async def _restore(
        self, tx: Transaction, caller: Caller, held: QuarantinedFile, now_ms: int, displaced: NewGarbage
    ) -> bool:
        f = self._f
        bucket = await _bucket(tx, held.bucket)
        stored = None if bucket is None else await current_of(tx, bucket, held.held_key)
        if bucket is None or stored is None:
            return True
        is_free = await current_of(tx, bucket, held.key) is None
        if not is_free or await entry_id_at(tx, bucket.id, held.key) != held.entry:
            return False
        # As written now, so that a new safety window begins.
        restored = await _share(f, tx, bucket, stored, held.key, now_ms, displaced)
        await remove_current(tx, bucket, stored, displaced)
        await emit_object_event(f.outbox, tx, "ObjectCreated:Copy", bucket, restored, caller, now_ms)
        return True

    async def _purge(self, tx: Transaction, held: QuarantinedFile, now_ms: int, displaced: NewGarbage) -> bool:
        bucket = await _bucket(tx, held.bucket)
        stored = None if bucket is None else await current_of(tx, bucket, held.held_key)
        if bucket is None or stored is None:
            return True
        if is_protected(stored, now_ms):
            await tx.run(rows.EXTEND_QUARANTINE, now_ms + _PROTECTED_LONGER_MS, held.bucket, held.held_key)
            return False
        await remove_current(tx, bucket, stored, displaced)
        return True

    async def _count(
        self, tx: Transaction, job_id: str, files: Sequence[QuarantinedFile], now_ms: int, *, deletes: bool, reason: str
    ) -> None:
        """Update the counts of the job; with a reason, add a step to its audit."""
        record = await self._jobs.record(tx, job_id)
        if record is None:
            return
        counts = record.job.counts
        counts = msgspec.structs.replace(counts, quarantined_objects=max(0, counts.quarantined_objects - len(files)))
        if deletes:
            metadata = sum(one.kind is ObjectKind.METADATA_FILE for one in files)
            counts = msgspec.structs.replace(
                counts,
                deleted_metadata_files=counts.deleted_metadata_files + metadata,
                deleted_objects=counts.deleted_objects + len(files) - metadata,
            )
        job = settled(record.job, counts=counts)
        changed = (
            record_step(record, job, now_ms, Actor.SCHEDULER, AuditStep.QUARANTINE_PURGED, reason)
            if reason
            else JobRecord(job=job, audit=record.audit)
        )
        await self._jobs.change(tx, changed, now_ms)


_Release = Callable[[Transaction, QuarantinedFile, int, NewGarbage], Awaitable[bool]]
"""Releases or removes one file inside a transaction; whether it left the quarantine."""


async def _share(
    f: ObjectContext,
    tx: Transaction,
    bucket: Bucket,
    current: StoredObject,
    key: str,
    modified_ms: int,
    displaced: NewGarbage,
) -> StoredObject:
    """Create an object under another key with the same content and metadata."""
    if current.content is not None:
        await tx.run(object_rows.SHARE_CONTENT, current.content)
    copy = current._replace(key=key, rank=0, version=bucket.new_version(f.clock), modified_ms=modified_ms)
    return await make_current(tx, bucket, await current_of(tx, bucket, key), copy, displaced)


async def _bucket(tx: Transaction, bucket_id: int) -> Bucket | None:
    row = await tx.row(rows.BUCKET_BY_ID, bucket_id)
    return None if row is None else bucket_from(row)


def _quarantined_from(row: Row) -> QuarantinedFile:
    return QuarantinedFile(*row)._replace(kind=ObjectKind(row[5]))
