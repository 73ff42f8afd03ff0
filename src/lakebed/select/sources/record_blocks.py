"""Cuts a stream into blocks of whole records, and finds the records of a scan range."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lakebed.core.errors import SelectError, Unavailable

from ..errors import SelectCode, failure
from ..model import MAX_RECORD_BYTES, ScanRange
from .snappy_frames import ByteReader

if TYPE_CHECKING:
    from .object_bytes import ObjectBytes

FIRST_BLOCK_BYTES: Final = 1024 * 1024
"""Size of the block that is sampled before planning: enough to find the columns, and quick to read."""
BLOCK_BYTES: Final = 1024 * 1024
_SEARCH_BYTES: Final = 64 * 1024

Cut = Callable[[bytes], int]
"""Returns how many of the bytes are whole records; 0 if no record ends in them."""


class Blocks:
    """A stream as blocks of whole records. Thread-safe."""

    def __init__(self, stream: ByteReader, cut: Cut) -> None:
        self._stream = stream
        self._cut = cut
        self._lock = threading.Lock()
        self._carried = b""
        self._first: bytes | None = None
        self._ended = False
        self._stopped = False

    def first(self) -> bytes:
        """The first block, which `take` returns too."""
        with self._lock:
            if self._first is None:
                self._first = self._next(FIRST_BLOCK_BYTES) or b""
            return self._first

    def replace_first(self, block: bytes) -> None:
        """Replace the first block, for example by one without the header."""
        with self._lock:
            self._first = block

    def take(self) -> bytes | None:
        """The next block, or None after the last. Raises Unavailable after `stop`."""
        with self._lock:
            if self._first is not None:
                block, self._first = self._first, None
                if block:
                    return block
            return self._next(BLOCK_BYTES)

    def stop(self) -> None:
        """Make further `take` calls fail."""
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
                raise record_too_long()
            if whole:
                return data[:whole]
        return None


def record_too_long() -> SelectError:
    """The error for a record that exceeds its limit."""
    return failure(SelectCode.OVER_MAX_RECORD_SIZE, f"record is too long. maximum={MAX_RECORD_BYTES}")


def cut_after(delimiter: bytes) -> Cut:
    """Cut after the last delimiter, quoted or not."""

    def cut(data: bytes) -> int:
        found = data.rfind(delimiter)
        return found + len(delimiter) if found >= 0 else 0

    return cut


def check_lengths(block: bytes, delimiter: bytes) -> None:
    """Raise SelectError (OverMaxRecordSize) if a record of the block is too long."""
    start = 0
    while len(block) - start > MAX_RECORD_BYTES:
        # Up to the last delimiter within the limit, every record is short enough.
        found = block.rfind(delimiter, start, start + MAX_RECORD_BYTES + len(delimiter))
        if found < 0:
            raise record_too_long()
        start = found + len(delimiter)


def resolve_range(scan_range: ScanRange, size: int) -> tuple[int, int]:
    """First byte and end of a scan range in an object of this size. Raises SelectError (InvalidScanRange)."""
    start, end = scan_range.start, scan_range.end
    if start is None and end is None:
        raise failure(SelectCode.INVALID_SCAN_RANGE, "a scan range requires a start or an end")
    if (start or 0) < 0 or (end or 0) < 0:
        raise failure(SelectCode.INVALID_SCAN_RANGE, f"a scan range must not be negative. start={start} end={end}")
    if start is None:
        return max(0, size - (end or 0)), size
    if end is not None and start > end:
        raise failure(SelectCode.INVALID_SCAN_RANGE, f"a scan range ends before it starts. start={start} end={end}")
    if start >= size and not (start == 0 and size == 0):
        raise failure(SelectCode.INVALID_SCAN_RANGE, f"a scan range starts past the end. start={start} size={size}")
    return start, size if end is None else min(end + 1, size)


def first_record(source: ObjectBytes, offset: int, delimiter: bytes) -> int:
    """The offset of the first record that begins at `offset` or later; the object's size if there is none.

    A record begins after a delimiter, so the search starts one delimiter earlier. Thus each record is in exactly one of
    adjacent ranges.
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
            raise record_too_long()
        at += len(data) - keep
        carried = data[len(data) - keep :]
    return source.size
