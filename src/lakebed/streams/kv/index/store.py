"""Where the indexes of buckets are: each in a folder of its own, sharing the memory they may have.

One that is not there, because the disk is another or was lost, is made of its newest snapshot in the byte store. So is
one that was left behind: another server went on with the bucket meanwhile, and the log need not have any more what came
between, nor ever have had all that the index has.
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
    """How many snapshots were taken, and of how many buckets that failed."""

    taken: int
    failed: int


class KvStore:
    """Opens the keys of buckets under a folder."""

    def __init__(
        self, folder: Path, memory: RocksMemory | None = None, snapshotter: KvSnapshotter | None = None
    ) -> None:
        """Without `snapshotter` no snapshots are taken, and an index that is lost is replayed from the whole log."""
        self._folder = folder
        self._memory = memory or RocksMemory()
        self._snapshotter = snapshotter
        self._open: dict[TableBucket, RocksIndex] = {}
        self._in_snapshots: dict[TableBucket, int] = {}

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
        """The keys of a bucket, with all that its log has. Error codes: KV_STORAGE.

        `incarnation` names the log on this disk: an index of another one is not used.
        """
        path = self._path(bucket)
        if self._snapshotter is not None:
            self._in_snapshots[bucket] = await self._snapshotter.covered(bucket)
        if await asyncio.to_thread(_incarnation, path) != incarnation:
            await self._begin(bucket, path, incarnation)
        index = await asyncio.to_thread(RocksIndex, path, self._memory)
        if not self._in_snapshots.get(bucket, 0) <= index.log_offset <= log.end_offset:
            await asyncio.to_thread(index.close)
            await self._begin(bucket, path, incarnation)
            index = await asyncio.to_thread(RocksIndex, path, self._memory)
        try:
            keys = await open_kv_bucket(table, log, index, find_schema, auto_increment, rows)
        except BaseException:
            await asyncio.to_thread(index.close)
            raise
        self._open[bucket] = index
        return keys

    async def _begin(self, bucket: TableBucket, path: Path, incarnation: str) -> None:
        """Begin an index anew: of the newest snapshot, or empty."""
        await asyncio.to_thread(_discard, path)
        if self._snapshotter is not None:
            await self._snapshotter.restore(bucket, path)
        await asyncio.to_thread(_note, path, incarnation)

    def needs_from(self, bucket: TableBucket) -> int:
        """From where on the log of an open bucket has to be kept as it was appended, or its keys could be lost.

        That is what is in no snapshot, since the disk may be lost; where none are taken, what is not on disk.
        """
        return self._open[bucket].flushed_offset if self._snapshotter is None else self._in_snapshots[bucket]

    async def take_snapshots(self, fence: Fence) -> SnapshotCounts:
        """Take a snapshot of every open bucket that changed since its last. Raises Fenced.

        What one of them fails with concerns no other.
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
                    # Of RocksDB, too, which has no errors of its own; and a bucket may be closed under way.
                    failed += not index.is_closed
                    _logger.warning("a snapshot could not be taken", extra={"bucket": str(bucket)}, exc_info=error)
                    continue
                if snapshot is not None:
                    self._in_snapshots[bucket] = snapshot.log_offset
                    taken += 1
        return SnapshotCounts(taken, failed)

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove what is stored of a table, or of one of its partitions, whose buckets are closed. Idempotent."""
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
    """Which life of its log an index is of; None if there is no index, or none that was ever whole."""
    try:
        return _marker(path).read_text(encoding="ascii") if path.exists() else None
    except OSError:
        return None


def _discard(path: Path) -> None:
    _marker(path).unlink(missing_ok=True)
    RocksIndex.remove(path)


def _note(path: Path, incarnation: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    replace_file(str(_marker(path)), incarnation.encode())
