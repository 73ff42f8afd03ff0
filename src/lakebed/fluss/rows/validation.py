"""Validates encoded values against their types, for all rows at once.

Any bytes are valid for most types. Checked are UTF-8 text, decimal digits, times of day, nulls, and nested values
down to their elements. No Python values are created, which would cost a hundred times as much.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.fluss.arrow_types import arrow_type
from lakebed.fluss.types import BYTE_STRINGS, TEXTS, TIMESTAMPS, DataType, TypeRoot

from .fields import corrupt, types_of
from .nested import INLINE_MAX, slot_bytes
from .vectors import (
    DTYPES,
    FieldVector,
    RowBuffer,
    RowReader,
    Vector,
    decimals_of,
    numbers_of,
    row_reader,
    slice_pieces,
    timestamps_of,
    wide_decimals,
)

__all__ = ["check_field"]

_DAY_MILLIS: Final = 86_400_000
_MILLI_NANOS: Final = 1_000_000
_COUNT_BYTES: Final = 4


def check_field(reader: RowReader, type_: DataType, field: FieldVector) -> None:
    """Raise CORRUPT_RECORD, or pyarrow's ArrowInvalid, for an invalid value in a column."""
    if field.nulls is not None and not type_.is_nullable:
        raise corrupt("null in a column that is not nullable")
    root = type_.root
    if root is TypeRoot.DECIMAL:
        _check_digits(type_, decimals_of(reader, type_, field))
    elif root is TypeRoot.TIME:
        _check_within(numbers_of(reader, type_, field), _DAY_MILLIS)
    elif root in TIMESTAMPS:
        if not type_.is_compact_timestamp:
            _check_within(timestamps_of(reader, type_, field)[1], _MILLI_NANOS)
    elif root not in DTYPES:
        starts, lengths = field.starts, field.lengths
        if field.nulls is not None:
            starts, lengths = starts[~field.nulls], lengths[~field.nulls]
        if type_.is_nested:
            _check_nested(reader, type_, starts, lengths)
        else:
            _check_pieces(reader, type_, starts, lengths)


def _check_within(numbers: Vector, end: int) -> None:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < end:
        raise corrupt(f"time out of range. minimum={numbers.min()} maximum={numbers.max()} end={end}")


def _check_digits(type_: DataType, decimals: Vector) -> None:
    content = pa.py_buffer(np.ascontiguousarray(decimals))
    pa.Array.from_buffers(arrow_type(type_), len(decimals), [None, content]).validate(full=True)


def _check_pieces(reader: RowReader, type_: DataType, starts: Vector, lengths: Vector) -> None:
    if type_.root in TEXTS:
        starts, lengths = _in_order(starts, lengths)
        _, offsets, content = slice_pieces(reader.source, starts, starts + lengths).buffers()
        pa.Array.from_buffers(pa.utf8(), len(starts), [None, offsets, content]).validate(full=True)
    elif type_.root is TypeRoot.BINARY and (lengths > (type_.length or 0)).any():
        raise corrupt(f"value too long for its type. maximum={type_.length}")


def _in_order(starts: Vector, lengths: Vector) -> tuple[Vector, Vector]:
    """Sort by position, since elements can be in any order. They must not share bytes."""
    if (starts[1:] >= starts[:-1] + lengths[:-1]).all():
        return starts, lengths
    order = np.argsort(starts, kind="stable")
    starts, lengths = starts[order], lengths[order]
    if (starts[1:] < starts[:-1] + lengths[:-1]).any():
        raise corrupt("elements of an array share bytes")
    return starts, lengths


# -- nested values, as in `nested` but for all rows at once --------------------------------------------------------


def _check_nested(reader: RowReader, type_: DataType, starts: Vector, lengths: Vector) -> None:
    match type_:
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            _check_arrays(reader, element, starts, lengths)
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as value):
            keys = _read_counts(reader, starts, lengths)
            if (keys > lengths - _COUNT_BYTES).any():
                raise corrupt("keys extend beyond their map")
            behind = starts + _COUNT_BYTES
            counts = _check_arrays(reader, key.of(is_nullable=False), behind, keys)
            if (counts != _check_arrays(reader, value, behind + keys, lengths - _COUNT_BYTES - keys)).any():
                raise corrupt("a map has different numbers of keys and values")
        case _:
            rows = row_reader(reader.format, types_of(type_), RowBuffer(reader.source, starts, starts + lengths))
            for each in types_of(type_):
                check_field(rows, each, rows.next(each))


