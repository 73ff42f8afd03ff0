"""Cuts a stream into blocks of whole records, and finds where the records of a scan range begin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lakebed.core.errors import Unavailable

from ..errors import SelectCode, failure
from ..model import MAX_RECORD_BYTES, ScanRange
from .snappy_frames import ByteReader

if TYPE_CHECKING:
    from .object_bytes import ObjectBytes

FIRST_BLOCK_BYTES: Final = 1024 * 1024
"""Of the block that is looked at before the query is made: enough to know a format by, and soon there."""
BLOCK_BYTES: Final = 1024 * 1024
_SEARCH_BYTES: Final = 64 * 1024

Cut = Callable[[bytes], int]
"""How many of the bytes are whole records; 0 if not one record ends here."""


class Blocks:
    """A stream as blocks of whole records. Blocks are taken by any thread, each by one."""

    def __init__(self, stream: ByteReader, cut: Cut) -> None:
        self._stream = stream
        self._cut = cut
        self._turn = threading.Lock()
        self._carried = b""
        self._first: bytes | None = None
        self._ended = False
        self._stopped = False

    def first(self) -> bytes:
        """The first block, which stays to be taken."""
        with self._turn:
            if self._first is None:
                self._first = self._next(FIRST_BLOCK_BYTES) or b""
            return self._first

    def replace_first(self, block: bytes) -> None:
        """Another first block: what is left of it without a header."""
        with self._turn:
            self._first = block

    def take(self) -> bytes | None:
        """The next block, or None after the last. Raises Unavailable after `stop`."""
        with self._turn:
            if self._first is not None:
                block, self._first = self._first, None
                if block:
                    return block
            return self._next(BLOCK_BYTES)

    def stop(self) -> None:
        """Whoever asks for a block from now on is sent away."""
        self._stopped = True

    def _next(self, size: int) -> bytes | None:
        while not self._ended:
            if self._stopped:
                raise Unavailable("the select was stopped")
            data = self._stream.read(size)
            self._ended = len(data) < size
            data = self._carried + data
            if self._ended:
                self._carried = b""
                return data or None
            whole = self._cut(data)
            self._carried = data[whole:]
            if len(self._carried) > MAX_RECORD_BYTES + BLOCK_BYTES:
                raise over_long()
            if whole:
                return data[:whole]
        return None


def over_long() -> Exception:
    """The error for a record that is over its limit."""
    return failure(SelectCode.OVER_MAX_RECORD_SIZE, f"a record is too long. maximum={MAX_RECORD_BYTES}")


def cut_after(delimiter: bytes) -> Cut:
    """Cuts after the last delimiter, wherever it is."""

    def cut(data: bytes) -> int:
        found = data.rfind(delimiter)
        return found + len(delimiter) if found >= 0 else 0

    return cut


def check_lengths(block: bytes, delimiter: bytes) -> None:
    """Raise SelectError (OverMaxRecordSize) if a record of the block is too long."""
    start = 0
    while len(block) - start > MAX_RECORD_BYTES:
        # The last delimiter within the limit: whatever lies between it and the start is short enough.
        found = block.rfind(delimiter, start, start + MAX_RECORD_BYTES + len(delimiter))
        if found < 0:
            raise over_long()
        start = found + len(delimiter)


def resolve_range(asked: ScanRange, size: int) -> tuple[int, int]:
    """First byte and end of a scan range in an object of this size. Raises SelectError (InvalidScanRange)."""
    start, end = asked.start, asked.end
    if start is None and end is None:
        raise failure(SelectCode.INVALID_SCAN_RANGE, "a scan range has a start, an end or both")
    if (start or 0) < 0 or (end or 0) < 0:
        raise failure(SelectCode.INVALID_SCAN_RANGE, f"a scan range is not negative. start={start} end={end}")
    if start is None:
        return max(0, size - (end or 0)), size
    if end is not None and start > end:
        raise failure(SelectCode.INVALID_SCAN_RANGE, f"a scan range ends before it starts. start={start} end={end}")
    if start >= size and not (start == 0 and size == 0):
        raise failure(SelectCode.INVALID_SCAN_RANGE, f"a scan range starts past the end. start={start} size={size}")
    return start, size if end is None else min(end + 1, size)


def first_record(source: ObjectBytes, offset: int, delimiter: bytes) -> int:
    """Where the first record begins that begins at `offset` or later; the object's size if none does.

    A record begins where a delimiter ends, so it is looked for from one delimiter's length before. Ranges that touch
    each other thus have each record in one of them.
    """
    if offset <= 0:
        return 0
    at = max(0, offset - len(delimiter))
    carried = b""
    searched = 0
    while at + len(carried) < source.size:
        data = carried + source.read_at(at + len(carried), _SEARCH_BYTES)
        found = data.find(delimiter)
        if found >= 0:
            return at + found + len(delimiter)
        keep = len(delimiter) - 1
        searched += len(data) - keep
        if searched > 2 * MAX_RECORD_BYTES:
            raise over_long()
        at += len(data) - keep
        carried = data[len(data) - keep :]
    return source.size
