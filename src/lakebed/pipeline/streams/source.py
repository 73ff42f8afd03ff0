"""`spark.read.format("lakebed-stream")`: stream tables, as tables and as streams of Spark.

    spark.dataSource.register(StreamSource)
    spark.read.format("lakebed-stream").option("table", "fluss.orders").load()

Options: `table`; `mode`: `log` (records that were appended; the default of a table without keys), `snapshot` (the rows
that keys have now; the default of one with keys), `changelog` (what became of them, with `_change_type`) or `union`
(what the lake has, and what came after: records of a log, rows of keys); `origin` (`true` adds `__bucket`, `__offset`
and `__timestamp`; of records alone); `from` and `to`: `earliest`, `latest`, or offsets in JSON (`stream_offsets`);
`columns`, with commas; of a union, `warehouse`, and `lake-table` (`NAMESPACE.TABLE`) where it is not called as the
stream is. And how the server is reached: `streams` (`HOST:PORT`), `endpoint`, `access-key-id`, `secret-access-key`, or
the driver's environment.

A task of Spark reads one bucket, or some files of the lake. What there is of a table is found out on the driver, and
goes to the tasks with them: all read the table as it was then, whatever columns it gets meanwhile.
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
    """What of a table is read."""

    LOG = "log"
    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    UNION = "union"


class StreamSource(DataSource):
    """The data source, by its name."""

    @classmethod
    def name(cls) -> str:
        """What follows `format(`."""
        return "lakebed-stream"

    def schema(self) -> StructType:
        """The columns of the table, and those that were asked for."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_Asked.of(self.options).records.schema, prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch."""
        return _Batch(_Asked.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For a stream."""
        asked = _Asked.of(self.options)
        if asked.mode in (Mode.SNAPSHOT, Mode.UNION):
            known = "changelog" if asked.table.schema.has_primary_key else "log"
            raise InvalidInput(f"a {asked.mode} is no stream: read `{known}`, or it as a batch", argument="mode")
        if asked.until != _LATEST:
            raise InvalidInput("a stream has no end: leave out `to`, or read a batch", argument="to")
        return _Stream(asked)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for, checked, with the table as it is."""

    table: TableInfo
    access: StreamAccess
    mode: Mode
    columns: tuple[str, ...]
    has_origin: bool
    since: str
    until: str
    keys: ServerAccess
    lake: TableRef | None = None
    """Of a union: the table of the lake, if it is said where that is."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _Asked:
        given = {name.lower(): value for name, value in options.items()}
        if unknown := sorted(given.keys() - _OPTIONS):
            raise InvalidInput(f"no such option. found={', '.join(unknown)} known={', '.join(sorted(_OPTIONS))}")
        database, _, name = (given.get("table") or given.get("path") or "").partition(".")
        if not database or not name:
            raise InvalidInput("option `table` is DATABASE.TABLE", argument="table")
        keys = find_access(
            given.get("endpoint"),
            access_key_id=given.get("access-key-id"),
            secret_access_key=given.get("secret-access-key"),
        )
        access = stream_access(keys, given.get("streams"))
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
            keys,
            _lake_table(given, table),
        )

    @property
    def union(self) -> UnionRead:
        """The lake, and what came after."""
        return UnionRead(self.table, self.access, self.keys, self.lake, self.columns, self.has_origin)

    @property
    def records(self) -> RecordReader:
        """The columns that are asked for, of whatever is read."""
        return RecordReader(self.table, self.columns, self.mode is Mode.CHANGELOG, self.has_origin)

    def offsets(self, client: StreamClient, where: str) -> Offsets:
        """What a word, or what was written down, stands for now. Raises InvalidInput."""
        if where in (_EARLIEST, _LATEST):
            return list_offsets(client, self.table, EARLIEST if where == _EARLIEST else LATEST)
        found = TableOffsets.parse(where)
        if found.table_id != self.table.id:
            raise InvalidInput(
                f"these are offsets of another table. table={self.table.path} id={self.table.id} found={found.table_id}"
            )
        return found.offsets


@dataclass
class _Part(InputPartition):
    """What one task of Spark reads."""

    what: ReadSpan | UnionPart

    def __post_init__(self) -> None:
        super().__init__(None)


class _Batch(DataSourceReader):
    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        asked = self._asked
        if asked.mode is Mode.SNAPSHOT:
            return [_Part(ReadSpan(bucket, 0, 0)) for bucket in asked.table.buckets]
        if asked.mode is Mode.UNION:
            return [_Part(part) for part in asked.union.plan()]
        with asked.access.connect() as client:
            begin = list_offsets(client, asked.table, EARLIEST)
            since = begin if asked.since == _EARLIEST else asked.offsets(client, asked.since)
            return [_Part(span) for span in plan_spans(since, {}, asked.offsets(client, asked.until))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if partition is None:  # of a table without a partition or a record
            return iter(())
        what = cast("_Part", partition).what
        if isinstance(what, UnionPart):
            return self._asked.union.read(what)
        return _snapshot(self._asked, what) if self._asked.mode is Mode.SNAPSHOT else _records(self._asked, what)


class _Stream(DataSourceStreamReader):
    """A stream's offset is how far all buckets are."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def initialOffset(self) -> dict[str, Any]:  # Any: JSON
        return self._at(self._asked.since)

    def latestOffset(self) -> dict[str, Any]:  # Any: JSON
        return self._at(_LATEST)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # Any: JSON
        spans = plan_spans(TableOffsets.parse(start).offsets, {}, TableOffsets.parse(end).offsets)
        return [_Part(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _records(self._asked, cast("ReadSpan", cast("_Part", partition).what))

    def _at(self, where: str) -> dict[str, Any]:  # Any: JSON
        asked = self._asked
        with asked.access.connect() as client:
            # Partitions come and go while a stream runs.
            found = describe(client, asked.table.database, asked.table.name)
            return TableOffsets(found.id, replace(asked, table=found).offsets(client, where)).document()


def _records(asked: _Asked, span: ReadSpan) -> Iterator[pa.RecordBatch]:
    """Records of a bucket. A generator: the connection is open while it is read."""
    with asked.access.connect() as client:
        yield from asked.records.read(client, span)


def _snapshot(asked: _Asked, span: ReadSpan) -> Iterator[pa.RecordBatch]:
    """The rows of a bucket's keys, all as of one moment."""
    import pyarrow as pa

    partition_id, bucket = span.bucket
    schema = asked.records.schema
    with (
        asked.access.connect() as client,
        KvBatchScanner(client, asked.table.scanned(partition_id), buckets=[bucket], columns=asked.columns) as scan,
    ):
        for batch in scan:
            yield pa.RecordBatch.from_arrays(fitted(batch, schema), schema=schema)


def _mode(word: str | None, table: TableInfo) -> Mode:
    if word is None:
        return Mode.SNAPSHOT if table.schema.has_primary_key else Mode.LOG
    try:
        mode = Mode(word.strip().lower())
    except ValueError as error:
        raise InvalidInput(f"option `mode` is one of {', '.join(Mode)}. found={word!r}", argument="mode") from error
    known = ("snapshot", "changelog", "union") if table.schema.has_primary_key else ("log", "union")
    if mode not in known:
        raise InvalidInput(f"the table is read as {', '.join(known)}. table={table.path} mode={mode}", argument="mode")
    return mode


def _check_options(mode: Mode, given: Collection[str], *, has_primary_key: bool, has_origin: bool) -> None:
    """Raise InvalidInput for what means nothing with a mode."""
    is_of_offsets = mode in (Mode.LOG, Mode.CHANGELOG)
    if not is_of_offsets and {"from", "to"} & set(given):
        raise InvalidInput(f"a {mode} is as of now: leave out `from` and `to`", argument="mode")
    if has_origin and has_primary_key and not is_of_offsets:
        raise InvalidInput("rows of keys have no offsets: leave out `origin`", argument="origin")
    if mode is not Mode.UNION and {"warehouse", "lake-table"} & set(given):
        raise InvalidInput("`warehouse` and `lake-table` are of the mode `union`", argument="mode")


def _lake_table(given: Mapping[str, str], table: TableInfo) -> TableRef | None:
    if "warehouse" not in given:
        return None
    return TableRef.parse(given["warehouse"], given.get("lake-table", table.path))
