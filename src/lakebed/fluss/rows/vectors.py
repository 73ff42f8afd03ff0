"""Locates the fields of many rows, column by column, with a few numpy operations whatever the number of rows.

A vector holds the current position in each row; each column advances it by its own widths.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.fluss.types import TIMESTAMPS, DataType, TypeRoot

from .fields import LONG_DECIMAL_BYTES, RowFormat, corrupt, fixed_width

__all__ = [
    "DTYPES",
    "PADDING",
    "FieldVector",
    "RowBuffer",
    "RowReader",
    "Vector",
    "decimals_of",
    "numbers_of",
    "row_reader",
    "slice_pieces",
    "timestamps_of",
    "wide_decimals",
]

Vector: TypeAlias = npt.NDArray[Any]
PADDING: Final = bytes(16)
"""Follows the rows, so that numbers in the last row can be read as words."""

DTYPES: Final = {
    TypeRoot.BOOLEAN: "u1",
    TypeRoot.TINYINT: "i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
    TypeRoot.TIME: "<i4",
    TypeRoot.BIGINT: "<i8",
    TypeRoot.FLOAT: "<f4",
    TypeRoot.DOUBLE: "<f8",
}
"""The dtypes of types with a fixed width, as stored."""

_SHORT: Final = frozenset({TypeRoot.INT, TypeRoot.DATE, TypeRoot.TIME})
_STOPS: Final = np.uint64(0x8080808080808080)
_PARTS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)


@dataclass(frozen=True, slots=True)
class RowBuffer:
    """Rows in one buffer, in their order there."""

    data: bytes
    """Ends with `PADDING`."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> RowBuffer:
        """Concatenate rows into a buffer."""
        ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(rows) else ends
        return cls(b"".join((*rows, PADDING)), starts, ends)


@dataclass(slots=True)
class FieldVector:
    """One column of all rows: the positions of its bytes, and its numbers if they were already decoded."""

    nulls: Vector | None
    starts: Vector
    lengths: Vector
    integers: Vector | None = None
    nanos: Vector | None = None


class RowReader(ABC):
    """Reads rows column by column. Raises CORRUPT_RECORD for a row that ends before its columns."""

    def __init__(self, format_: RowFormat, rows: RowBuffer, head_bytes: int) -> None:
        self.format = format_
        self.count = len(rows.starts)
        self.source = rows.data
        self.bytes = np.frombuffer(rows.data, np.uint8)
        self._starts = rows.starts
        self._ends = rows.ends
        self._index = 0
        self._views: dict[str, Vector] = {}
        self.positions = rows.starts + head_bytes
        self._check()

    @property
    def column(self) -> int:
        """The number of the column that was read last."""
        return self._index - 1

    def next(self, type_: DataType) -> FieldVector:
        """Read the next column, of this type."""
        nulls = self._nulls()
        field = self._read(type_, nulls)
        if nulls is not None:
            field.lengths = np.where(nulls, 0, field.lengths)
        field.nulls = nulls
        self.positions = field.starts + field.lengths
        if nulls is not None:
            # A null field has no bytes, not even a length.
            self.positions = np.where(nulls, self._before, self.positions)
            field.starts = np.where(nulls, self._before, field.starts)
        self._check()
        return field

    def words(self, positions: Vector, dtype: str) -> Vector:
        """The numbers at these positions, unaligned."""
        view = self._views.get(dtype)
        if view is None:
            width = np.dtype(dtype).itemsize
            view = np.ndarray((len(self.bytes) - width + 1,), dtype, self.bytes, strides=(1,))
            self._views[dtype] = view
        return view[positions]

    @abstractmethod
    def _read(self, type_: DataType, nulls: Vector | None) -> FieldVector:
        """The next field of all rows."""

    def _nulls(self) -> Vector | None:
        index = self._index
        self._index += 1
        self._before = self.positions
        nulls = (self.bytes[self._starts + (index >> 3)] >> np.uint8(index & 7)) & np.uint8(1)
        return nulls.astype(bool) if nulls.any() else None

    def _check(self) -> None:
        if (self.positions > self._ends).any():
            raise corrupt(f"row is shorter than its columns. column={self._index}")


