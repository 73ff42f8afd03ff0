"""Where batches are in a segment: every few kilobytes one of them is known by its offset, its place and its time."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from awscrt.checksums import crc32c

__all__ = ["INDEX_BYTES", "SparseIndex"]

INDEX_BYTES: Final = 4096
"""How far batches that are known are apart, at least."""

_HEAD: Final = struct.Struct("<4sIIq")
_MAGIC: Final = b"LBi1"


class SparseIndex:
    """Ascending offsets, places and times. Three arrays, so that millions of entries are no objects."""

    __slots__ = ("_offsets", "_positions", "_times")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")
        self._times = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, offset: int, position: int, timestamp_ms: int) -> None:
        """A batch is there. Most are not kept."""
        if not self._positions or position - self._positions[-1] >= INDEX_BYTES:
            self._offsets.append(offset)
            self._positions.append(position)
            self._times.append(timestamp_ms)

    def before(self, offset: int) -> int:
        """The place of a batch that is the one with `offset` or one before it."""
        at = bisect_right(self._offsets, offset) - 1
        return self._positions[at] if at >= 0 else 0

    def last_until(self, position: int) -> tuple[int, int] | None:
        """Place and offset of the last known batch that begins at `position` or before."""
        at = bisect_right(self._positions, position) - 1
        return (self._positions[at], self._offsets[at]) if at >= 0 else None

    def before_time(self, timestamp_ms: int) -> int:
        """The place of a batch before which all are earlier than that."""
        at = bisect_left(self._times, timestamp_ms) - 1
        return self._positions[at] if at >= 0 else 0

    def document(self, end: int) -> bytes:
        """All of it, as the index of a segment of `end` bytes."""
        body = self._offsets.tobytes() + self._positions.tobytes() + self._times.tobytes()
        return _HEAD.pack(_MAGIC, crc32c(body), len(self), end) + body

    @classmethod
    def parse(cls, document: bytes, end: int) -> SparseIndex:
        """Read what `document` wrote. Raises ValueError if it is anything else, or of a segment of another size."""
        index, size = cls.parse_sized(document)
        if size != end:
            raise ValueError(f"index is that of another segment. size={size} expected={end}")
        return index

    @classmethod
    def parse_sized(cls, document: bytes) -> tuple[SparseIndex, int]:
        """Read what `document` wrote, and the size of the segment. Raises ValueError if it is anything else."""
        if len(document) < _HEAD.size:
            raise ValueError("index is cut off")
        magic, crc, count, size = _HEAD.unpack_from(document)
        body = document[_HEAD.size :]
        if magic != _MAGIC or len(body) != 24 * count or crc32c(body) != crc:
            raise ValueError("index is damaged")
        index = cls()
        for number, column in enumerate((index._offsets, index._positions, index._times)):
            column.frombytes(body[8 * count * number : 8 * count * (number + 1)])
        return index, int(size)
