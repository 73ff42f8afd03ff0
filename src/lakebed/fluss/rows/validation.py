"""Validates encoded values against their types, for all rows at once, as `vectors` reads them.

Of most types any bytes are. Text is UTF-8, a decimal has no more digits than its type, a time is one of a day, there is
no null where there is none; and what holds other values is looked into, down to the last of them. No value is made of
any of it: that costs a hundred times as much.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.fluss.arrow_types import arrow_type
from lakebed.fluss.types import DataType, TypeRoot

from .fields import corrupt, types_of
from .nested import INLINE_MAX, slot_bytes
from .vectors import (
    DTYPES,
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
    wide_decimals,
)

__all__ = ["check_field"]

_DAY_MILLIS: Final = 86_400_000
_MILLI_NANOS: Final = 1_000_000
_COUNT_BYTES: Final = 4
_TEXTS: Final = frozenset({TypeRoot.STRING, TypeRoot.CHAR})
_PIECES: Final = _TEXTS | {TypeRoot.BYTES, TypeRoot.BINARY}


def check_field(walk: RowReader, type_: DataType, field: FieldVector) -> None:
    """Raise CORRUPT_RECORD, or pyarrow's ArrowInvalid, if one of a column is none of its type."""
    if field.nulls is not None and not type_.is_nullable:
        raise corrupt("it is never null")
    root = type_.root
    if root is TypeRoot.DECIMAL:
        _check_digits(type_, decimals_of(walk, type_, field))
    elif root is TypeRoot.TIME:
        _check_within(numbers_of(walk, type_, field), _DAY_MILLIS)
    elif root in TIMESTAMPS:
        if not type_.is_compact_timestamp:
            _check_within(timestamps_of(walk, type_, field)[1], _MILLI_NANOS)
    elif root not in DTYPES:
        starts, lengths = field.starts, field.lengths
        if field.nulls is not None:
            starts, lengths = starts[~field.nulls], lengths[~field.nulls]
        if type_.is_nested:
            _check_nested(walk, type_, starts, lengths)
        else:
            _check_pieces(walk, type_, starts, lengths)


def _check_within(numbers: Vector, end: int) -> None:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < end:
        raise corrupt(f"a time is out of its bounds. minimum={numbers.min()} maximum={numbers.max()} end={end}")


def _check_digits(type_: DataType, decimals: Vector) -> None:
    content = pa.py_buffer(np.ascontiguousarray(decimals))
    pa.Array.from_buffers(arrow_type(type_), len(decimals), [None, content]).validate(full=True)


def _check_pieces(walk: RowReader, type_: DataType, starts: Vector, lengths: Vector) -> None:
    if type_.root in _TEXTS:
        starts, lengths = _in_order(starts, lengths)
        _, offsets, content = slice_pieces(walk.source, starts, starts + lengths).buffers()
        pa.Array.from_buffers(pa.utf8(), len(starts), [None, offsets, content]).validate(full=True)
    elif type_.root is TypeRoot.BINARY and (lengths > (type_.length or 0)).any():
        raise corrupt(f"value is longer than its type. maximum={type_.length}")


def _in_order(starts: Vector, lengths: Vector) -> tuple[Vector, Vector]:
    """The same in the order they lie, which elements need not have; no two of them are in the same place."""
    if (starts[1:] >= starts[:-1] + lengths[:-1]).all():
        return starts, lengths
    order = np.argsort(starts, kind="stable")
    starts, lengths = starts[order], lengths[order]
    if (starts[1:] < starts[:-1] + lengths[:-1]).any():
        raise corrupt("elements of an array share their bytes")
    return starts, lengths


# -- values with values in them, as `nested` reads them one by one ------------------------------------------------


def _check_nested(walk: RowReader, type_: DataType, starts: Vector, lengths: Vector) -> None:
    match type_:
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            _check_arrays(walk, element, starts, lengths)
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as value):
            keys = _read_counts(walk, starts, lengths)
            if (keys > lengths - _COUNT_BYTES).any():
                raise corrupt("keys of a map are longer than it")
            behind = starts + _COUNT_BYTES
            counts = _check_arrays(walk, key.of(is_nullable=False), behind, keys)
            if (counts != _check_arrays(walk, value, behind + keys, lengths - _COUNT_BYTES - keys)).any():
                raise corrupt("a map has a value for each key")
        case _:
            rows = row_reader(walk.format, types_of(type_), RowBuffer(walk.source, starts, starts + lengths))
            for each in types_of(type_):
                check_field(rows, each, rows.next(each))


