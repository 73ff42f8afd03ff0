"""The Spark data source `lakebed-stream`: reads stream tables in batch and in Structured Streaming.

    spark.dataSource.register(StreamSource)
    spark.read.format("lakebed-stream").option("table", "fluss.orders").load()

Options:

- `table`: DATABASE.TABLE
- `mode`: `log` (default of log tables), `snapshot` (current rows, default of KV tables), `changelog` (with
  `_change_type`), or `union` (the Iceberg table and the records that are not tiered)
- `origin`: `true` adds `__bucket`, `__offset` and `__timestamp`; for records only
- `from`, `to`: `earliest`, `latest`, or offsets in JSON (`TableOffsets`)
- `columns`: comma-separated
- `warehouse`, `lake-table` (NAMESPACE.TABLE, if it differs from the stream's name): for `union`
- `streams` (HOST:PORT), `endpoint`, `access-key-id`, `secret-access-key`: default to the driver's environment

A task reads one bucket, or some files of the Iceberg table. The driver reads the table's description once and sends it
to the tasks, so that all read with the same schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from lakebed.client.access import ServerAccess, find_access
from lakebed.client.names import TableRef
from lakebed.client.streams.access import StreamAccess, stream_access
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.kv_scans import KvBatchScanner
from lakebed.client.streams.logs import EARLIEST, LATEST
from lakebed.client.streams.tables import TableInfo, describe, list_offsets
from lakebed.core.errors import InvalidInput

from .columns import fitted
from .offsets import Offsets, ReadSpan, TableOffsets, plan_spans
from .records import RecordReader, check_format
from .union_read import UnionPart, UnionRead

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_OPTIONS: Final = frozenset(
    {
        "table",
        "path",
        "mode",
        "origin",
        "from",
        "to",
        "columns",
        "warehouse",
        "lake-table",
        "streams",
        "endpoint",
        "access-key-id",
        "secret-access-key",
    }
)
_EARLIEST, _LATEST = "earliest", "latest"


class Mode(StrEnum):
    """How a table is read."""

    LOG = "log"
    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    UNION = "union"


class StreamSource(DataSource):
    """Spark's entry point."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "lakebed-stream"

    def schema(self) -> StructType:
        """The columns that are read."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_Request.of(self.options).records.schema, prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader."""
        return _Batch(_Request.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming reader."""
        request = _Request.of(self.options)
        if request.mode in (Mode.SNAPSHOT, Mode.UNION):
            known = "changelog" if request.table.schema.has_primary_key else "log"
            raise InvalidInput(
                f"mode `{request.mode}` cannot be streamed: use `{known}`, or a batch read", argument="mode"
            )
        if request.until != _LATEST:
            raise InvalidInput("a streaming read has no end: omit `to`, or use a batch read", argument="to")
        return _Stream(request)


@dataclass(frozen=True, slots=True)
class _Request:
    """The validated options and the table's description."""

    table: TableInfo
    access: StreamAccess
    mode: Mode
    columns: tuple[str, ...]
    has_origin: bool
    since: str
    until: str
    server: ServerAccess
    lake: TableRef | None = None
    """The Iceberg table of a union read, if the options name it."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _Request:
        given = {name.lower(): value for name, value in options.items()}
        if unknown := sorted(given.keys() - _OPTIONS):
            raise InvalidInput(f"unknown option. found={', '.join(unknown)} expected={', '.join(sorted(_OPTIONS))}")
        database, _, name = (given.get("table") or given.get("path") or "").partition(".")
        if not database or not name:
            raise InvalidInput("expected option `table` as DATABASE.TABLE", argument="table")
        server = find_access(
            given.get("endpoint"),
            access_key_id=given.get("access-key-id"),
            secret_access_key=given.get("secret-access-key"),
        )
        access = stream_access(server, given.get("streams"))
        with access.connect() as client:
            table = describe(client, database, name)
        mode = _mode(given.get("mode"), table)
        if mode is not Mode.SNAPSHOT:
            check_format(table)
        columns = tuple(word for text in given.get("columns", "").split(",") if (word := text.strip()))
        for column in columns:
            if table.schema.column(column) is None:
                raise InvalidInput(f"no such column. table={table.path} column={column}", argument="columns")
        has_origin = given.get("origin", "false").strip().lower() == "true"
        _check_options(mode, given.keys(), has_primary_key=table.schema.has_primary_key, has_origin=has_origin)
        return cls(
            table,
            access,
            mode,
            columns or table.schema.names,
            has_origin,
            given.get("from", _EARLIEST),
            given.get("to", _LATEST),
            server,
            _lake_table(given, table),
        )

    @property
    def union(self) -> UnionRead:
        """The union read."""
        return UnionRead(self.table, self.access, self.server, self.lake, self.columns, self.has_origin)

    @property
    def records(self) -> RecordReader:
        """A reader of the requested columns."""
        return RecordReader(self.table, self.columns, self.mode is Mode.CHANGELOG, self.has_origin)

    def offsets(self, client: StreamClient, where: str) -> Offsets:
        """Resolve `earliest`, `latest` or offsets in JSON. Raises InvalidInput."""
        if where in (_EARLIEST, _LATEST):
            return list_offsets(client, self.table, EARLIEST if where == _EARLIEST else LATEST)
        found = TableOffsets.parse(where)
        if found.table_id != self.table.id:
            raise InvalidInput(
                f"the offsets belong to another table. table={self.table.path} expected={self.table.id}"
                f" found={found.table_id}"
            )
        return found.offsets


@dataclass
class _Part(InputPartition):
    """The input of one task."""

    content: ReadSpan | UnionPart

    def __post_init__(self) -> None:
        super().__init__(None)


class _Batch(DataSourceReader):
    def __init__(self, request: _Request) -> None:
        self._request = request

    def partitions(self) -> Sequence[InputPartition]:
        request = self._request
        if request.mode is Mode.SNAPSHOT:
            return [_Part(ReadSpan(bucket, 0, 0)) for bucket in request.table.buckets]
        if request.mode is Mode.UNION:
            return [_Part(part) for part in request.union.plan()]
        with request.access.connect() as client:
            begin = list_offsets(client, request.table, EARLIEST)
            since = begin if request.since == _EARLIEST else request.offsets(client, request.since)
            return [_Part(span) for span in plan_spans(since, {}, request.offsets(client, request.until))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if partition is None:  # the table has no partitions or records
            return iter(())
        content = cast("_Part", partition).content
        if isinstance(content, UnionPart):
            return self._request.union.read(content)
        read = _snapshot if self._request.mode is Mode.SNAPSHOT else _records
        return read(self._request, content)


class _Stream(DataSourceStreamReader):
    """Streaming offsets are the offsets of all buckets."""

    def __init__(self, request: _Request) -> None:
        self._request = request

    def initialOffset(self) -> dict[str, Any]:  # Any: JSON
        return self._at(self._request.since)

    def latestOffset(self) -> dict[str, Any]:  # Any: JSON
        return self._at(_LATEST)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # Any: JSON
        spans = plan_spans(TableOffsets.parse(start).offsets, {}, TableOffsets.parse(end).offsets)
        return [_Part(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _records(self._request, cast("ReadSpan", cast("_Part", partition).content))

    def _at(self, where: str) -> dict[str, Any]:  # Any: JSON
        request = self._request
        with request.access.connect() as client:
            # Partitions are created and dropped while a query runs.
            found = describe(client, request.table.database, request.table.name)
            return TableOffsets(found.id, replace(request, table=found).offsets(client, where)).document()


def _records(request: _Request, span: ReadSpan) -> Iterator[pa.RecordBatch]:
    """Records of a bucket. The connection is open while the generator is consumed."""
    with request.access.connect() as client:
        yield from request.records.read(client, span)


def _snapshot(request: _Request, span: ReadSpan) -> Iterator[pa.RecordBatch]:
    """The current rows of a bucket of a KV table, at one point in time."""
    import pyarrow as pa

    partition_id, bucket = span.bucket
    schema = request.records.schema
    with (
        request.access.connect() as client,
        KvBatchScanner(client, request.table.physical(partition_id), buckets=[bucket], columns=request.columns) as scan,
    ):
        for batch in scan:
            yield pa.RecordBatch.from_arrays(fitted(batch, schema), schema=schema)


def _mode(word: str | None, table: TableInfo) -> Mode:
    if word is None:
        return Mode.SNAPSHOT if table.schema.has_primary_key else Mode.LOG
    try:
        mode = Mode(word.strip().lower())
    except ValueError as error:
        raise InvalidInput(f"unknown mode. found={word!r} expected={', '.join(Mode)}", argument="mode") from error
    known = ("snapshot", "changelog", "union") if table.schema.has_primary_key else ("log", "union")
    if mode not in known:
        raise InvalidInput(
            f"the mode does not apply to this table. table={table.path} mode={mode} expected={', '.join(known)}",
            argument="mode",
        )
    return mode


def _check_options(mode: Mode, given: Collection[str], *, has_primary_key: bool, has_origin: bool) -> None:
    """Raise InvalidInput for options that do not apply to the mode."""
    has_offsets = mode in (Mode.LOG, Mode.CHANGELOG)
    if not has_offsets and {"from", "to"} & set(given):
        raise InvalidInput(f"`from` and `to` do not apply to mode `{mode}`", argument="mode")
    if has_origin and has_primary_key and not has_offsets:
        raise InvalidInput("`origin` does not apply to rows of primary-key tables", argument="origin")
    if mode is not Mode.UNION and {"warehouse", "lake-table"} & set(given):
        raise InvalidInput("`warehouse` and `lake-table` apply to mode `union` only", argument="mode")


def _lake_table(given: Mapping[str, str], table: TableInfo) -> TableRef | None:
    if "warehouse" not in given:
        return None
    return TableRef.parse(given["warehouse"], given.get("lake-table", table.path))
