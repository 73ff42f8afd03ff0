"""Deletes blobs that no row references: soon after the commit that dropped them, or in a sweep after a crash."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.core.ids import BlobId
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.storage.ownership import FIRST_KEYS, Ownership
from lakebed.storage.seam import FileBacked, ObjectStorage

from .. import rows
from .ingest import blob_key

log = logging.getLogger("lakebed.objects")

_BATCH = 500
_GATHER_SECONDS = 0.05


class BlobGarbageCollector:
    """Deletes garbage blobs. One per process; the rows in `garbage` survive a crash."""

    def __init__(
        self, meta: MetaStore, storage: ObjectStorage, ownership: Ownership, clock: Clock, *, grace_ms: int
    ) -> None:
        self._meta = meta
        self._storage = storage
        self._ownership = ownership
        self._files: FileBacked | None = storage if isinstance(storage, FileBacked) else None
        self._clock = clock
        self._grace_ms = grace_ms
        self._new_garbage = asyncio.Event()
        self._fresh: list[BlobId] = []

    def wake(self, blobs: Iterable[BlobId]) -> None:
        """Schedule the deletion of blobs that just became garbage."""
        if self._grace_ms == 0:
            self._fresh.extend(blobs)
            self._new_garbage.set()

    async def run(self) -> None:
        """Delete new garbage as it arrives, until cancelled."""
        while True:
            await self._new_garbage.wait()
            # Gather blobs that arrive together into one batch.
            await asyncio.sleep(_GATHER_SECONDS)
            self._new_garbage.clear()
            batch, self._fresh = self._fresh[:_BATCH], self._fresh[_BATCH:]
            if self._fresh:
                self._new_garbage.set()
            try:
                await self._remove(batch)
            except LakebedError as error:
                # The rows remain, so the next sweep retries.
                log.warning("garbage deletion failed", extra={"blobs": len(batch)}, exc_info=error)
            except Exception:
                log.exception("garbage deletion crashed", extra={"blobs": len(batch)})

    async def sweep(self) -> int:
        """Delete all garbage that is due; the number of blobs."""
        removed = 0
        while True:
            found = await self._meta.rows(rows.DUE_GARBAGE, self._clock.now_ms(), _BATCH)
            if not found:
                return removed
            due = [BlobId(row[0]) for row in found]
            await self._remove(due)
            removed += len(due)
            log.info(
                "garbage blobs deleted",
                extra={
                    "count": len(due),
                    "bytes": sum(row[1] for row in found),
                    "first_keys": [blob_key(blob) for blob in due[:FIRST_KEYS]],
                },
            )

    async def _remove(self, blobs: list[BlobId]) -> None:
        # Bytes first: after a crash in between, the row is deleted later, and deleting an absent blob succeeds.
        keys = [blob_key(blob) for blob in blobs]
        await self._ownership.confirm()
        if self._files is not None:
            await asyncio.to_thread(self._files.remove_files, keys)
        else:
            await self._storage.delete_many(keys)

        async def work(tx: Transaction) -> None:
            for blob in blobs:
                await tx.run(rows.DELETE_GARBAGE, blob)

        await self._meta.transact(work)
