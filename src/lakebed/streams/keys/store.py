"""Where the indexes of buckets are: each in a folder of its own, sharing the memory they may have."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lakebed.streams.keys.bucket import KeyBucket, LearnSchema, open_keys
from lakebed.streams.keys.counting import Counter
from lakebed.streams.keys.key_rows import KeyRows
from lakebed.streams.keys.rocks import RocksIndex, RocksMemory
from lakebed.streams.keys.table import KeyedTable
from lakebed.streams.seam import BucketLog, TableBucket

__all__ = ["KeyStore"]


class KeyStore:
    """Opens the keys of buckets under a folder."""

    def __init__(self, folder: Path, memory: RocksMemory | None = None) -> None:
        self._folder = folder
        self._memory = memory or RocksMemory()

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
        index = await asyncio.to_thread(RocksIndex, self._path(bucket), self._memory)
        try:
            return await open_keys(table, log, index, learn, counter, rows)
        except BaseException:
            await asyncio.to_thread(index.close)
            raise

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove what is stored of a table, or of one of its partitions, whose buckets are closed. Idempotent."""
        folder = self._folder / str(table_id)
        await asyncio.to_thread(RocksIndex.remove, folder if partition_id is None else folder / f"p{partition_id}")

    def _path(self, bucket: TableBucket) -> Path:
        folder = self._folder / str(bucket.table_id)
        if bucket.partition_id is not None:
            folder /= f"p{bucket.partition_id}"
        return folder / str(bucket.bucket)
