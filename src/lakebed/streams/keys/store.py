"""Where the indexes of buckets are: each in a folder of its own, sharing the memory they may have.

One that is not there, because the disk is another or was lost, is made of its newest snapshot in the byte store.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lakebed.streams.keys.bucket import KeyBucket, LearnSchema, open_keys
from lakebed.streams.keys.counting import Counter
from lakebed.streams.keys.key_rows import KeyRows
from lakebed.streams.keys.rocks import RocksIndex, RocksMemory
from lakebed.streams.keys.snapshots import Fence
from lakebed.streams.keys.snapshotting import KeySnapshotting
from lakebed.streams.keys.table import KeyedTable
from lakebed.streams.seam import BucketLog, TableBucket

__all__ = ["KeyStore"]


class KeyStore:
    """Opens the keys of buckets under a folder."""

    def __init__(
        self, folder: Path, memory: RocksMemory | None = None, snapshotting: KeySnapshotting | None = None
    ) -> None:
        """Without `snapshotting` no snapshots are taken, and an index that is lost is replayed from the whole log."""
        self._folder = folder
        self._memory = memory or RocksMemory()
        self._snapshotting = snapshotting
        self._open: dict[TableBucket, RocksIndex] = {}
        self._in_snapshots: dict[TableBucket, int] = {}

    async def open(
        self,
        table: KeyedTable,
        bucket: TableBucket,
        log: BucketLog,
        learn: LearnSchema,
        counter: Counter | None = None,
        rows: KeyRows | None = None,
    ) -> KeyBucket:
        """The keys of a bucket, with all that its log has. Reasons: KEY_STORAGE."""
        path = self._path(bucket)
        if self._snapshotting is not None:
            self._in_snapshots[bucket] = await self._snapshotting.covered(bucket)
            if not await asyncio.to_thread(path.exists):
                await self._snapshotting.restore(bucket, path)
        index = await asyncio.to_thread(RocksIndex, path, self._memory)
        try:
            keys = await open_keys(table, log, index, learn, counter, rows)
        except BaseException:
            await asyncio.to_thread(index.close)
            raise
        self._open[bucket] = index
        return keys

    def needs_from(self, bucket: TableBucket) -> int:
        """From where on the log of an open bucket has to be kept as it was appended, or its keys could be lost.

        That is what is in no snapshot, since the disk may be lost; where none are taken, what is not on disk.
        """
        return self._open[bucket].flushed_offset if self._snapshotting is None else self._in_snapshots[bucket]

    async def take_snapshots(self, fence: Fence) -> int:
        """Take a snapshot of every open bucket that changed since its last; how many were taken. Raises Fenced."""
        taken = 0
        for bucket, index in list(self._open.items()):
            if index.is_closed:
                self._open.pop(bucket, None)
            elif self._snapshotting is not None:
                snapshot = await self._snapshotting.take(bucket, index, fence)
                if snapshot is not None:
                    self._in_snapshots[bucket] = snapshot.log_offset
                    taken += 1
        return taken

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove what is stored of a table, or of one of its partitions, whose buckets are closed. Idempotent."""
        folder = self._folder / str(table_id)
        await asyncio.to_thread(RocksIndex.remove, folder if partition_id is None else folder / f"p{partition_id}")
        if self._snapshotting is not None:
            await self._snapshotting.remove(table_id, partition_id)

    def _path(self, bucket: TableBucket) -> Path:
        folder = self._folder / str(bucket.table_id)
        if bucket.partition_id is not None:
            folder /= f"p{bucket.partition_id}"
        return folder / str(bucket.bucket)
