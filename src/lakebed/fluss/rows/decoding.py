"""Decodes many rows to Arrow columns, one column at a time, and checks that rows can be decoded.

A column of all rows is decoded by a few operations of numpy, whatever the number of rows (`walking`). Text is not
copied by us at all: an Arrow array over the rows themselves, whose elements are by turns a field and what lies between
two fields, is asked for every second element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakebed.fluss.arrow_types import arrow_type
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.types import DataType, TypeRoot

from .fields import NOT_A_VALUE, RowFormat, as_signed, corrupt
from .nested import decode_nested
from .validation import check_field
from .vectors import (
    DTYPES,
    PADDING,
    TIMESTAMPS,
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

_TEXTS: Final = frozenset({TypeRoot.STRING, TypeRoot.CHAR})


def decode_columns(format_: RowFormat, types: Sequence[DataType], rows: RowBuffer) -> list[pa.Array]:
    """The columns of these rows; raises CORRUPT_RECORD if one of them is no such row."""
    walk = row_reader(format_, types, rows)
    return [_to_arrow(walk, type_, walk.next(type_)) for type_ in types]


def check_rows(format_: RowFormat, types: Sequence[DataType], rows: RowBuffer) -> None:
    """Raise CORRUPT_RECORD for what is no such row, INVALID_TARGET_COLUMN for one with a value that is none.

    A change that nobody could read must not enter the log. All that passes becomes columns that readers take:
    `decode_columns` does not raise, and Arrow finds them valid.
    """
    walk = row_reader(format_, types, rows)
    for type_ in types:
        field = walk.next(type_)
        try:
            check_field(walk, type_, field)
        except (FlussError, pa.ArrowInvalid) as error:
            # Not CORRUPT_RECORD, after which clients send the same for ever: this is what somebody gave them to write.
            message = f"a row has what is no value of its column. column={walk.column} type={type_} reason={error}"
            raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, message) from error


def _to_arrow(walk: RowReader, type_: DataType, field: FieldVector) -> pa.Array:
    root = type_.root
    if root is TypeRoot.BOOLEAN:
        bits = np.packbits(numbers_of(walk, type_, field) != 0, bitorder="little")
        return _array(walk, field, arrow_type(type_), bits)
    if root in DTYPES:
        numbers = numbers_of(walk, type_, field)
        return _array(walk, field, arrow_type(type_), _times(type_, numbers) if root is TypeRoot.TIME else numbers)
    if root in TIMESTAMPS:
        return _array(walk, field, arrow_type(type_), _timestamps(walk, type_, field))
    if root is TypeRoot.DECIMAL:
        return _array(walk, field, arrow_type(type_), decimals_of(walk, type_, field))
    if root is TypeRoot.BINARY:
        return _array(walk, field, arrow_type(type_), _padded(walk, field, type_.length or 0))
    if root is TypeRoot.CHAR and walk.format is RowFormat.INDEXED:
        field.lengths = _without_zeros(walk, field.starts, field.starts + field.lengths) - field.starts
    if root in _TEXTS or root is TypeRoot.BYTES:
        return _slices(walk, type_, field)
    return _nested(walk, type_, field)


def _times(type_: DataType, millis: Vector) -> Vector:
    precision = type_.precision or 0
    if precision <= 3:
        return millis if precision else millis // np.int32(1000)
    return millis.astype(np.int64) * (1_000 if precision <= 6 else 1_000_000)


def _timestamps(walk: RowReader, type_: DataType, field: FieldVector) -> Vector:
    millis, nanos = timestamps_of(walk, type_, field)
    precision = type_.precision or 0
    if precision <= 3:
        return millis if precision else millis // 1000
    return millis * 1_000 + nanos // 1_000 if precision <= 6 else millis * 1_000_000 + nanos


def _padded(walk: RowReader, field: FieldVector, width: int) -> Vector:
    if (field.lengths > width).any():
        raise corrupt(f"value is longer than its type. maximum={width}")
    on = np.arange(width, dtype=np.int64)[None, :]
    found = walk.bytes[np.minimum(field.starts[:, None] + on, len(walk.bytes) - 1)]
    return np.where(on < field.lengths[:, None], found, np.uint8(0))


def _slices(walk: RowReader, type_: DataType, field: FieldVector) -> pa.Array:
    _, offsets, content = slice_pieces(walk.source, field.starts, field.starts + field.lengths).buffers()
    return pa.Array.from_buffers(arrow_type(type_), walk.count, [_validity(field), offsets, content])


def _without_zeros(walk: RowReader, starts: Vector, ends: Vector) -> Vector:
    """Ends of what CHARs hold: an indexed row fills them up with zeros."""
    ends = ends.copy()
    while True:
        at = np.flatnonzero((ends > starts) & (walk.bytes[np.maximum(ends - 1, 0)] == 0))
        if not len(at):
            return ends
        ends[at] -= 1


def _nested(walk: RowReader, type_: DataType, field: FieldVector) -> pa.Array:
    nulls = np.zeros(walk.count, bool) if field.nulls is None else field.nulls
    found: list[Any] = []
    for is_null, start, length in zip(nulls.tolist(), field.starts.tolist(), field.lengths.tolist(), strict=True):
        if is_null:
            found.append(None)
            continue
        # The content alone is the same in both formats; only a compacted row has the length before it.
        value = decode_content(walk.format, type_, walk.source[start : start + length])
        found.append(_arrow_value(type_, value))
    try:
        return pa.array(found, arrow_type(type_))
    except pa.ArrowInvalid as error:
        raise corrupt(f"field is no {type_.root.name}. reason={error}") from error


def decode_content(format_: RowFormat, type_: DataType, content: bytes) -> Any:
    """The nested value of a field whose length was read already."""
    try:
        return decode_nested(format_, type_, content)
    except NOT_A_VALUE as error:
        raise corrupt(f"field is no {type_.root.name}. length={len(content)}") from error


def _arrow_value(type_: DataType, value: Any) -> Any:
    """What pyarrow takes for a value inside a nested one."""
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
            return as_signed(moment, 64)  # one that is too far off for Arrow is off, as it is in a column of its own
        case DataType(root=TypeRoot.BINARY):
            return bytes(value).ljust(type_.length or 0, b"\0")
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            return [_arrow_value(element, each) for each in value]
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as of):
            return [(_arrow_value(key, a), _arrow_value(of, b)) for a, b in value]
        case DataType(root=TypeRoot.ROW):
            return {field.name: _arrow_value(field.type, each) for field, each in zip(type_.fields, value, strict=True)}
    return value


def _array(walk: RowReader, field: FieldVector, type_: pa.DataType, content: Vector) -> pa.Array:
    contiguous = np.ascontiguousarray(content)
    return pa.Array.from_buffers(type_, walk.count, [_validity(field), pa.py_buffer(contiguous)])


def _validity(field: FieldVector) -> pa.Buffer | None:
    return None if field.nulls is None else pa.py_buffer(np.packbits(~field.nulls, bitorder="little"))
