"""Where the keys of buckets are: an index in RocksDB for each, in a folder of the data folder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from lakebed.streams.counters import Counters
from lakebed.streams.keys.bucket import KeyBucket, open_keys
from lakebed.streams.keys.changelog import ChangelogRendering
from lakebed.streams.keys.counting import Counter
from lakebed.streams.keys.rocks import RocksIndex, RocksMemory
from lakebed.streams.keys.table import KeyedTable, KeySettings
from lakebed.streams.schema import Schema
from lakebed.streams.seam import BucketLog, TableBucket
from lakebed.streams.table import StreamTable

__all__ = ["KeyStore"]


class KeyStore:
    """Opens the keys of buckets. All buckets of a table share what is known of it."""

    def __init__(
        self,
        folder: Path,
        schema_of: Callable[[StreamTable, int], Awaitable[Schema]],
        counters: Counters,
        memory: RocksMemory | None = None,
    ) -> None:
        """`schema_of` finds a schema of a table by its id (`Tables.schema`)."""
        self._folder = folder
        self._schema_of = schema_of
        self._counters = counters
        self._memory = memory or RocksMemory()
        self._tables: dict[int, KeyedTable] = {}

    async def rendering(self, table: StreamTable) -> ChangelogRendering:
        """How the logs of its buckets are read."""
        keyed = await self._keyed(table)
        settings = keyed.settings
        return ChangelogRendering(keyed.schema, settings.row_format, settings.log_format, settings.compression)

    async def open(self, table: StreamTable, bucket: TableBucket, log: BucketLog) -> KeyBucket:
        """The keys of a bucket, with all that its log has. Reasons: KEY_STORAGE."""
        keyed = await self._keyed(table)
        index = await asyncio.to_thread(RocksIndex, self._path(bucket), self._memory)
        counter = None
        if table.schema.auto_increment is not None:
            name = f"column {table.id} {table.schema.auto_increment}"

            async def take(count: int) -> int:
                return (await self._counters.take(name, count, first=1)).start

            counter = Counter(take, keyed.settings.counter_cache)
        try:
            return await open_keys(keyed, log, index, lambda schema_id: self._schema_of(table, schema_id), counter)
        except BaseException:
            await asyncio.to_thread(index.close)
            raise

    async def changed(self, table: StreamTable) -> None:
        """Take in the newest schema of a table that was altered."""
        known = self._tables.get(table.id)
        if known is not None:
            await self._learn(known, table)

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove what is stored of a table, or of one of its partitions, whose buckets are closed. Idempotent."""
        if partition_id is None:
            self._tables.pop(table_id, None)
        folder = self._folder / str(table_id)
        await asyncio.to_thread(RocksIndex.remove, folder if partition_id is None else folder / f"p{partition_id}")

    async def _keyed(self, table: StreamTable) -> KeyedTable:
        known = self._tables.get(table.id)
        if known is None:
            settings = KeySettings.parse(table.schema, table.definition.options)
            known = KeyedTable(settings, {table.schema_id: table.schema})
            await self._learn(known, table)
            # Another bucket of the table may have been as quick: all of them have the one that is kept.
            known = self._tables.setdefault(table.id, known)
        return known

    async def _learn(self, known: KeyedTable, table: StreamTable) -> None:
        for schema_id in range(1, table.schema_id + 1):
            if not known.knows(schema_id):
                known.learn(schema_id, await self._schema_of(table, schema_id))

    def _path(self, bucket: TableBucket) -> Path:
        folder = self._folder / str(bucket.table_id)
        if bucket.partition_id is not None:
            folder /= f"p{bucket.partition_id}"
        return folder / str(bucket.bucket)
