"""Opens stream buckets: the log and, for primary-key tables, the KV index over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.core.clock import Clock
from lakebed.fluss.arrow_types import arrow_type
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema

from ..id_ranges import IdRanges
from ..kv.auto_increment import AutoIncrement
from ..kv.bucket import KvBucket
from ..kv.changelog import ChangelogRenderer
from ..kv.index.store import KvStore
from ..kv.key_only_rows import KeyOnlyRows
from ..kv.table import KvSettings, KvTable
from ..log.local.logs import Logs
from ..log.reading.projection import ColumnShape, shape_of
from ..log.reading.read_format import ReadFormat
from ..log.remote.manifest import LogLocation
from ..log.remote.opening import open_remote_backed_log, upload_local_tail
from ..log.remote.remote_log import RemoteLogs
from ..partitions import StreamPartition
from ..seam import TableBucket
from ..table import StreamTable
from ..tables import StreamTables
from .open_buckets import OpenBucket


class BucketOpener:
    """Opens, closes and removes buckets. Implements `buckets.BucketStore`."""

    def __init__(
        self,
        logs: Logs,
        remotes: RemoteLogs,
        kv_store: KvStore,
        tables: StreamTables,
        id_ranges: IdRanges,
        clock: Clock,
        is_leader: Callable[[], bool],
        *,
        server: str,
        ack_after_upload: bool,
    ) -> None:
        self._logs = logs
        self._remotes = remotes
        self._clock = clock
        self._server = server
        self._ack_after_upload = ack_after_upload
        self._kv_store = kv_store
        self._tables = tables
        self._id_ranges = id_ranges
        self._is_leader = is_leader
        self._formats: dict[int, _TableFormats] = {}
        tables.on_changed(self._changed)

    async def open(self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> OpenBucket:
        """Open a bucket."""
        formats = await self._ensure_schema(table)
        log = await open_remote_backed_log(
            self._logs,
            self._remotes,
            _location(table, partition, bucket),
            formats.read_format(),
            server=self._server,
            clock=self._clock,
            is_leader=self._is_leader,
            ack_after_upload=self._ack_after_upload,
        )
        kv_table = formats.kv_table
        if kv_table is None:
            return OpenBucket(bucket, log)

        async def find_schema(schema_id: int) -> Schema:
            return await self._tables.schema(await self._tables.by_id(table.id), schema_id)

        async def take(count: int) -> int:
            return (await self._id_ranges.take(f"table {table.id}", count, first=1)).start

        auto_increment = None
        if table.schema.auto_increment is not None:
            auto_increment = AutoIncrement(take, kv_table.settings.counter_cache)
        values = None if partition is None else partition.values(table)
        rows = KeyOnlyRows(kv_table, values, table.definition.bucket_keys)
        try:
            kv = await self._kv_store.open(
                kv_table, bucket, log, find_schema, auto_increment, rows, incarnation=log.incarnation
            )
        except BaseException:
            await log.close()
            raise
        # A crashed KV index is restored from its last snapshot and the changes since. These must outlive the retention.
        log.keep_from = lambda: self._kv_store.required_offset(bucket)
        return OpenBucket(bucket, log, kv)

    async def upload_local_tail(
        self, table: StreamTable, partition: StreamPartition | None, bucket: TableBucket
    ) -> bool:
        """Upload the records of a closed bucket that only this disk has; False if there are none."""
        formats = await self._ensure_schema(table)
        location, read_format = _location(table, partition, bucket), formats.read_format()
        return await upload_local_tail(
            self._logs, self._remotes, location, read_format, server=self._server, clock=self._clock
        )

    async def close(self, opened: OpenBucket) -> None:
        """Close the log and the KV index."""
        # The log first: it stops waiting for an unavailable object store, and the KV index waits for the log.
        await opened.log.close()
        if isinstance(opened.kv, KvBucket):
            await opened.kv.close()

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove the files of a table or partition."""
        if partition_id is None:
            self._formats.pop(table_id, None)
        await self._kv_store.remove(table_id, partition_id)
        await self._logs.remove(table_id, partition_id)
        await self._remotes.remove(table_id, partition_id)

    async def _ensure_schema(self, table: StreamTable) -> _TableFormats:
        formats = self._formats.get(table.id)
        if formats is None:
            schemas = {number: await self._tables.schema(table, number) for number in range(1, table.schema_id + 1)}
            formats = self._formats.setdefault(table.id, _TableFormats(table, schemas))
        for number in range(1, table.schema_id + 1):
            # Another server may have led meanwhile and added columns.
            if not formats.has_schema(number):
                formats.add_schema(number, await self._tables.schema(table, number))
        return formats

    async def _changed(self, table: StreamTable) -> None:
        formats = self._formats.get(table.id)
        if formats is not None:
            formats.add_schema(table.schema_id, table.schema)


def _location(table: StreamTable, partition: StreamPartition | None, bucket: TableBucket) -> LogLocation:
    return LogLocation(bucket, table.path.database, table.path.name, None if partition is None else partition.name)


class _TableFormats:
    """State shared by the buckets of a table: schemas and KV settings."""

    def __init__(self, table: StreamTable, schemas: dict[int, Schema]) -> None:
        self.kv_table: KvTable | None = None
        if table.has_primary_key:
            self.kv_table = KvTable(KvSettings.parse(table.schema, table.definition.options), schemas)
        self._is_arrow = table.definition.log_format == "ARROW"
        self._schemas = schemas
        self._shapes: dict[int, Sequence[ColumnShape]] = {}

    def has_schema(self, schema_id: int) -> bool:
        """Whether the table has the schema."""
        return schema_id in self._schemas

    def add_schema(self, schema_id: int, schema: Schema) -> None:
        """Add a schema of the table."""
        self._schemas[schema_id] = schema
        if self.kv_table is not None:
            self.kv_table.add_schema(schema_id, schema)

    def read_format(self) -> ReadFormat:
        """How the log of a bucket is read."""
        rendering = None
        if self.kv_table is not None:
            settings = self.kv_table.settings
            rendering = ChangelogRenderer(
                self.schema, settings.row_format, settings.log_format, settings.compression, settings.zstd_level
            )
        return ReadFormat(self.shapes if self._is_arrow else None, rendering, self.has_schema)

    def schema(self, schema_id: int) -> Schema:
        """The schema. Raises SCHEMA_NOT_EXIST."""
        found = self._schemas.get(schema_id)
        if found is None:
            raise FlussError(ErrorCode.SCHEMA_NOT_EXIST, f"no such schema. schema_id={schema_id}")
        return found

    def shapes(self, schema_id: int) -> Sequence[ColumnShape]:
        """The Arrow columns of a schema."""
        found = self._shapes.get(schema_id)
        if found is None:
            columns = self.schema(schema_id).columns
            found = self._shapes[schema_id] = [shape_of(arrow_type(column.type)) for column in columns]
        return found
