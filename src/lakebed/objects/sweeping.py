"""Finds what crashes leave behind: blobs nobody refers to, uploads of the byte store nobody ends, old results.

A blob is written before the transaction that refers to it, so a blob without a row may be on its way: only one whose
bytes were complete for the safety window is an orphan. How long its upload took before that does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakebed.core.clock import Clock
from lakebed.core.ids import BlobId, UploadId, blob_age_ms
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.storage.folder import FolderStorage
from lakebed.storage.seam import Key, ObjectHead, ObjectStorage

from . import rows
from .multipart import RESULT_KEPT_MS
from .reaper import BlobReaper

_BATCH = 500
_BLOB_NAME = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep removed."""

    garbage: int = 0
    orphans: int = 0
    stale_uploads: int = 0
    old_results: int = 0


class Sweeper:
    """Cleans up behind crashes."""

    def __init__(
        self, meta: MetaStore, storage: ObjectStorage, reaper: BlobReaper, clock: Clock, *, window_ms: int
    ) -> None:
        self._meta = meta
        self._storage = storage
        self._reaper = reaper
        self._clock = clock
        self._window_ms = window_ms

    async def sweep(self) -> SweepReport:
        """One pass over everything."""
        return SweepReport(
            garbage=await self._reaper.sweep(),
            orphans=await self._orphans(),
            stale_uploads=await self._stale_uploads(),
            old_results=await self._old_results(),
        )

    async def _orphans(self) -> int:
        removed = 0
        batch: list[Key] = []
        async for head in self._storage.list_prefix("blobs/"):
            name = head.key.rpartition("/")[2]
            if not _BLOB_NAME.fullmatch(name) or self._is_young(BlobId(name), head):
                continue
            if await self._meta.row(rows.BLOB_IS_LIVE, name, name) is None:
                batch.append(head.key)
            if len(batch) >= _BATCH:
                await self._storage.delete_many(batch)
                removed += len(batch)
                batch = []
        if batch:
            await self._storage.delete_many(batch)
        if isinstance(self._storage, FolderStorage):
            await self._storage.sweep_temporary(self._window_ms)
        return removed + len(batch)

    def _is_young(self, blob: BlobId, head: ObjectHead) -> bool:
        complete_for_ms = self._clock.now_ms() - head.modified_ms
        return min(blob_age_ms(blob, self._clock), complete_for_ms) < self._window_ms

    async def _stale_uploads(self) -> int:
        """Uploads into the byte store itself, whose writer died."""
        removed = 0
        async for upload in self._storage.list_uploads("blobs/"):
            if self._clock.now_ms() - upload.started_ms >= self._window_ms:
                await self._storage.abort_upload(upload.key, upload.upload_id)
                removed += 1
        return removed

    async def _old_results(self) -> int:
        """Completed uploads whose answer need not be repeated any more."""
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
