"""A segment file of a log: consecutive batches, with an index of their positions.

Methods that read block. A file stays open until its last read ends, even after its removal.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import (
    HEADER_BYTES,
    BatchPosition,
    LogBuffer,
    has_valid_checksum,
    iterate_batches,
    read_position,
)

from .sparse_index import SparseIndex

__all__ = ["Segment", "Span", "segment_path", "valid_prefix"]


class Span(NamedTuple):
    """A byte range of a file with whole batches."""

    start: int
    end: int
    next_offset: int


def segment_path(folder: str, base_offset: int, suffix: str = "log") -> str:
    """The path of a segment or its companion file. Names sort by offset."""
    return os.path.join(folder, f"{base_offset:020d}.{suffix}")


def valid_prefix(records: LogBuffer, offset: int, path: str) -> tuple[int, int]:
    """The size of the undamaged batches at the start of bytes read from a file, and the offset after them.

    The first must contain `offset`. Raises LOG_STORAGE if it is damaged; batches before a damaged one are readable.
    """
    size = first = 0
    try:
        for batch in iterate_batches(records):
            # The first batch may begin before `offset`. The others are consecutive.
            is_next = (first or batch.base_offset) <= batch.base_offset <= offset < batch.next_offset
            if not is_next or not has_valid_checksum(batch):
                break
            size, first = size + len(batch.view), batch.next_offset
            offset = first
    except FlussError as failure:
        if not size:
            raise _damaged(path, f"offset={offset}") from failure
    if not size:
        raise _damaged(path, f"offset={offset}")
    return size, offset


def _damaged(path: str, where: str) -> FlussError:
    return FlussError(ErrorCode.LOG_STORAGE, f"batch is damaged. path={path} {where}")


class Segment:
    """A file of batches, readable up to `size` and `end_offset`."""

    __slots__ = (
        "_descriptor",
        "_readers",
        "base_offset",
        "end_offset",
        "index",
        "is_removed",
        "path",
        "size",
        "timestamp_ms",
    )

    def __init__(self, path: str, base_offset: int, index: SparseIndex | None = None) -> None:
        self.path = path
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.timestamp_ms = -1
        """Of the last batch."""
        self.index = SparseIndex() if index is None else index
        self.is_removed = False
        self._descriptor = -1
        self._readers = 0

    def descriptor(self) -> int:
        """The open file, which must exist. Raises OSError."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        return self._descriptor

    def create(self) -> None:
        """Create the file, which must not exist. Raises OSError."""
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def acquire(self) -> None:
        """Keep the file open for use outside the event loop. Raises OSError.

        Opens it now: before a thread opened it, the file could be removed.
        """
        self.descriptor()
        self._readers += 1

    def release(self) -> None:
        """End a use of the file."""
        self._readers -= 1
        if self.is_removed and not self._readers:
            self.close()

    def close(self) -> None:
        """Close the file, now or when its last use ends."""
        self.is_removed = True
        if self._descriptor >= 0 and not self._readers:
            os.close(self._descriptor)
            self._descriptor = -1

    def extend(self, offset: int, size: int, timestamp_ms: int) -> None:
        """Make an appended batch readable."""
        self.index.add(offset, self.size, timestamp_ms)
        self.size += size
        self.timestamp_ms = timestamp_ms

    def span(self, offset: int, max_bytes: int) -> Span:
        """The batches from the one that contains `offset`, up to `max_bytes` unless the first is larger.

        Reads batch headers only between index entries: at the beginning and, if necessary, at the end.
        """
        start, first = self._seek(self.index.before(offset), offset)
        if start + max_bytes >= self.size:
            return Span(start, self.size, self.end_offset)
        known = self.index.last_until(start + max_bytes)
        if known is not None and known[0] > start:
            return Span(start, *known)
        # No index entry in the range: several batches between two entries, or one large batch.
        end, after = start + first.size, first.next_offset
        while end < self.size:
            try:
                following = self._batch_at(end)
            except FlussError:
                break  # reported when it is the first of a read
            if end + following.size - start > max_bytes:
                break
            end, after = end + following.size, following.next_offset
        return Span(start, end, after)

    def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch at this time or later; the end if there is none."""
        position = self.index.before_time(timestamp_ms)
        while position < self.size:
            batch = self._batch_at(position)
            if batch.timestamp_ms >= timestamp_ms:
                return batch.base_offset
            position += batch.size
        return self.end_offset

    def last_batch(self) -> BatchPosition:
        """The last batch. Raises ValueError if there is none."""
        if not self.size:
            raise ValueError("segment is empty")
        position = 0 if (known := self.index.last_until(self.size)) is None else known[0]
        while True:
            batch = self._batch_at(position)
            position += batch.size
            if position >= self.size:
                return batch

    def read(self, span: Span) -> bytes:
        """Read the bytes of a span. Raises OSError."""
        size = span.end - span.start
        body = os.pread(self.descriptor(), size, span.start)
        while len(body) < size:  # a partial read: over 2 GiB, or interrupted
            more = os.pread(self._descriptor, size - len(body), span.start + len(body))
            if not more:
                raise OSError(f"file is truncated. path={self.path}")
            body += more
        return body

    def _seek(self, position: int, offset: int) -> tuple[int, BatchPosition]:
        while True:
            batch = self._batch_at(position)
            if batch.next_offset > offset:
                return position, batch
            position += batch.size

    def _batch_at(self, position: int) -> BatchPosition:
        try:
            batch = read_position(os.pread(self.descriptor(), HEADER_BYTES, position))
        except FlussError as failure:
            raise _damaged(self.path, f"position={position}") from failure
        if position + batch.size > self.size:
            raise _damaged(self.path, f"position={position}")
        return batch
