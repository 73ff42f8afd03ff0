"""Reads spans of stream logs as Arrow batches in Spark types, for the data source and the tiering job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lakebed.client.streams.access import StreamAccess
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.log_ranges import RANGE_BYTES, read_range
from lakebed.client.streams.logs import CHANGES, StreamLog
from lakebed.client.streams.tables import TableInfo
from lakebed.core.errors import InvalidInput

from .columns import CHANGE, ORIGIN, fitted, spark_schema, with_origin
from .offsets import ReadSpan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RecordReader", "check_format", "frame_of"]


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads spans of a table's log. Sent to Spark tasks, which all read with the table's schema as of planning."""

    table: TableInfo
    columns: tuple[str, ...]
    """Columns of the table, in the requested order."""
    has_change: bool = False
    """Whether `_change_type` follows."""
    has_origin: bool = False
    """Whether bucket, offset and timestamp follow."""

    @property
    def rows(self) -> pa.Schema:
        """The columns of the table that are read."""
        import pyarrow as pa

        whole = self.table.arrow
        return spark_schema(pa.schema([whole.field(name) for name in self.columns]))

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        import pyarrow as pa

        change = [pa.field(CHANGE, pa.string(), nullable=False)] if self.has_change else []
        return pa.schema([*self.rows, *change, *(ORIGIN if self.has_origin else [])])

    def read(self, client: StreamClient, span: ReadSpan) -> Iterator[pa.RecordBatch]:
        """The records of a span, in batches as written. Error codes: those of `read_range`."""
        import numpy as np
        import pyarrow as pa

        schema, rows = self.schema, self.rows
        signs = pa.array(CHANGES, pa.string())
        partition_id, bucket = span.bucket
        log = StreamLog(client, self.table.physical(partition_id), columns=self.columns, bucket_bytes=RANGE_BYTES)
        for found in read_range(client, log, bucket, span.start, span.end):
            columns = fitted(found.rows, rows)
            if self.has_change:
                columns.append(signs.take(pa.array(np.frombuffer(found.changes, np.uint8))))
            if self.has_origin:
                columns = with_origin(columns, len(found.changes), bucket, found.base_offset, found.timestamp_ms)
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def check_format(table: TableInfo) -> None:
    """Raise InvalidInput for a table whose log is not read."""
    if table.properties.get("table.log.format", "ARROW").upper() != "ARROW":
        raise InvalidInput(f"only logs in Arrow format can be read. table={table.path}", argument="table")


def frame_of(spark: SparkSession, access: StreamAccess, reader: RecordReader, spans: Sequence[ReadSpan]) -> DataFrame:
    """A DataFrame of the records of planned spans, at least one: a task per span. Each action reads again.

    Unlike the data source, it starts no extra Python process for planning and does not pass rows one by one (ADR 38).
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    numbers = spark.range(0, len(spans), 1, len(spans))
    schema = from_arrow_schema(reader.schema, prefer_timestamp_ntz=True)
    return numbers.mapInArrow(partial(_read, access, reader, tuple(spans)), schema)


def _read(
    access: StreamAccess, reader: RecordReader, spans: Sequence[ReadSpan], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The work of one task: reads the spans of its numbers. The connection is open while they are read."""
    with access.connect() as client:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.read(client, spans[number])
