"""Decodes many rows to Arrow columns, and checks that rows can be decoded.

Decodes column by column with a few numpy operations, whatever the number of rows (`vectors`). Text is copied by Arrow:
an array over the whole row buffer alternates fields and gaps, and every second element is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.fluss.arrow_types import arrow_type
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.types import TEXTS, TIMESTAMPS, DataType, TypeRoot

from .fields import NOT_A_VALUE, RowFormat, as_signed, corrupt
from .nested import decode_nested
from .validation import check_field
from .vectors import (
    DTYPES,
    PADDING,
    FieldVector,
    RowBuffer,
    RowReader,
    Vector,
    decimals_of,
    numbers_of,
    row_reader,
    slice_pieces,
    timestamps_of,
)

__all__ = ["PADDING", "RowBuffer", "check_rows", "decode_columns"]


def decode_columns(format_: RowFormat, types: Sequence[DataType], rows: RowBuffer) -> list[pa.Array]:
    """Decode rows to columns. Raises CORRUPT_RECORD for a malformed row."""
    reader = row_reader(format_, types, rows)
    return [_to_arrow(reader, type_, reader.next(type_)) for type_ in types]


def check_rows(format_: RowFormat, types: Sequence[DataType], rows: RowBuffer) -> None:
    """Raise CORRUPT_RECORD for a malformed row, INVALID_TARGET_COLUMN for an invalid value.

    An unreadable change must not enter the log. For rows that pass, `decode_columns` does not raise, and Arrow finds
    the columns valid.
    """
    reader = row_reader(format_, types, rows)
    for type_ in types:
        field = reader.next(type_)
        try:
            check_field(reader, type_, field)
        except (FlussError, pa.ArrowInvalid) as error:
            # Not CORRUPT_RECORD, which clients retry for ever: the application supplied this value.
            message = f"invalid value. column={reader.column} type={type_} reason={error}"
            raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, message) from error


def _to_arrow(reader: RowReader, type_: DataType, field: FieldVector) -> pa.Array:
    root = type_.root
    if root is TypeRoot.BOOLEAN:
        bits = np.packbits(numbers_of(reader, type_, field) != 0, bitorder="little")
        return _array(reader, field, arrow_type(type_), bits)
    if root in DTYPES:
        numbers = numbers_of(reader, type_, field)
        return _array(reader, field, arrow_type(type_), _times(type_, numbers) if root is TypeRoot.TIME else numbers)
    if root in TIMESTAMPS:
        return _array(reader, field, arrow_type(type_), _timestamps(reader, type_, field))
    if root is TypeRoot.DECIMAL:
        return _array(reader, field, arrow_type(type_), decimals_of(reader, type_, field))
    if root is TypeRoot.BINARY:
        return _array(reader, field, arrow_type(type_), _padded(reader, field, type_.length or 0))
    if root is TypeRoot.CHAR and reader.format is RowFormat.INDEXED:
        field.lengths = _without_zeros(reader, field.starts, field.starts + field.lengths) - field.starts
    if root in TEXTS or root is TypeRoot.BYTES:
        return _slices(reader, type_, field)
    return _nested(reader, type_, field)


def _times(type_: DataType, millis: Vector) -> Vector:
    precision = type_.precision or 0
    if precision <= 3:
        return millis if precision else millis // np.int32(1000)
    return millis.astype(np.int64) * (1_000 if precision <= 6 else 1_000_000)


def _timestamps(reader: RowReader, type_: DataType, field: FieldVector) -> Vector:
    millis, nanos = timestamps_of(reader, type_, field)
    precision = type_.precision or 0
    if precision <= 3:
        return millis if precision else millis // 1000
    return millis * 1_000 + nanos // 1_000 if precision <= 6 else millis * 1_000_000 + nanos


def _padded(reader: RowReader, field: FieldVector, width: int) -> Vector:
    if (field.lengths > width).any():
        raise corrupt(f"value too long for its type. maximum={width}")
    on = np.arange(width, dtype=np.int64)[None, :]
    found = reader.bytes[np.minimum(field.starts[:, None] + on, len(reader.bytes) - 1)]
    return np.where(on < field.lengths[:, None], found, np.uint8(0))


def _slices(reader: RowReader, type_: DataType, field: FieldVector) -> pa.Array:
    _, offsets, content = slice_pieces(reader.source, field.starts, field.starts + field.lengths).buffers()
    return pa.Array.from_buffers(arrow_type(type_), reader.count, [_validity(field), offsets, content])


def _without_zeros(reader: RowReader, starts: Vector, ends: Vector) -> Vector:
    """The ends of CHAR values without the zeros that pad them in indexed rows."""
    ends = ends.copy()
    while True:
        at = np.flatnonzero((ends > starts) & (reader.bytes[np.maximum(ends - 1, 0)] == 0))
        if not len(at):
            return ends
        ends[at] -= 1


def _nested(reader: RowReader, type_: DataType, field: FieldVector) -> pa.Array:
    nulls = np.zeros(reader.count, bool) if field.nulls is None else field.nulls
    found: list[Any] = []
    for is_null, start, length in zip(nulls.tolist(), field.starts.tolist(), field.lengths.tolist(), strict=True):
        if is_null:
            found.append(None)
            continue
        # The content is the same in both formats; a compacted row has its length in front.
        value = decode_content(reader.format, type_, reader.source[start : start + length])
        found.append(_arrow_value(type_, value))
    try:
        return pa.array(found, arrow_type(type_))
    except pa.ArrowInvalid as error:
        raise corrupt(f"invalid field. type={type_.root.name} reason={error}") from error


def decode_content(format_: RowFormat, type_: DataType, content: bytes) -> Any:
    """The nested value of a field whose length was already read."""
    try:
        return decode_nested(format_, type_, content)
    except NOT_A_VALUE as error:
        raise corrupt(f"invalid field. type={type_.root.name} length={len(content)}") from error


def _arrow_value(type_: DataType, value: Any) -> Any:
    """A nested value in the form that pyarrow accepts."""
    if value is None:
        return None
    match type_:
        case DataType(root=TypeRoot.TIME):
            return int(_times(type_, np.array([value], np.int32))[0])
        case DataType(root=TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ):
            millis, nanos = value
            precision = type_.precision or 0
            if precision <= 3:
                return millis if precision else millis // 1000
            moment = millis * 1_000 + nanos // 1_000 if precision <= 6 else millis * 1_000_000 + nanos
            return as_signed(moment, 64)  # overflows like a top-level column
        case DataType(root=TypeRoot.BINARY):
            return bytes(value).ljust(type_.length or 0, b"\0")
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            return [_arrow_value(element, each) for each in value]
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as of):
            return [(_arrow_value(key, a), _arrow_value(of, b)) for a, b in value]
        case DataType(root=TypeRoot.ROW):
            return {field.name: _arrow_value(field.type, each) for field, each in zip(type_.fields, value, strict=True)}
    return value


def _array(reader: RowReader, field: FieldVector, type_: pa.DataType, content: Vector) -> pa.Array:
    contiguous = np.ascontiguousarray(content)
    return pa.Array.from_buffers(type_, reader.count, [_validity(field), pa.py_buffer(contiguous)])


def _validity(field: FieldVector) -> pa.Buffer | None:
    return None if field.nulls is None else pa.py_buffer(np.packbits(~field.nulls, bitorder="little"))
