"""Where buckets are: their logs in files of the data folder."""

from __future__ import annotations

from pathlib import Path

from lakebed.core.clock import Clock
from lakebed.streams.buckets import OpenBucket
from lakebed.streams.log.memory import MemoryLog
from lakebed.streams.partitions import Partition
from lakebed.streams.seam import TableBucket
from lakebed.streams.table import StreamTable


class StoredBuckets:
    """Opens buckets. Implements `streams.buckets.BucketStore`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    async def open(self, table: StreamTable, partition: Partition | None, bucket: TableBucket) -> OpenBucket:
        """Open a bucket."""
        return OpenBucket(bucket, MemoryLog(self._clock))

    async def close(self, opened: OpenBucket) -> None:
        """Let go of it."""
        await opened.log.close()

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove what is stored."""
