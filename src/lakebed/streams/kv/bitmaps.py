"""Sets of numbers that columns hold as bitmaps: whether bytes are one, and two of them made one.

Writers use the bitmaps of Java: `RoaringBitmap` for 32 bits, whose form is that of all libraries, and
`Roaring64Bitmap` for 64 bits, whose form is Java's own (`long_bitmaps`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyroaring import BitMap

from lakebed.fluss.errors import ErrorCode, FlussError

from .roaring64 import NotABitmap, check_long_bitmap, long_union

__all__ = ["Bitmaps", "bitmaps_32", "bitmaps_64"]


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """Those of one column. What is none raises INVALID_TARGET_COLUMN: to send it again would not help."""

    column: str
    name: str
    _check: Callable[[bytes], object]
    _union: Callable[[bytes, bytes], bytes]

    def check(self, content: bytes) -> None:
        """Raise unless it is one."""
        try:
            self._check(content)
        except NotABitmap as error:
            raise self._none(str(error)) from error

    def union(self, old: bytes, new: bytes) -> bytes:
        """All numbers of both."""
        try:
            return self._union(old, new)
        except NotABitmap as error:
            raise self._none(str(error)) from error

    def _none(self, why: str) -> FlussError:
        return FlussError(
            ErrorCode.INVALID_TARGET_COLUMN, f"value is no {self.name}. column={self.column} reason={why}"
        )


def bitmaps_32(column: str) -> Bitmaps:
    """Of 32 bits."""
    return Bitmaps(column, "RoaringBitmap", _read, _union)


def bitmaps_64(column: str) -> Bitmaps:
    """Of 64 bits."""
    return Bitmaps(column, "Roaring64Bitmap", check_long_bitmap, long_union)


def _read(content: bytes) -> BitMap:
    try:
        return BitMap.deserialize(content)  # which looks at all of it: it may come from anybody
    except (ValueError, IndexError) as error:
        raise NotABitmap(str(error)) from error


def _union(old: bytes, new: bytes) -> bytes:
    both = _read(old) | _read(new)
    both.run_optimize()
    return both.serialize()
