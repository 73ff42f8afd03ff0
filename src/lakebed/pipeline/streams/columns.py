"""Columns of stream tables in types that Spark and Iceberg share, and the origin columns of records.

Spark has microsecond timestamps, no TIME type (text here), and no fixed-length binary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

__all__ = ["BUCKET", "CHANGE", "OFFSET", "ORIGIN", "TIMESTAMP", "fitted", "spark_schema", "with_origin"]

BUCKET: Final = "__bucket"
OFFSET: Final = "__offset"
TIMESTAMP: Final = "__timestamp"
CHANGE: Final = "_change_type"

ORIGIN: Final = pa.schema(
    [
        pa.field(BUCKET, pa.int32(), nullable=False),
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(TIMESTAMP, pa.timestamp("us", "UTC"), nullable=False),
    ]
)
"""Bucket, offset and append time of a record."""

_MICROSECONDS: Final = 1000


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """The columns in Spark types."""
    return pa.schema([_spark_field(field) for field in schema])


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
    """The columns of rows, cast to a `spark_schema`."""
    return [
        column if column.type == field.type else column.cast(field.type, safe=False)
        for column, field in zip(rows.columns, schema, strict=True)
    ]


def with_origin(columns: Sequence[pa.Array], count: int, bucket: int, offset: int, timestamp_ms: int) -> list[pa.Array]:
    """The columns of consecutive records with their origin columns."""
    import numpy as np

    moment = pa.scalar(timestamp_ms * _MICROSECONDS, ORIGIN.field(TIMESTAMP).type)
    return [
        *columns,
        pa.repeat(pa.scalar(bucket, pa.int32()), count),
        pa.array(np.arange(offset, offset + count, dtype=np.int64)),
        pa.repeat(moment, count),
    ]


def _spark_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _spark_type(field.type), field.nullable)


def _spark_type(found: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", found.tz)
    if pa.types.is_time(found):
        return pa.string()
    if pa.types.is_fixed_size_binary(found):
        return pa.binary()
    if pa.types.is_map(found):
        return pa.map_(_spark_field(found.key_field), _spark_field(found.item_field))
    if pa.types.is_list(found):
        return pa.list_(_spark_field(found.value_field))
    if pa.types.is_struct(found):
        return pa.struct([_spark_field(found.field(at)) for at in range(found.num_fields)])
    return found
