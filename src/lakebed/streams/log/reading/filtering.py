"""Batches of a log without those that have no row that a reader wants.

What is known of a batch is found in it when somebody filters: writers may send it along, but what they say is not
needed for it, and not kept.
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
_AS_THEY_ARE: Final = frozenset(
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
    """The ids of the columns by which readers of a table may leave out batches, as its options say."""
    if table.has_primary_key or table.definition.log_format != "ARROW":
        return frozenset()
    said = table.definition.options.get(_OPTION, "").strip()
    names = {name.strip() for name in said.split(",")}
    return frozenset(column.id for column in table.schema.columns if said == _ALL or column.name in names)


class BatchFilter:
    """What one reader wants of a log, by these columns alone."""

    def __init__(self, predicate: Predicate, columns: frozenset[int], schemas: Mapping[int, Schema]) -> None:
        """`schemas` are all that batches may have, by id."""
        self._predicate = predicate
        self._columns = columns
        self._schemas = dict(schemas)
        self._read_format = ReadFormat(self._shapes)

    def apply(self, records: LogBuffer, columns: Sequence[int] | None) -> bytes:
        """The batches that may be wanted, of these columns alone. Blocks for as long as it computes.

        Raises INVALID_COLUMN_PROJECTION, CORRUPT_RECORD.
        """
        self._read_format.check(columns)
        kept = [batch.view for batch in iterate_batches(records) if not batch.record_count or self._may_match(batch)]
        return self._read_format.convert(b"".join(kept), columns)

    def unknown(self, records: LogBuffer) -> set[int]:
        """The schemas of these batches that it was not told of: a table may get columns while somebody reads."""
        return {batch.schema_id for batch in iterate_batches(records)} - self._schemas.keys()

    def add_schema(self, schema_id: int, schema: Schema) -> None:
        """Batches may have this schema, too."""
        self._schemas[schema_id] = schema

    def _may_match(self, batch: LogRecordBatch) -> bool:
        schema = self._schemas[batch.schema_id]
        places = {column.id: at for at, column in enumerate(schema.columns) if column.id in self._columns}

        def bounds(column_id: int) -> Bounds | None:
            at = places.get(column_id)
            return None if at is None else bounds_of(schema.columns[at].type, self._column(batch, schema, at))

        try:
            return may_match(self._predicate, bounds)
        except (pa.ArrowException, FlussError, ValueError, OSError):
            return True  # what cannot be looked at is for the reader to see

    def _column(self, batch: LogRecordBatch, schema: Schema, at: int) -> pa.Array:
        body = b"".join(project(batch, [at], self._shapes(batch.schema_id))[_HEAD_PIECES:])
        only: TableColumn = schema.columns[at]
        return read_rows(body, arrow_schema(Schema((only,)))).column(0)

    def _shapes(self, schema_id: int) -> Sequence[ColumnShape]:
        return [shape_of(arrow_type(column.type)) for column in self._schemas[schema_id].columns]


def bounds_of(type_: DataType, array: pa.Array) -> Bounds:
    """What is known of a column of a batch: days, milliseconds of a day and nanoseconds as numbers."""
    rows, nulls = len(array), array.null_count
    unknown = Bounds(rows, nulls)
    match type_.root:
        case root if root in _AS_THEY_ARE:
            factor = None
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            factor = None
            if pc.any(pc.is_nan(array)).as_py():
                return unknown  # it is neither more nor less than anything
        case TypeRoot.DATE:
            array, factor = array.cast(pa.int32()), 1
        case TypeRoot.TIME:
            factor = _MILLIS.get(array.type.unit)
            if factor is None:
                return unknown  # finer than what it would be compared with
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
