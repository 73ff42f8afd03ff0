"""A sparse index of a segment: offset, position and time of one batch every few kilobytes."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from awscrt.checksums import crc32c

__all__ = ["INDEX_BYTES", "SparseIndex"]

INDEX_BYTES: Final = 4096
"""Minimum distance between index entries."""

_HEAD: Final = struct.Struct("<4sIIq")
_MAGIC: Final = b"LBi1"


class SparseIndex:
    """Ascending offsets, positions and times, in arrays: millions of entries are not Python objects."""

    __slots__ = ("_offsets", "_positions", "_times")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, offset: int, position: int, timestamp_ms: int) -> None:
        """Add a batch. Most are skipped."""
        if not self._positions or position - self._positions[-1] >= INDEX_BYTES:
            self._offsets.append(offset)
            self._positions.append(position)
            self._times.append(timestamp_ms)

    def before(self, offset: int) -> int:
        """The position of the last indexed batch that begins at `offset` or before."""
        at = bisect_right(self._offsets, offset) - 1
        return self._positions[at] if at >= 0 else 0

    def last_until(self, position: int) -> tuple[int, int] | None:
        """Position and offset of the last indexed batch that begins at `position` or before."""
        at = bisect_right(self._positions, position) - 1
        return (self._positions[at], self._offsets[at]) if at >= 0 else None

    def before_time(self, timestamp_ms: int) -> int:
        """A position before which all batches are older than `timestamp_ms`."""
        at = bisect_left(self._times, timestamp_ms) - 1
        return self._positions[at] if at >= 0 else 0

    def document(self, end: int) -> bytes:
        """The index of a segment of `end` bytes, as bytes."""
        body = self._offsets.tobytes() + self._positions.tobytes() + self._times.tobytes()
        return _HEAD.pack(_MAGIC, crc32c(body), len(self), end) + body

    @classmethod
    def parse(cls, document: bytes, end: int) -> SparseIndex:
        """Parse the bytes of `document`. Raises ValueError if they are invalid, or for a segment of another size."""
        index, size = cls.parse_sized(document)
        if size != end:
            raise ValueError(f"index belongs to another segment. size={size} expected={end}")
        return index

    @classmethod
    def parse_sized(cls, document: bytes) -> tuple[SparseIndex, int]:
        """Parse the bytes of `document`; returns the index and the segment size. Raises ValueError."""
        if len(document) < _HEAD.size:
            raise ValueError("index is truncated")
        magic, crc, count, size = _HEAD.unpack_from(document)
        body = document[_HEAD.size :]
        if magic != _MAGIC or len(body) != 24 * count or crc32c(body) != crc:
            raise ValueError("index is damaged")
        index = cls()
        for number, column in enumerate((index._offsets, index._positions, index._times)):
            column.frombytes(body[8 * count * number : 8 * count * (number + 1)])
        return index, int(size)
