"""Filters the batches of a log by a reader's predicate.

Bounds are computed from the batch when it is read. Statistics that writers send are neither needed nor stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.fluss.arrow_messages import read_rows
from lakebed.fluss.arrow_types import arrow_schema, arrow_type
from lakebed.fluss.errors import FlussError
from lakebed.fluss.log_batches import LogBuffer, LogRecordBatch, iterate_batches
from lakebed.fluss.schema import Schema, TableColumn
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.table import StreamTable

from .predicates import Bounds, Predicate, may_match
from .projection import ColumnShape, project, shape_of
from .read_format import ReadFormat

__all__ = ["BatchFilter", "bounds_of", "filtered_columns"]

_OPTION: Final = "table.statistics.columns"
_ALL: Final = "*"
_NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_MILLIS: Final = {"s": 1000, "ms": 1}
_COMPARABLE: Final = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DECIMAL,
        TypeRoot.CHAR,
        TypeRoot.STRING,
    }
)
_HEAD_PIECES: Final = 2


def filtered_columns(table: StreamTable) -> frozenset[int]:
    """The ids of the columns that filters may use, from the table's options."""
    if table.has_primary_key or table.definition.log_format != "ARROW":
        return frozenset()
    option = table.definition.options.get(_OPTION, "").strip()
    names = {name.strip() for name in option.split(",")}
    return frozenset(column.id for column in table.schema.columns if option == _ALL or column.name in names)


class BatchFilter:
    """The filter of one reader."""

    def __init__(self, predicate: Predicate, columns: frozenset[int], schemas: Mapping[int, Schema]) -> None:
        """`schemas` has all schemas of batches by id. Other columns than `columns` are not checked."""
        self._predicate = predicate
        self._columns = columns
        self._schemas = dict(schemas)
        self._read_format = ReadFormat(self._shapes)

    def apply(self, records: LogBuffer, columns: Sequence[int] | None) -> bytes:
        """The batches that may match, projected to `columns`. Blocks while it computes.

        Raises INVALID_COLUMN_PROJECTION, CORRUPT_RECORD.
        """
        self._read_format.check(columns)
        kept = [batch.view for batch in iterate_batches(records) if not batch.record_count or self._may_match(batch)]
        return self._read_format.convert(b"".join(kept), columns)

    def unknown(self, records: LogBuffer) -> set[int]:
        """The schema ids of batches that were not added: the table may get columns during the read."""
        return {batch.schema_id for batch in iterate_batches(records)} - self._schemas.keys()

    def add_schema(self, schema_id: int, schema: Schema) -> None:
        """Add a schema."""
        self._schemas[schema_id] = schema

    def _may_match(self, batch: LogRecordBatch) -> bool:
        schema = self._schemas[batch.schema_id]
        positions = {column.id: at for at, column in enumerate(schema.columns) if column.id in self._columns}

        def bounds(column_id: int) -> Bounds | None:
            at = positions.get(column_id)
            return None if at is None else bounds_of(schema.columns[at].type, self._column(batch, schema, at))

        try:
            return may_match(self._predicate, bounds)
        except (pa.ArrowException, FlussError, ValueError, OSError):
            return True  # unreadable batches are returned to the reader

    def _column(self, batch: LogRecordBatch, schema: Schema, at: int) -> pa.Array:
        body = b"".join(project(batch, [at], self._shapes(batch.schema_id))[_HEAD_PIECES:])
        only: TableColumn = schema.columns[at]
        return read_rows(body, arrow_schema(Schema((only,)))).column(0)

    def _shapes(self, schema_id: int) -> Sequence[ColumnShape]:
        return [shape_of(arrow_type(column.type)) for column in self._schemas[schema_id].columns]


def bounds_of(type_: DataType, array: pa.Array) -> Bounds:
    """The bounds of a column in a batch. Dates, times and timestamps are days, milliseconds and nanoseconds."""
    rows, nulls = len(array), array.null_count
    unknown = Bounds(rows, nulls)
    match type_.root:
        case root if root in _COMPARABLE:
            factor = None
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            factor = None
            if pc.any(pc.is_nan(array)).as_py():
                return unknown  # NaN is not ordered
        case TypeRoot.DATE:
            array, factor = array.cast(pa.int32()), 1
        case TypeRoot.TIME:
            factor = _MILLIS.get(array.type.unit)
            if factor is None:
                return unknown  # finer than the literals
            array = array.cast(pa.int32())
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            array, factor = array.cast(pa.int64()), _NANOS[array.type.unit]
        case _:
            return unknown
    if rows == nulls:
        return unknown
    found = pc.min_max(array).as_py()
    least, greatest = found["min"], found["max"]
    return Bounds(rows, nulls, *((least, greatest) if factor is None else (least * factor, greatest * factor)))