class _CompactedReader(RowReader):
    def __init__(self, types: Sequence[DataType], rows: RowBuffer) -> None:
        super().__init__(RowFormat.COMPACTED, rows, (len(types) + 7) // 8)

    def _read(self, type_: DataType, nulls: Vector | None) -> FieldVector:
        root, positions = type_.root, self.positions
        if root in _SHORT:
            numbers, widths = self._varints(positions, nulls, 5)
            return FieldVector(None, positions, widths, numbers.astype(np.uint32).view(np.int32))
        if root is TypeRoot.BIGINT or (root is TypeRoot.DECIMAL and type_.is_compact_decimal):
            numbers, widths = self._varints(positions, nulls, 10)
            return FieldVector(None, positions, widths, numbers.view(np.int64))
        if root in TIMESTAMPS:
            numbers, widths = self._varints(positions, nulls, 10)
            field = FieldVector(None, positions, widths, numbers.view(np.int64))
            if not type_.is_compact_timestamp:
                nanos, more = self._varints(positions + widths, nulls, 5)
                field.nanos = nanos.astype(np.uint32).view(np.int32)
                field.lengths = widths + more
            return field
        if root in DTYPES:
            width = np.dtype(DTYPES[root]).itemsize
            return FieldVector(None, positions, np.full(self.count, width, np.int64))
        lengths, widths = self._varints(positions, nulls, 5)
        return FieldVector(None, positions + widths, lengths.view(np.int64))

    def _varints(self, positions: Vector, nulls: Vector | None, max_bytes: int) -> tuple[Vector, Vector]:
        """The numbers at these positions, and their widths. For nulls they are small and meaningless."""
        words = self.words(np.minimum(positions, len(self.bytes) - 8), "<u8")
        if nulls is not None:
            words = np.where(nulls, np.uint64(0), words)
        stops = ~words & _STOPS
        lowest = stops & (~stops + np.uint64(1))
        kept = lowest ^ (lowest - np.uint64(1))  # all bits up to the terminating byte
        words &= kept & _PARTS
        widths = (np.bitwise_count(kept) >> 3).astype(np.int64)
        # Join the seven bits of each byte: by pairs, then by fours, then by eights.
        words = (words & np.uint64(0x007F007F007F007F)) | ((words & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
        words = (words & np.uint64(0x00003FFF00003FFF)) | ((words & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
        words = (words & np.uint64(0x000000000FFFFFFF)) | ((words & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
        long = np.flatnonzero(lowest == 0)
        if max_bytes <= 8:
            if len(long) or (widths > max_bytes).any():
                raise corrupt(f"varint too long. column={self.column}")
        elif len(long):
            self._read_long(positions, words, widths, long)
        return words, widths

    def _read_long(self, positions: Vector, words: Vector, widths: Vector, long: Vector) -> None:
        """Read the bytes after the eighth; every negative number has ten."""
        ninth = self.bytes[np.minimum(positions[long] + 8, len(self.bytes) - 1)]
        tenth = self.bytes[np.minimum(positions[long] + 9, len(self.bytes) - 1)]
        has_tenth = ninth >= 0x80
        if (has_tenth & (tenth > 1)).any():
            raise corrupt(f"varint too long. column={self.column}")
        words[long] |= (ninth & np.uint8(0x7F)).astype(np.uint64) << np.uint64(56)
        words[long] |= np.where(has_tenth, tenth, 0).astype(np.uint64) << np.uint64(63)
        widths[long] = np.where(has_tenth, 10, 9)


class _IndexedReader(RowReader):
    def __init__(self, types: Sequence[DataType], rows: RowBuffer) -> None:
        bitmap = (len(types) + 7) // 8
        super().__init__(RowFormat.INDEXED, rows, bitmap + 4 * sum(fixed_width(type_) is None for type_ in types))
        self._lengths = rows.starts + bitmap

    def _read(self, type_: DataType, nulls: Vector | None) -> FieldVector:
        width = fixed_width(type_)
        if width is not None:
            return FieldVector(None, self.positions, np.full(self.count, width, np.int64))
        lengths = self.words(self._lengths, "<u4").astype(np.int64)
        self._lengths = self._lengths + (4 if nulls is None else np.where(nulls, 0, 4))
        return FieldVector(None, self.positions, lengths)


def row_reader(format_: RowFormat, types: Sequence[DataType], rows: RowBuffer) -> RowReader:
    """A reader of rows of these types."""
    return _CompactedReader(types, rows) if format_ is RowFormat.COMPACTED else _IndexedReader(types, rows)


def numbers_of(reader: RowReader, type_: DataType, field: FieldVector) -> Vector:
    """The numbers of a numeric column; 0 for null."""
    if field.integers is not None:
        return field.integers
    found = reader.words(field.starts, DTYPES[type_.root])
    return found if field.nulls is None else np.where(field.nulls, found.dtype.type(0), found)


def timestamps_of(reader: RowReader, type_: DataType, field: FieldVector) -> tuple[Vector, Vector]:
    """Milliseconds, and nanoseconds of the millisecond; 0 for null."""
    millis, nanos = field.integers, field.nanos
    if millis is None:
        millis = reader.words(field.starts, "<i8")
        if not type_.is_compact_timestamp:
            # A null can be at the very end of the last row, where only padding follows.
            nanos = reader.words(np.minimum(field.starts + 8, len(reader.bytes) - 4), "<i4")
    below = np.zeros(reader.count, np.int64) if nanos is None else nanos.astype(np.int64)
    if field.nulls is None:
        return millis, below
    return np.where(field.nulls, 0, millis), np.where(field.nulls, 0, below)


def decimals_of(reader: RowReader, type_: DataType, field: FieldVector) -> Vector:
    """Decimals in Arrow's layout."""
    if type_.is_compact_decimal:
        low = field.integers if field.integers is not None else reader.words(field.starts, "<i8")
        if field.nulls is not None:
            low = np.where(field.nulls, 0, low)
        return np.stack((low, low >> 63), axis=1)
    return wide_decimals(reader, field.starts, field.lengths, field.nulls)


def wide_decimals(reader: RowReader, starts: Vector, lengths: Vector, nulls: Vector | None = None) -> Vector:
    """Decimals that do not fit 64 bits, in Arrow's layout."""
    is_empty = lengths == 0 if nulls is None else (lengths == 0) & ~nulls
    if (lengths > LONG_DECIMAL_BYTES).any() or is_empty.any():
        raise corrupt(f"invalid decimal length. minimum=1 maximum={LONG_DECIMAL_BYTES}")
    # From big-endian of minimum length to little-endian of full length: reversed, then sign-extended.
    back = np.arange(LONG_DECIMAL_BYTES, dtype=np.int64)[None, :]
    at = np.maximum((starts + lengths)[:, None] - 1 - back, 0)
    found = reader.bytes[at]
    sign = np.where(reader.bytes[starts] >= 0x80, 0xFF, 0).astype(np.uint8)[:, None]
    return np.where(back < lengths[:, None], found, sign)


def slice_pieces(source: bytes, starts: Vector, ends: Vector) -> pa.Array:
    """Copy ascending slices: every second element of an Arrow array that alternates slices and gaps."""
    count = len(starts)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    both = pa.Array.from_buffers(
        pa.binary(), max(2 * count - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(source)]
    )
    return both.take(pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32)))
