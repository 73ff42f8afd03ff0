"""Many rows at once: from rows to Arrow columns, a column at a time.

A column of all rows is decoded by a few operations of numpy, whatever the number of rows: where the field of each row
begins is a vector, which each column moves on by its own width. Text is not copied by us at all: an Arrow array over
the rows themselves, whose elements are by turns a field and what lies between two fields, is asked for every second
element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.streams.arrow_types import arrow_type
from lakebed.streams.keys.fields import NOT_A_VALUE, RowFormat, corrupt, fixed_width
from lakebed.streams.types import DataType, Root

__all__ = ["PADDING", "Rows", "check_rows", "decode_columns"]

_Vector = npt.NDArray[Any]
PADDING: Final = bytes(16)
"""What follows rows, so that a number which begins in the last of them can be looked at as a word."""

_DTYPES: Final = {
    Root.BOOLEAN: "u1",
    Root.TINYINT: "i1",
    Root.SMALLINT: "<i2",
    Root.INT: "<i4",
    Root.DATE: "<i4",
    Root.TIME: "<i4",
    Root.BIGINT: "<i8",
    Root.FLOAT: "<f4",
    Root.DOUBLE: "<f8",
}
_SHORT: Final = frozenset({Root.INT, Root.DATE, Root.TIME})
_TIMESTAMPS: Final = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ})
_STOPS: Final = np.uint64(0x8080808080808080)
_PARTS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in one buffer, in the order they lie there."""

    data: bytes
    """With `PADDING` at its end."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> Rows:
        """These rows."""
        ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(rows) else ends
        return cls(b"".join((*rows, PADDING)), starts, ends)


@dataclass(slots=True)
class _Field:
    """One column of all rows: where its bytes are, and its numbers if they were read on the way."""

    nulls: _Vector | None
    starts: _Vector
    lengths: _Vector
    integers: _Vector | None = None
    nanos: _Vector | None = None


def decode_columns(format_: RowFormat, types: Sequence[DataType], rows: Rows) -> list[pa.Array]:
    """The columns of these rows; raises CORRUPT_RECORD if one of them is no such row."""
    walk = _walk(format_, types, rows)
    return [_to_arrow(walk, type_, walk.next(type_)) for type_ in types]


def check_rows(format_: RowFormat, types: Sequence[DataType], rows: Rows) -> None:
    """Raise CORRUPT_RECORD if one of them is no such row: a change that nobody could read must not enter the log."""
    walk = _walk(format_, types, rows)
    for type_ in types:
        walk.next(type_)


class _Walk:
    """The rows, and how far each was read."""

    def __init__(self, types: Sequence[DataType], rows: Rows, head_bytes: int) -> None:
        self.count = len(rows.starts)
        self.source = rows.data
        self.bytes = np.frombuffer(rows.data, np.uint8)
        self._starts = rows.starts
        self._ends = rows.ends
        self._index = 0
        self._views: dict[str, _Vector] = {}
        self.positions = rows.starts + head_bytes
        self._check()

    def next(self, type_: DataType) -> _Field:
        """The next column, of this type."""
        nulls = self._nulls()
        field = self._read(type_, nulls)
        if nulls is not None:
            field.lengths = np.where(nulls, 0, field.lengths)
        field.nulls = nulls
        self.positions = field.starts + field.lengths
        if nulls is not None:
            # A field that is not there begins where the next one does: also its prefix is not there.
            self.positions = np.where(nulls, self._before, self.positions)
            field.starts = np.where(nulls, self._before, field.starts)
        self._check()
        return field

    def words(self, positions: _Vector, dtype: str) -> _Vector:
        """The numbers that begin there, wherever that is."""
        view = self._views.get(dtype)
        if view is None:
            width = np.dtype(dtype).itemsize
            view = np.ndarray((len(self.bytes) - width + 1,), dtype, self.bytes, strides=(1,))
            self._views[dtype] = view
        return view[positions]

    def _read(self, type_: DataType, nulls: _Vector | None) -> _Field:
        raise NotImplementedError

    def _nulls(self) -> _Vector | None:
        index = self._index
        self._index += 1
        self._before = self.positions
        nulls = (self.bytes[self._starts + (index >> 3)] >> np.uint8(index & 7)) & np.uint8(1)
        return nulls.astype(bool) if nulls.any() else None

    def _check(self) -> None:
        if (self.positions > self._ends).any():
            raise corrupt(f"a row is shorter than its columns. column={self._index}")


class _CompactedWalk(_Walk):
    def __init__(self, types: Sequence[DataType], rows: Rows) -> None:
        super().__init__(types, rows, (len(types) + 7) // 8)

    def _read(self, type_: DataType, nulls: _Vector | None) -> _Field:
        root, positions = type_.root, self.positions
        if root in _SHORT:
            numbers, widths = self._varints(positions, nulls, 5)
            return _Field(None, positions, widths, numbers.astype(np.uint32).view(np.int32))
        if root is Root.BIGINT or (root is Root.DECIMAL and type_.is_compact_decimal):
            numbers, widths = self._varints(positions, nulls, 10)
            return _Field(None, positions, widths, numbers.view(np.int64))
        if root in _TIMESTAMPS:
            numbers, widths = self._varints(positions, nulls, 10)
            field = _Field(None, positions, widths, numbers.view(np.int64))
            if not type_.is_compact_timestamp:
                nanos, more = self._varints(positions + widths, nulls, 5)
                field.nanos = nanos.astype(np.uint32).view(np.int32)
                field.lengths = widths + more
            return field
        if root in _DTYPES:
            width = np.dtype(_DTYPES[root]).itemsize
            return _Field(None, positions, np.full(self.count, width, np.int64))
        lengths, widths = self._varints(positions, nulls, 5)
        return _Field(None, positions + widths, lengths.view(np.int64))

    def _varints(self, positions: _Vector, nulls: _Vector | None, max_bytes: int) -> tuple[_Vector, _Vector]:
        """The numbers there, and how many bytes each has. Where there is null they mean nothing, but are small."""
        words = self.words(np.minimum(positions, len(self.bytes) - 8), "<u8")
        if nulls is not None:
            words = np.where(nulls, np.uint64(0), words)
        stops = ~words & _STOPS
        lowest = stops & (~stops + np.uint64(1))
        kept = lowest ^ (lowest - np.uint64(1))  # all bits up to the first byte that says it is the last
        words &= kept & _PARTS
        widths = (np.bitwise_count(kept) >> 3).astype(np.int64)
        # Seven bits of each byte move together: by pairs, then by fours, then by eights.
        words = (words & np.uint64(0x007F007F007F007F)) | ((words & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
        words = (words & np.uint64(0x00003FFF00003FFF)) | ((words & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
        words = (words & np.uint64(0x000000000FFFFFFF)) | ((words & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
        long = np.flatnonzero(lowest == 0)
        if max_bytes <= 8:
            if len(long) or (widths > max_bytes).any():
                raise corrupt(f"number is too long. column={self._index - 1}")
        elif len(long):
            self._read_long(positions, words, widths, long)
        return words, widths

    def _read_long(self, positions: _Vector, words: _Vector, widths: _Vector, long: _Vector) -> None:
        """The rest of those that go on after eight bytes, as every negative one does."""
        ninth = self.bytes[np.minimum(positions[long] + 8, len(self.bytes) - 1)]
        tenth = self.bytes[np.minimum(positions[long] + 9, len(self.bytes) - 1)]
        goes_on = ninth >= 0x80
        if (goes_on & (tenth > 1)).any():
            raise corrupt(f"number is too long. column={self._index - 1}")
        words[long] |= (ninth & np.uint8(0x7F)).astype(np.uint64) << np.uint64(56)
        words[long] |= np.where(goes_on, tenth, 0).astype(np.uint64) << np.uint64(63)
        widths[long] = np.where(goes_on, 10, 9)


class _IndexedWalk(_Walk):
    def __init__(self, types: Sequence[DataType], rows: Rows) -> None:
        bitmap = (len(types) + 7) // 8
        super().__init__(types, rows, bitmap + 4 * sum(fixed_width(type_) is None for type_ in types))
        self._lengths = rows.starts + bitmap

    def _read(self, type_: DataType, nulls: _Vector | None) -> _Field:
        width = fixed_width(type_)
        if width is not None:
            return _Field(None, self.positions, np.full(self.count, width, np.int64))
        lengths = self.words(self._lengths, "<u4").astype(np.int64)
        self._lengths = self._lengths + (4 if nulls is None else np.where(nulls, 0, 4))
        return _Field(None, self.positions, lengths)


def _walk(format_: RowFormat, types: Sequence[DataType], rows: Rows) -> _Walk:
    return _CompactedWalk(types, rows) if format_ is RowFormat.COMPACTED else _IndexedWalk(types, rows)


def _to_arrow(walk: _Walk, type_: DataType, field: _Field) -> pa.Array:
    root = type_.root
    if root is Root.BOOLEAN:
        bits = np.packbits(_numbers(walk, type_, field) != 0, bitorder="little")
        return _array(walk, field, arrow_type(type_), bits)
    if root in _DTYPES:
        numbers = _numbers(walk, type_, field)
        return _array(walk, field, arrow_type(type_), _times(type_, numbers) if root is Root.TIME else numbers)
    if root in _TIMESTAMPS:
        return _array(walk, field, arrow_type(type_), _timestamps(walk, type_, field))
    if root is Root.DECIMAL:
        return _array(walk, field, arrow_type(type_), _decimals(walk, type_, field))
    if root is Root.BINARY:
        return _array(walk, field, arrow_type(type_), _padded(walk, field, type_.length or 0))
    if root in (Root.STRING, Root.CHAR, Root.BYTES):
        return _slices(walk, type_, field)
    return _nested(walk, type_, field)


def _numbers(walk: _Walk, type_: DataType, field: _Field) -> _Vector:
    if field.integers is not None:
        return field.integers
    found = walk.words(field.starts, _DTYPES[type_.root])
    return found if field.nulls is None else np.where(field.nulls, found.dtype.type(0), found)


def _times(type_: DataType, millis: _Vector) -> _Vector:
    precision = type_.precision or 0
    if precision <= 3:
        return millis if precision else millis // np.int32(1000)
    return millis.astype(np.int64) * (1_000 if precision <= 6 else 1_000_000)


def _timestamps(walk: _Walk, type_: DataType, field: _Field) -> _Vector:
    millis, nanos = field.integers, field.nanos
    if millis is None:
        millis = walk.words(field.starts, "<i8")
        if not type_.is_compact_timestamp:
            # A null may stand at the very end of the last row, where padding is all there is to read.
            nanos = walk.words(np.minimum(field.starts + 8, len(walk.bytes) - 4), "<i4")
        if field.nulls is not None:
            millis = np.where(field.nulls, 0, millis)
    precision = type_.precision or 0
    if precision <= 3:
        return millis if precision else millis // 1000
    below = 0 if nanos is None else nanos.astype(np.int64)
    if field.nulls is not None:
        below = np.where(field.nulls, 0, below)
    return millis * 1_000 + below // 1_000 if precision <= 6 else millis * 1_000_000 + below


def _decimals(walk: _Walk, type_: DataType, field: _Field) -> _Vector:
    if type_.is_compact_decimal:
        low = field.integers if field.integers is not None else walk.words(field.starts, "<i8")
        return np.stack((low, low >> 63), axis=1)
    if (field.lengths > 16).any():
        raise corrupt("decimal has more than sixteen bytes")
    # Big-endian and as short as may be, to little-endian and whole: from the last byte back, then the sign.
    back = np.arange(16, dtype=np.int64)[None, :]
    at = np.maximum((field.starts + field.lengths)[:, None] - 1 - back, 0)
    found = walk.bytes[at]
    sign = np.where(walk.bytes[field.starts] >= 0x80, 0xFF, 0).astype(np.uint8)[:, None]
    return np.where(back < field.lengths[:, None], found, sign)


def _padded(walk: _Walk, field: _Field, width: int) -> _Vector:
    if (field.lengths > width).any():
        raise corrupt(f"value is longer than its type. maximum={width}")
    on = np.arange(width, dtype=np.int64)[None, :]
    found = walk.bytes[np.minimum(field.starts[:, None] + on, len(walk.bytes) - 1)]
    return np.where(on < field.lengths[:, None], found, np.uint8(0))


def _slices(walk: _Walk, type_: DataType, field: _Field) -> pa.Array:
    """Every second element of an array of fields and what is between them."""
    starts, ends = field.starts, field.starts + field.lengths
    if type_.root is Root.CHAR and isinstance(walk, _IndexedWalk):
        ends = _without_zeros(walk, starts, ends)
    if not walk.count:
        return pa.array([], arrow_type(type_))
    offsets = np.empty(2 * walk.count, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    both = pa.Array.from_buffers(
        pa.binary(), 2 * walk.count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(walk.source)]
    )
    taken = both.take(pa.array(np.arange(0, 2 * walk.count - 1, 2, dtype=np.int32)))
    _, offset_buffer, content = taken.buffers()
    return pa.Array.from_buffers(arrow_type(type_), walk.count, [_validity(field), offset_buffer, content])


def _without_zeros(walk: _Walk, starts: _Vector, ends: _Vector) -> _Vector:
    """Ends of what CHARs hold: an indexed row fills them up with zeros."""
    ends = ends.copy()
    while True:
        at = np.flatnonzero((ends > starts) & (walk.bytes[np.maximum(ends - 1, 0)] == 0))
        if not len(at):
            return ends
        ends[at] -= 1


def _nested(walk: _Walk, type_: DataType, field: _Field) -> pa.Array:
    format_ = RowFormat.COMPACTED if isinstance(walk, _CompactedWalk) else RowFormat.INDEXED
    nulls = np.zeros(walk.count, bool) if field.nulls is None else field.nulls
    found: list[Any] = []
    for is_null, start, length in zip(nulls.tolist(), field.starts.tolist(), field.lengths.tolist(), strict=True):
        if is_null:
            found.append(None)
        else:
            # The content alone is the same in both formats; only a compacted row has the length before it.
            value = decode_content(format_, type_, walk.source[start : start + length])
            found.append(_arrow_value(type_, value))
    return pa.array(found, arrow_type(type_))


def decode_content(format_: RowFormat, type_: DataType, content: bytes) -> Any:
    """The nested value of a field whose length was read already."""
    from lakebed.streams.keys.nested import decode_nested

    try:
        return decode_nested(format_, type_, content)
    except NOT_A_VALUE as error:
        raise corrupt(f"field is no {type_.root.name}. length={len(content)}") from error


def _arrow_value(type_: DataType, value: Any) -> Any:
    """What pyarrow takes for a value inside a nested one."""
    if value is None:
        return None
    match type_:
        case DataType(root=Root.TIME):
            return int(_times(type_, np.array([value], np.int32))[0])
        case DataType(root=Root.TIMESTAMP | Root.TIMESTAMP_LTZ):
            millis, nanos = value
            precision = type_.precision or 0
            if precision <= 3:
                return millis if precision else millis // 1000
            return millis * 1_000 + nanos // 1_000 if precision <= 6 else millis * 1_000_000 + nanos
        case DataType(root=Root.BINARY):
            return bytes(value).ljust(type_.length or 0, b"\0")
        case DataType(root=Root.ARRAY, element=DataType() as element):
            return [_arrow_value(element, each) for each in value]
        case DataType(root=Root.MAP, key=DataType() as key, value=DataType() as of):
            return [(_arrow_value(key, a), _arrow_value(of, b)) for a, b in value]
        case DataType(root=Root.ROW):
            return {field.name: _arrow_value(field.type, each) for field, each in zip(type_.fields, value, strict=True)}
    return value


def _array(walk: _Walk, field: _Field, type_: pa.DataType, content: _Vector) -> pa.Array:
    contiguous = np.ascontiguousarray(content)
    return pa.Array.from_buffers(type_, walk.count, [_validity(field), pa.py_buffer(contiguous)])


def _validity(field: _Field) -> pa.Buffer | None:
    return None if field.nulls is None else pa.py_buffer(np.packbits(~field.nulls, bitorder="little"))