def _read_counts(reader: RowReader, starts: Vector, lengths: Vector) -> Vector:
    """The element or byte count at each start, which is not negative."""
    if (lengths < _COUNT_BYTES).any():
        raise corrupt("count is truncated")
    counts = reader.words(starts, "<i4").astype(np.int64)
    if (counts < 0).any():
        raise corrupt("negative count")
    return counts


def _check_arrays(reader: RowReader, element: DataType, starts: Vector, lengths: Vector) -> Vector:
    """Check arrays and return the element count of each."""
    counts = _read_counts(reader, starts, lengths)
    head = _COUNT_BYTES + (counts + 31) // 32 * 4
    slot = slot_bytes(element)
    if (head + slot * counts > lengths).any():
        raise corrupt("array is shorter than its element count")
    is_plain = (element.root in DTYPES and element.root is not TypeRoot.TIME) or (
        element.root in TIMESTAMPS and element.is_compact_timestamp
    )
    if not is_plain:
        _check_elements(reader, element, starts, lengths, counts, head)
    elif not element.is_nullable:
        owners, index = _each(-(-counts // 8))
        bits = reader.bytes[starts[owners] + _COUNT_BYTES + index]
        # Ignore the unused bits of the last byte.
        kept = np.minimum(counts[owners] - 8 * index, 8)
        if (bits & ((1 << kept) - 1)).any():
            raise corrupt("null element in an array without nulls")
    return counts


def _check_elements(
    reader: RowReader, element: DataType, starts: Vector, lengths: Vector, counts: Vector, head: Vector
) -> None:
    """Check the elements of all arrays together."""
    owners, index = _each(counts)
    nulls = reader.bytes[starts[owners] + _COUNT_BYTES + (index >> 3)] >> (index & 7) & 1 != 0
    if nulls.any():
        if not element.is_nullable:
            raise corrupt("null element in an array without nulls")
        owners, index = owners[~nulls], index[~nulls]
    slots = starts[owners] + head[owners] + slot_bytes(element) * index
    root = element.root
    if root is TypeRoot.TIME:
        _check_within(reader.words(slots, "<i4"), _DAY_MILLIS)
        return
    if root is TypeRoot.DECIMAL and element.is_compact_decimal:
        low = reader.words(slots, "<i8")
        _check_digits(element, np.stack((low, low >> 63), axis=1))
        return
    words = reader.words(slots, "<u8")
    offsets, sizes = (words >> np.uint64(32)).astype(np.int64), (words & np.uint64(0xFFFFFFFF)).astype(np.int64)
    if root in TIMESTAMPS:
        _check_within(sizes, _MILLI_NANOS)
        _check_inside(offsets, np.full(len(offsets), 8), lengths[owners])
        return
    if root in BYTE_STRINGS:
        marks = reader.bytes[slots + INLINE_MAX].astype(np.int64)
        is_inline = marks >= 0x80
        if (marks > 0x80 | INLINE_MAX).any():
            raise corrupt("inline element is too long for its slot")
        offsets = np.where(is_inline, slots - starts[owners], offsets)
        sizes = np.where(is_inline, marks & 0x7F, sizes)
    _check_inside(offsets, sizes, lengths[owners])
    # Elements must not share bytes: otherwise a small array could expand to any size.
    if (np.bincount(owners, sizes, len(starts)) > lengths).any():
        raise corrupt("elements of an array share bytes")
    found = starts[owners] + offsets
    if root is TypeRoot.DECIMAL:
        _check_digits(element, wide_decimals(reader, found, sizes))
    elif root in BYTE_STRINGS:
        _check_pieces(reader, element, found, sizes)
    else:
        _check_nested(reader, element, found, sizes)


def _check_inside(offsets: Vector, sizes: Vector, lengths: Vector) -> None:
    if (offsets + sizes > lengths).any():
        raise corrupt("element extends beyond its array")


def _each(counts: Vector) -> tuple[Vector, Vector]:
    """The owner of each item, and its index among the items of that owner."""
    owners = np.repeat(np.arange(len(counts)), counts)
    return owners, np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