def _read_counts(walk: RowReader, starts: Vector, lengths: Vector) -> Vector:
    """The number that each begins with, which is not negative."""
    if (lengths < _COUNT_BYTES).any():
        raise corrupt("there are no four bytes for a number")
    counts = walk.words(starts, "<i4").astype(np.int64)
    if (counts < 0).any():
        raise corrupt("a number of elements, or of bytes, is negative")
    return counts


def _check_arrays(walk: RowReader, element: DataType, starts: Vector, lengths: Vector) -> Vector:
    """Check the arrays that are there; how many elements each has."""
    counts = _read_counts(walk, starts, lengths)
    head = _COUNT_BYTES + (counts + 31) // 32 * 4
    slot = slot_bytes(element)
    if (head + slot * counts > lengths).any():
        raise corrupt("array is shorter than its elements")
    is_plain = (element.root in DTYPES and element.root is not TypeRoot.TIME) or (
        element.root in TIMESTAMPS and element.is_compact_timestamp
    )
    if not is_plain:
        _check_elements(walk, element, starts, lengths, counts, head)
    elif not element.is_nullable:
        owners, index = _each(-(-counts // 8))
        bits = walk.bytes[starts[owners] + _COUNT_BYTES + index]
        # Of the last byte, the bits that there are elements for.
        kept = np.minimum(counts[owners] - 8 * index, 8)
        if (bits & ((1 << kept) - 1)).any():
            raise corrupt("an element is never null")
    return counts


def _check_elements(
    walk: RowReader, element: DataType, starts: Vector, lengths: Vector, counts: Vector, head: Vector
) -> None:
    """Look at the elements of arrays one by one, those of all arrays together."""
    owners, index = _each(counts)
    nulls = walk.bytes[starts[owners] + _COUNT_BYTES + (index >> 3)] >> (index & 7) & 1 != 0
    if nulls.any():
        if not element.is_nullable:
            raise corrupt("an element is never null")
        owners, index = owners[~nulls], index[~nulls]
    slots = starts[owners] + head[owners] + slot_bytes(element) * index
    root = element.root
    if root is TypeRoot.TIME:
        _check_within(walk.words(slots, "<i4"), _DAY_MILLIS)
        return
    if root is TypeRoot.DECIMAL and element.is_compact_decimal:
        low = walk.words(slots, "<i8")
        _check_digits(element, np.stack((low, low >> 63), axis=1))
        return
    words = walk.words(slots, "<u8")
    offsets, sizes = (words >> np.uint64(32)).astype(np.int64), (words & np.uint64(0xFFFFFFFF)).astype(np.int64)
    if root in TIMESTAMPS:
        _check_within(sizes, _MILLI_NANOS)
        _check_inside(offsets, np.full(len(offsets), 8), lengths[owners])
        return
    if root in _PIECES:
        marks = walk.bytes[slots + INLINE_MAX].astype(np.int64)
        is_inline = marks >= 0x80
        if (marks > 0x80 | INLINE_MAX).any():
            raise corrupt("element does not fit where it is")
        offsets = np.where(is_inline, slots - starts[owners], offsets)
        sizes = np.where(is_inline, marks & 0x7F, sizes)
    _check_inside(offsets, sizes, lengths[owners])
    # No two elements are in the same place: or a small array could be made to have any number of bytes to read.
    if (np.bincount(owners, sizes, len(starts)) > lengths).any():
        raise corrupt("elements of an array share their bytes")
    found = starts[owners] + offsets
    if root is TypeRoot.DECIMAL:
        _check_digits(element, wide_decimals(walk, found, sizes))
    elif root in _PIECES:
        _check_pieces(walk, element, found, sizes)
    else:
        _check_nested(walk, element, found, sizes)


def _check_inside(offsets: Vector, sizes: Vector, lengths: Vector) -> None:
    if (offsets + sizes > lengths).any():
        raise corrupt("element lies outside of its array")


def _each(counts: Vector) -> tuple[Vector, Vector]:
    """Of as many things as each has: whose it is, and which of its owner's."""
    owners = np.repeat(np.arange(len(counts)), counts)
    return owners, np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
