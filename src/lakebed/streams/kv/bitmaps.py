"""Validates and merges bitmaps in columns.

Writers use Java's bitmaps: `RoaringBitmap` for 32 bits, in the portable format of all libraries, and `Roaring64Bitmap`
for 64 bits, in a format of its own (`roaring64`).
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
    """Bitmaps of one column. Invalid ones raise INVALID_TARGET_COLUMN, after which clients do not retry."""

    column: str
    name: str
    _check: Callable[[bytes], object]
    _union: Callable[[bytes, bytes], bytes]

    def check(self, content: bytes) -> None:
        """Raise unless it is a valid bitmap."""
        try:
            self._check(content)
        except NotABitmap as error:
            raise self._invalid(str(error)) from error

    def union(self, old: bytes, new: bytes) -> bytes:
        """The union of two bitmaps."""
        try:
            return self._union(old, new)
        except NotABitmap as error:
            raise self._invalid(str(error)) from error

    def _invalid(self, reason: str) -> FlussError:
        return FlussError(ErrorCode.INVALID_TARGET_COLUMN, f"invalid {self.name}. column={self.column} reason={reason}")


def bitmaps_32(column: str) -> Bitmaps:
    """32-bit bitmaps."""
    return Bitmaps(column, "RoaringBitmap", _read, _union)


def bitmaps_64(column: str) -> Bitmaps:
    """64-bit bitmaps."""
    return Bitmaps(column, "Roaring64Bitmap", check_long_bitmap, long_union)


def _read(content: bytes) -> BitMap:
    try:
        return BitMap.deserialize(content)  # validates all of it, since clients sent it
    except (ValueError, IndexError) as error:
        raise NotABitmap(str(error)) from error


def _union(old: bytes, new: bytes) -> bytes:
    both = _read(old) | _read(new)
    both.run_optimize()
    return both.serialize()
