"""Records of stream tables as Spark has them: what is read of a log, and its batches of Arrow in types of Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.log_ranges import RANGE_BYTES, read_range
from lakebed.client.streams.logs import CHANGES, StreamLog
from lakebed.client.streams.tables import TableInfo
from lakebed.core.errors import InvalidInput

from .columns import CHANGE, ORIGIN, fitted, spark_schema, with_origin
from .offsets import ReadSpan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RecordReader", "check_format"]


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads spans of a table's log. It goes to the tasks of Spark: all read the table as it was when it was made."""

    table: TableInfo
    columns: tuple[str, ...]
    """Of the table, in the order they are wanted in."""
    has_change: bool = False
    """Whether what became of the row follows them."""
    has_origin: bool = False
    """Whether where the record was follows that."""

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
        """The records of a span, a batch as it was written at a time. Error codes: those of `read_range`."""
        import numpy as np
        import pyarrow as pa

        schema, rows = self.schema, self.rows
        signs = pa.array(CHANGES, pa.string())
        partition_id, bucket = span.bucket
        log = StreamLog(client, self.table.scanned(partition_id), columns=self.columns, bucket_bytes=RANGE_BYTES)
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
        raise InvalidInput(f"only logs in Arrow are read. table={table.path}", argument="table")
