"""Opens the KV indexes of buckets, each in its own folder, with shared memory.

A missing index (another or lost disk) is restored from its newest snapshot in the object store. So is a stale one:
another server led meanwhile, and the log may not have the changes in between, or never had some of the index's changes.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

from lakebed.core.errors import Fenced
from lakebed.storage.folder.files import remove_logged
from lakebed.streams.log.local.recovery import replace_file
from lakebed.streams.seam import BucketLog, TableBucket

from ..auto_increment import AutoIncrement
from ..bucket import FindSchema, KvBucket, open_kv_bucket
from ..key_only_rows import KeyOnlyRows
from ..snapshot_files import KvSnapshotter
from ..snapshots import Fence
from ..table import KvTable
from .rocksdb import RocksIndex, RocksMemory

__all__ = ["KvStore", "SnapshotCounts"]

_logger = logging.getLogger("lakebed.streams")


class SnapshotCounts(NamedTuple):
    """The number of snapshots taken, and of buckets that failed."""

    taken: int
    failed: int


class KvStore:
    """Opens the KV indexes of buckets under a folder."""

    def __init__(
        self, folder: Path, memory: RocksMemory | None = None, snapshotter: KvSnapshotter | None = None
    ) -> None:
        """Without `snapshotter` no snapshots are taken, and a lost index is replayed from the whole log."""
        self._folder = folder
        self._memory = memory or RocksMemory()
        self._snapshotter = snapshotter
        self._open: dict[TableBucket, RocksIndex] = {}
        self._snapshot_offsets: dict[TableBucket, int] = {}

    async def open(
        self,
        table: KvTable,
        bucket: TableBucket,
        log: BucketLog,
        find_schema: FindSchema,
        auto_increment: AutoIncrement | None = None,
        rows: KeyOnlyRows | None = None,
        *,
        incarnation: str = "",
    ) -> KvBucket:
        """Open a bucket's KV index and replay its log. Error codes: KV_STORAGE.

        `incarnation` identifies the local log: an index of another one is discarded.
        """
        path = self._path(bucket)
        if self._snapshotter is not None:
            self._snapshot_offsets[bucket] = await self._snapshotter.latest_offset(bucket)
        if await asyncio.to_thread(_incarnation, path) != incarnation:
            await self._recreate(bucket, path, incarnation)
        index = await asyncio.to_thread(RocksIndex, path, self._memory)
        if not self._snapshot_offsets.get(bucket, 0) <= index.log_offset <= log.end_offset:
            await asyncio.to_thread(index.close)
            await self._recreate(bucket, path, incarnation)
            index = await asyncio.to_thread(RocksIndex, path, self._memory)
        try:
            kv = await open_kv_bucket(table, log, index, find_schema, auto_increment, rows)
        except BaseException:
            await asyncio.to_thread(index.close)
            raise
        self._open[bucket] = index
        return kv

    async def _recreate(self, bucket: TableBucket, path: Path, incarnation: str) -> None:
        """Replace the index by the newest snapshot, or an empty index."""
        await asyncio.to_thread(_discard, path)
        if self._snapshotter is not None:
            await self._snapshotter.restore(bucket, path)
        await asyncio.to_thread(_write_marker, path, incarnation)

    def required_offset(self, bucket: TableBucket) -> int:
        """The offset from which an open bucket's log must be kept as appended, to restore the index.

        The end of the newest snapshot, since the disk may be lost; without snapshots, what is flushed to disk.
        """
        return self._open[bucket].flushed_offset if self._snapshotter is None else self._snapshot_offsets[bucket]

    async def take_snapshots(self, fence: Fence) -> SnapshotCounts:
        """Take a snapshot of every open bucket that changed since its last one. Raises Fenced.

        A failure of one bucket does not affect the others.
        """
        taken = failed = 0
        for bucket, index in list(self._open.items()):
            if index.is_closed:
                self._open.pop(bucket, None)
            elif self._snapshotter is not None:
                try:
                    snapshot = await self._snapshotter.take(bucket, index, fence)
                except Fenced:
                    raise
                except Exception as error:
                    # Any error: RocksDB has no error types, and the bucket may be closed meanwhile.
                    failed += not index.is_closed
                    _logger.warning("KV snapshot failed", extra={"bucket": str(bucket)}, exc_info=error)
                    continue
                if snapshot is not None:
                    self._snapshot_offsets[bucket] = snapshot.log_offset
                    taken += 1
        return SnapshotCounts(taken, failed)

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove the indexes and snapshots of a table or partition whose buckets are closed. Idempotent."""
        folder = self._folder / str(table_id)
        path = folder if partition_id is None else folder / f"p{partition_id}"
        await asyncio.to_thread(remove_logged, str(path), _logger, "local KV index of a dropped table deleted")
        if self._snapshotter is not None:
            await self._snapshotter.remove(table_id, partition_id)

    def _path(self, bucket: TableBucket) -> Path:
        folder = self._folder / str(bucket.table_id)
        if bucket.partition_id is not None:
            folder /= f"p{bucket.partition_id}"
        return folder / str(bucket.bucket)


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.life")


def _incarnation(path: Path) -> str | None:
    """The incarnation of an index's log; None without an index, or with one that was not completed."""
    try:
        return _marker(path).read_text(encoding="ascii") if path.exists() else None
    except OSError:
        return None


def _discard(path: Path) -> None:
    _marker(path).unlink(missing_ok=True)
    RocksIndex.remove(path)


def _write_marker(path: Path, incarnation: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    replace_file(str(_marker(path)), incarnation.encode())
