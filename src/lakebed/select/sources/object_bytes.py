"""Random access to an object's bytes from threads."""

from __future__ import annotations

import asyncio
import os
import threading
from bisect import bisect_right
from concurrent.futures import CancelledError, Future
from itertools import accumulate
from typing import Protocol

from lakebed.core.errors import Corrupted, Unavailable
from lakebed.objects.blobs.contents import ByteRange, ContentSource, OpenSlice


class ObjectBytes(Protocol):
    """The bytes of one version. Its methods block and may be called from any thread."""

    @property
    def size(self) -> int:
        """Number of bytes."""
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end. Raises Corrupted; Unavailable after `close`."""
        ...

    def close(self) -> None:
        """Release the bytes and stop waiting reads. Idempotent."""
        ...


async def open_bytes(source: ContentSource, loop: asyncio.AbstractEventLoop) -> ObjectBytes:
    """Open a version's bytes in the fastest way. Raises NoSuchKey if it was replaced, BlobMissing."""
    everything = ByteRange(0, source.size)
    body = source.inline(everything)
    if body is not None:
        return LocalBytes([body])
    slices = await source.open_files(everything)
    if slices is not None:
        return LocalBytes(slices)
    return StreamedBytes(source, loop)


class LocalBytes:
    """Bytes in local files or in memory. Open files stay readable when they are deleted."""

    def __init__(self, pieces: list[OpenSlice | bytes]) -> None:
        self._pieces = pieces
        lengths = [len(piece) if isinstance(piece, bytes) else piece.length for piece in pieces]
        self._ends = list(accumulate(lengths))
        self._readers = 0
        self._closed = False
        self._condition = threading.Condition()

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self._ends[-1] if self._ends else 0

    def read_at(self, offset: int, length: int) -> bytes:
        """Read a range."""
        with self._condition:
            if self._closed:
                raise Unavailable("the select was stopped")
            self._readers += 1
        try:
            return self._read(offset, min(length, self.size - offset))
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    def close(self) -> None:
        """Close the files after running reads: a closed descriptor may be reused for another file."""
        with self._condition:
            if self._closed:
                return
            self._closed = True
            self._condition.wait_for(lambda: self._readers == 0)
        for piece in self._pieces:
            if isinstance(piece, OpenSlice):
                os.close(piece.descriptor)

    def _read(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        number = bisect_right(self._ends, offset)
        while length > 0:
            piece = self._pieces[number]
            start = offset - (self._ends[number - 1] if number else 0)
            count = min(length, self._ends[number] - offset)
            parts.append(piece[start : start + count] if isinstance(piece, bytes) else _pread(piece, start, count))
            offset, length, number = offset + count, length - count, number + 1
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _pread(piece: OpenSlice, start: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0:
        part = os.pread(piece.descriptor, count, piece.offset + start)
        if not part:
            raise Corrupted(f"stored blob is too short. missing={count}")
        parts.append(part)
        start, count = start + len(part), count - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class StreamedBytes:
    """Encrypted or remote bytes, fetched by the event loop for waiting threads.

    The next range is prefetched, for sequential readers.
    """

    def __init__(self, source: ContentSource, loop: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._loop = loop
        self._closed = False
        self._lock = threading.Lock()
        self._ahead: tuple[ByteRange, Future[bytes]] | None = None
        self._waiting: set[Future[bytes]] = set()

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self._source.size

    def read_at(self, offset: int, length: int) -> bytes:
        """Read a range."""
        wanted = ByteRange(offset, min(offset + length, self.size))
        if wanted.length <= 0:
            return b""
        with self._lock:
            if self._closed:
                raise Unavailable("the select was stopped")
            ahead, self._ahead = self._ahead, None
            future = ahead[1] if ahead is not None and ahead[0] == wanted else self._fetch(wanted)
            if ahead is not None and ahead[1] is not future:
                ahead[1].cancel()
            following = ByteRange(wanted.end, min(wanted.end + wanted.length, self.size))
            if following.length > 0:
                self._ahead = (following, self._fetch(following))
        try:
            return future.result()
        except CancelledError as error:
            raise Unavailable("the select was stopped") from error

    def close(self) -> None:
        """Stop fetching."""
        with self._lock:
            self._closed = True
            for future in list(self._waiting):
                future.cancel()

    def _fetch(self, wanted: ByteRange) -> Future[bytes]:
        future = asyncio.run_coroutine_threadsafe(self._gather(wanted), self._loop)
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    async def _gather(self, wanted: ByteRange) -> bytes:
        return b"".join([chunk async for chunk in self._source.stream(wanted)])
