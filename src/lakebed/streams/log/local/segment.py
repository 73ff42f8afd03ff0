"""One file of a log: batches one after the other, and an index of where they are.

Its methods that read block. A file stays open while anybody reads of it, though it was removed meanwhile.
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

__all__ = ["Segment", "Span", "segment_path", "whole_part"]


class Span(NamedTuple):
    """Bytes of a file that are whole batches."""

    start: int
    end: int
    next_offset: int


def segment_path(folder: str, base_offset: int, suffix: str = "log") -> str:
    """Where a segment is, or what belongs to it: names sort as offsets do."""
    return os.path.join(folder, f"{base_offset:020d}.{suffix}")


def whole_part(records: LogBuffer, offset: int, path: str) -> tuple[int, int]:
    """How many bytes of what was read of a file are batches as they were written, and the offset after these.

    The first has `offset`. Raises LOG_STORAGE if it is not whole itself: those before a damaged batch can be read.
    """
    size = first = 0
    try:
        for batch in iterate_batches(records):
            # The first may begin before: somebody reads on from the middle of it. The others follow each other.
            is_leader = (first or batch.base_offset) <= batch.base_offset <= offset < batch.next_offset
            if not is_leader or not has_valid_checksum(batch):
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
    return FlussError(ErrorCode.LOG_STORAGE, f"a batch is damaged. path={path} {where}")


class Segment:
    """A file of batches. `size` and `end_offset` tell how far it may be read."""

    __slots__ = (
        "_descriptor",
        "_held",
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
        """Of its last batch."""
        self.index = SparseIndex() if index is None else index
        self.is_removed = False
        self._descriptor = -1
        self._held = 0

    def descriptor(self) -> int:
        """The open file, which has to be there. Raises OSError."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        return self._descriptor

    def create(self) -> None:
        """Make the file, which must not be there. Raises OSError."""
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def hold(self) -> None:
        """Somebody begins to use the file outside of the loop. Raises OSError.

        It is opened here: by the time that a thread came to it, its name could be gone.
        """
        self.descriptor()
        self._held += 1

    def let_go(self) -> None:
        """Somebody has ended using it."""
        self._held -= 1
        if self.is_removed and not self._held:
            self.close()

    def close(self) -> None:
        """Close the file, at once or when nobody uses it any more."""
        self.is_removed = True
        if self._descriptor >= 0 and not self._held:
            os.close(self._descriptor)
            self._descriptor = -1

    def grew(self, offset: int, size: int, timestamp_ms: int) -> None:
        """A batch at the end may be read now."""
        self.index.add(offset, self.size, timestamp_ms)
        self.size += size
        self.timestamp_ms = timestamp_ms

    def span(self, offset: int, max_bytes: int) -> Span:
        """The batches from the one with `offset` on, of at most `max_bytes` unless the first is larger.

        Batches are only looked at where the index is silent: at the beginning and, if need be, at the end.
        """
        start, first = self._seek(self.index.before(offset), offset)
        if start + max_bytes >= self.size:
            return Span(start, self.size, self.end_offset)
        known = self.index.last_until(start + max_bytes)
        if known is not None and known[0] > start:
            return Span(start, *known)
        # Batches that are so small that several are between two known ones, or one that is larger than asked for.
        end, after = start + first.size, first.next_offset
        while end < self.size:
            try:
                following = self._place_at(end)
            except FlussError:
                break  # it is told when it comes first
            if end + following.size - start > max_bytes:
                break
            end, after = end + following.size, following.next_offset
        return Span(start, end, after)

    def find_time(self, timestamp_ms: int) -> int:
        """The offset of the first batch of then or later; the end if there is none."""
        position = self.index.before_time(timestamp_ms)
        while position < self.size:
            place = self._place_at(position)
            if place.timestamp_ms >= timestamp_ms:
                return place.base_offset
            position += place.size
        return self.end_offset

    def last_place(self) -> BatchPosition:
        """The last batch. Raises ValueError if there is none."""
        if not self.size:
            raise ValueError("segment is empty")
        position = 0 if (known := self.index.last_until(self.size)) is None else known[0]
        while True:
            place = self._place_at(position)
            position += place.size
            if position >= self.size:
                return place

    def read(self, span: Span) -> bytes:
        """The bytes of a span. Raises OSError."""
        size = span.end - span.start
        body = os.pread(self.descriptor(), size, span.start)
        while len(body) < size:  # over 2 GiB, or interrupted
            more = os.pread(self._descriptor, size - len(body), span.start + len(body))
            if not more:
                raise OSError(f"file is shorter than it was. path={self.path}")
            body += more
        return body

    def _seek(self, position: int, offset: int) -> tuple[int, BatchPosition]:
        while True:
            place = self._place_at(position)
            if place.next_offset > offset:
                return position, place
            position += place.size

    def _place_at(self, position: int) -> BatchPosition:
        try:
            place = read_position(os.pread(self.descriptor(), HEADER_BYTES, position))
        except FlussError as failure:
            raise _damaged(self.path, f"position={position}") from failure
        if position + place.size > self.size:
            raise _damaged(self.path, f"position={position}")
        return place
