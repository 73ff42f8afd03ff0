"""Encodes Arrow columns as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import TableColumn
from lakebed.fluss.types import DataType, TypeRoot

from .fields import RowFormat, encode_field
from .layout import RowLayout

__all__ = ["column_values", "conform_rows", "encode_rows"]

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NANOS_PER_MILLI: Final = 10**6


def conform_rows(rows: pa.RecordBatch, schema: pa.Schema, *, is_whole: bool = True) -> pa.RecordBatch:
    """The rows with exactly this schema: encoded rows carry none.

    Error codes: INVALID_TARGET_COLUMN for missing columns, extra columns of whole rows, and values that do not fit.
    """
    if rows.schema.equals(schema):
        return rows
    try:
        if is_whole and rows.num_columns != len(schema):
            raise ValueError("different number of columns")
        return rows.select(schema.names).cast(schema)
    except (KeyError, ValueError, pa.ArrowNotImplementedError) as error:
        raise FlussError(
            ErrorCode.INVALID_TARGET_COLUMN,
            f"rows do not match the table's columns. columns={schema.names} found={rows.schema.names} reason={error}",
        ) from error


def encode_rows(format_: RowFormat, columns: Sequence[TableColumn], rows: pa.RecordBatch) -> list[bytes]:
    """Encode rows with these columns. Error codes: INVALID_TARGET_COLUMN for text that is longer than its type."""
    layout = RowLayout(format_, [column.type for column in columns])
    fields = []
    for column in columns:
        values = column_values(column.type, rows.column(column.name))
        if format_ is RowFormat.INDEXED:
            _check_lengths(column.name, column.type, values)
        fields.append([None if value is None else encode_field(format_, column.type, value) for value in values])
    return [layout.join(row) for row in zip(*fields, strict=True)]


def column_values(type_: DataType, array: pa.Array) -> list[Any]:
    """The value of each row, None for null."""
    match type_:
        case DataType(root=TypeRoot.DATE):
            return list(array.cast(pa.int32()).to_pylist())
        case DataType(root=TypeRoot.TIME):
            per_second = _PER_SECOND[array.type.unit]
            integers = array.cast(pa.int32() if pa.types.is_time32(array.type) else pa.int64()).to_pylist()
            return [None if value is None else value * 1000 // per_second for value in integers]
        case DataType(root=TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ):
            nanos = 10**9 // _PER_SECOND[array.type.unit]
            integers = array.cast(pa.int64()).to_pylist()
            return [None if value is None else divmod(value * nanos, _NANOS_PER_MILLI) for value in integers]
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            inner = iter(column_values(element, array.flatten()))
            return [None if size is None else _next(inner, size) for size in array.value_lengths().to_pylist()]
        case DataType(root=TypeRoot.ROW):
            parts = [column_values(field.type, part) for field, part in zip(type_.fields, array.flatten(), strict=True)]
            rows = zip(*parts, strict=True)
            valid = array.is_valid().to_pylist()
            return [row if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as value):
            # A map's flattened entries include those of sliced-off rows; a list's do not.
            entries = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
            keys, values = entries.flatten().flatten()
            pairs = iter(zip(column_values(key, keys), column_values(value, values), strict=True))
            return [None if size is None else _next(pairs, size) for size in entries.value_lengths().to_pylist()]
    return list(array.to_pylist())


def _next(values: Iterator[Any], count: int) -> list[Any]:
    return [next(values) for _ in range(count)]


def _check_lengths(name: str, type_: DataType, values: Sequence[Any]) -> None:
    """A CHAR has a fixed number of bytes in an indexed row: longer text would overwrite the next field."""
    present = [value for value in values if value is not None]
    match type_:
        case DataType(root=TypeRoot.CHAR, length=int() as most):
            if any(len(value.encode()) > most for value in present):
                raise FlussError(
                    ErrorCode.INVALID_TARGET_COLUMN, f"text too long for its type. column={name} maximum_bytes={most}"
                )
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            _check_lengths(name, element, [each for value in present for each in value])
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as of):
            _check_lengths(name, key, [pair[0] for value in present for pair in value])
            _check_lengths(name, of, [pair[1] for value in present for pair in value])
        case DataType(root=TypeRoot.ROW):
            for at, field in enumerate(type_.fields):
                _check_lengths(name, field.type, [value[at] for value in present])
