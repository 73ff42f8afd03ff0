"""Deletes leftovers of crashes: orphan blobs, abandoned uploads to the object store, expired results of uploads.

A blob is written before the transaction that references it, so a blob without a row may belong to a running request.
It is an orphan only after its bytes have been complete for the safety window, regardless of its upload's duration.

A server with the wrong metadata store would see only orphans. So each batch is deleted only after the ownership check,
and objects from before the store was attached are never orphans.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.core.ids import BlobId, UploadId, blob_age_ms, blob_created_ms
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.storage.folder.files import file_deletion_fields
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.ownership import BATCH, FIRST_KEYS, OwnedStore, Ownership, delete_listed
from lakebed.storage.seam import ObjectHead, ObjectStorage

from .. import rows
from ..multipart import RESULT_KEPT_MS
from .garbage_collection import BlobGarbageCollector
from .ingest import BLOBS_PREFIX

log = logging.getLogger("lakebed.objects")

_BATCH = 500
_BLOB_NAME = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep deleted."""

    garbage: int = 0
    orphans: int = 0
    stale_uploads: int = 0
    old_results: int = 0


class OrphanSweep:
    """Deletes leftovers of crashes."""

    def __init__(
        self,
        meta: MetaStore,
        storage: ObjectStorage,
        ownership: Ownership,
        garbage_collector: BlobGarbageCollector,
        clock: Clock,
        *,
        window_ms: int,
    ) -> None:
        self._meta = meta
        self._storage = storage
        self._ownership = ownership
        self._garbage_collector = garbage_collector
        self._clock = clock
        self._window_ms = window_ms

    async def sweep(self) -> SweepReport:
        """Sweep once. Raises StoreMismatch, before any deletion, if the store belongs to another deployment."""
        owned = await self._ownership.confirm()
        return SweepReport(
            garbage=await self._garbage_collector.sweep(),
            orphans=await self._orphans(owned),
            stale_uploads=await self._stale_uploads(),
            old_results=await self._old_results(),
        )

    async def _orphans(self, owned: OwnedStore) -> int:
        removed = 0
        batch: list[ObjectHead] = []
        async for head in self._storage.list_prefix(BLOBS_PREFIX):
            name = head.key.rpartition("/")[2]
            if not _BLOB_NAME.fullmatch(name) or self._is_young(BlobId(name), head):
                continue
            if not owned.may_delete(head) or blob_created_ms(BlobId(name)) < owned.since_ms:
                # The blob id is checked too: copying a store may reset modification times.
                continue
            if await self._meta.row(rows.BLOB_IS_LIVE, name, name) is None:
                batch.append(head)
            if len(batch) >= BATCH:
                removed += await self._delete_orphans(batch)
                batch = []
        removed += await self._delete_orphans(batch)
        if isinstance(self._storage, FolderStorage):
            await self._ownership.confirm()
            removed_files = await self._storage.sweep_temporary(self._window_ms)
            if removed_files:
                log.info("temporary files deleted", extra=file_deletion_fields(removed_files))
        return removed

    async def _delete_orphans(self, orphans: list[ObjectHead]) -> int:
        return await delete_listed(self._storage, self._ownership, orphans, log, "orphan blobs deleted")

    def _is_young(self, blob: BlobId, head: ObjectHead) -> bool:
        complete_for_ms = self._clock.now_ms() - head.modified_ms
        return min(blob_age_ms(blob, self._clock), complete_for_ms) < self._window_ms

    async def _stale_uploads(self) -> int:
        """Abort multipart uploads to the object store whose writer died."""
        aborted: list[str] = []
        async for upload in self._storage.list_uploads(BLOBS_PREFIX):
            is_stale = self._clock.now_ms() - upload.started_ms >= self._window_ms
            if is_stale and upload.started_ms >= (await self._ownership.confirm()).since_ms:
                await self._storage.abort_upload(upload.key, upload.upload_id)
                aborted.append(upload.key)
        if aborted:
            log.info("abandoned uploads aborted", extra={"count": len(aborted), "first_keys": aborted[:FIRST_KEYS]})
        return len(aborted)

    async def _old_results(self) -> int:
        """Delete results of completed uploads after `RESULT_KEPT_MS`."""
        before_ms = self._clock.now_ms() - RESULT_KEPT_MS

        async def work(tx: Transaction) -> int:
            found = await tx.rows(rows.FINISHED_UPLOADS, before_ms, _BATCH)
            for row in found:
                await tx.run(rows.DELETE_UPLOAD, UploadId(row[0]))
            return len(found)

        removed = 0
        while count := await self._meta.transact(work):
            removed += count
        return removed
