"""Serves an object's bytes: from its row, from files for `sendfile`, or as a stream.

Only this module knows that an extent may be a range of a blob.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.core.errors import BlobMissing, Corrupted, InvalidRange, LakebedError, NoSuchKey, NotFound
from lakebed.core.ids import BlobId
from lakebed.meta.seam import MetaStore
from lakebed.storage.seam import FileBacked, ObjectStorage

from .. import rows
from ..model import Content, Extent, unpack_layout
from .encryption import FRAME_BYTES, SEALED_FRAME_BYTES, KeyRing, Opener, frame_range, open_whole, sealed_size
from .ingest import blob_key
from .store_failures import reading_from_store

_BATCH_FRAMES = 4
"""Encrypted frames decrypted per thread call: 256 KiB."""


ExplainMissing = Callable[[BlobId], Awaitable[LakebedError]]
"""Returns the error to raise for a blob that is missing from the object store (see `MissingBlobs`)."""


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """A range of an open file. The caller closes the descriptor."""

    descriptor: int
    offset: int
    length: int


class ByteRange(NamedTuple):
    """Bytes from `start` to `end`, exclusive."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.end - self.start


class Contents:
    """The storage, keys and error reporting that all content sources of one object store share."""

    __slots__ = ("explain_missing", "files", "keys", "storage")

    def __init__(self, storage: ObjectStorage, keys: KeyRing, explain_missing: ExplainMissing) -> None:
        self.storage = storage
        self.keys = keys
        self.explain_missing = explain_missing
        # Cached, because a runtime protocol check costs microseconds on every GET.
        self.files: FileBacked | None = storage if isinstance(storage, FileBacked) else None


class ContentSource:
    """The bytes of one object version, in its row or in blobs."""

    __slots__ = ("_body", "_explain_missing", "_files", "_keys", "_pieces", "_storage", "size")

    def __init__(self, contents: Contents, size: int, content: Content) -> None:
        self._storage = contents.storage
        self._files = contents.files
        self._explain_missing = contents.explain_missing
        self._keys = keys = contents.keys
        self.size = size
        self._body: bytes | None = None
        self._pieces: list[Extent] = []
        if content.layout is not None:
            self._pieces = unpack_layout(content.layout)
        elif content.body is not None:
            self._body = (
                content.body if content.seal is None else open_whole(keys.unwrap(content.seal), content.body, size)
            )
        elif size == 0:
            self._body = b""

    @property
    def extents(self) -> list[Extent]:
        """The extents of an object that is not stored in its row."""
        return self._pieces

    def inline(self, wanted: ByteRange) -> bytes | None:
        """The bytes, if they are stored in the row."""
        if self._body is None:
            return None
        return self._body if wanted.length == self.size else self._body[wanted.start : wanted.end]

    async def open_files(self, wanted: ByteRange) -> list[OpenSlice | bytes] | None:
        """Open the files that contain the range; None if the content is remote or encrypted.

        Bytes stored in the row appear between the file slices. Raises NoSuchKey if the object was replaced meanwhile,
        BlobMissing if a blob is lost, Unavailable.
        """
        if self._files is None or any(extent.seal is not None for extent in self._pieces):
            return None
        slices: list[OpenSlice | bytes] = []
        try:
            for extent, part in _overlapping(self._pieces, wanted):
                if extent.blob is not None:
                    try:
                        with reading_from_store():
                            descriptor = self._files.open_file(blob_key(extent.blob))
                    except NotFound as error:
                        raise await self._explain_missing(extent.blob) from error
                    slices.append(OpenSlice(descriptor, extent.start + part.start, part.length))
                elif extent.body is not None:
                    slices.append(extent.body[part.start : part.end])
        except BaseException:
            for opened in slices:
                if isinstance(opened, OpenSlice):
                    os.close(opened.descriptor)
            raise
        return slices

    async def open_stream(self, wanted: ByteRange) -> AsyncIterator[bytes]:
        """Like `stream`, but read the first bytes from the object store, so that an unavailable store fails here.

        Raises Unavailable, and as `stream`.
        """
        chunks = self.stream(wanted)
        # Bytes from the row do not reach the store: read up to the first byte after them.
        needed = min(self._leading_row_bytes(wanted) + 1, wanted.length)
        first = bytearray()
        try:
            while len(first) < needed and (chunk := await anext(chunks, None)) is not None:
                first += chunk
        except BaseException:
            await chunks.aclose()
            raise
        return _PrefetchedStream(bytes(first), chunks)

    def _leading_row_bytes(self, wanted: ByteRange) -> int:
        """The number of bytes stored in the row before the first byte from a blob."""
        count = 0
        for extent, part in _overlapping(self._pieces, wanted):
            if extent.blob is not None:
                break
            count += part.length
        return count

    async def stream(self, wanted: ByteRange) -> AsyncGenerator[bytes, None]:
        """The bytes in order, a few hundred KiB at a time.

        Raises NoSuchKey if the object was replaced meanwhile, BlobMissing if a blob is lost, Corrupted if stored bytes
        do not verify, Unavailable if the object store is unavailable or rejects this server.
        """
        if self._body is not None:
            yield self._body[wanted.start : wanted.end]
            return
        for extent, part in _overlapping(self._pieces, wanted):
            if extent.seal is not None:
                async for plain in self._open_sealed(extent, extent.seal, part):
                    yield plain
            elif extent.body is not None:
                yield extent.body[part.start : part.end]
            elif extent.blob is not None:
                async for chunk in self._read(extent.blob, extent.start + part.start, extent.start + part.end):
                    yield chunk

    async def _open_sealed(self, extent: Extent, seal: bytes, part: ByteRange) -> AsyncIterator[bytes]:
        key = self._keys.unwrap(seal)
        if extent.body is not None:
            yield open_whole(key, extent.body, extent.size)[part.start : part.end]
            return
        if extent.blob is None:
            return
        size, start = extent.blob_size or extent.size, extent.start + part.start
        opener = Opener(key, size)
        first, sealed_start, sealed_end = frame_range(start, start + part.length)
        sealed_end = min(sealed_end, sealed_size(size))
        skip = start - first * FRAME_BYTES
        left = part.length
        frame = first
        gathered = bytearray()
        batch = SEALED_FRAME_BYTES * _BATCH_FRAMES
        async for chunk in self._read(extent.blob, sealed_start, sealed_end):
            gathered += chunk
            while len(gathered) >= batch:
                plain = await asyncio.to_thread(_open_batch, opener, frame, bytes(gathered[:batch]))
                del gathered[:batch]
                frame += _BATCH_FRAMES
                plain, skip = plain[skip:], 0
                yield plain[:left]
                left -= min(left, len(plain))
        if gathered:
            plain = _open_batch(opener, frame, bytes(gathered))[skip:]
            yield plain[:left]

    async def _read(self, blob: BlobId, start: int, end: int) -> AsyncIterator[bytes]:
        """The stored bytes of a range. A store silently truncates a range at the blob's end, so they are counted."""
        missing = end - start
        try:
            with reading_from_store():
                async for chunk in self._storage.stream(blob_key(blob), start, end):
                    missing -= len(chunk)
                    yield chunk
        except InvalidRange as error:
            raise Corrupted(f"stored blob is too short. blob={blob} requested={start}-{end}") from error
        except NotFound as error:
            raise await self._explain_missing(blob) from error
        if missing:
            raise Corrupted(f"stored blob is too short. blob={blob} missing={missing}")


class _PrefetchedStream:
    """A stream whose first bytes are already read. Closing it closes the underlying stream."""

    __slots__ = ("_first", "_rest")

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        self._first = first
        self._rest = rest

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        return await anext(self._rest)

    async def aclose(self) -> None:
        """Close the underlying stream."""
        await self._rest.aclose()


def _open_batch(opener: Opener, first: int, sealed: bytes) -> bytes:
    return b"".join(opener.open_frames(first, sealed))


def _overlapping(extents: list[Extent], wanted: ByteRange) -> list[tuple[Extent, ByteRange]]:
    """The extents that overlap the range, each with the overlap relative to its start."""
    found = []
    offset = 0
    for extent in extents:
        start = max(wanted.start - offset, 0)
        end = min(wanted.end - offset, extent.size)
        if start < end:
            found.append((extent, ByteRange(start, end)))
        offset += extent.size
        if offset >= wanted.end:
            break
    return found


log = logging.getLogger("lakebed.objects")

_NOT_COUNTED: Final[Callable[[], None]] = lambda: None  # noqa: E731


class MissingBlobs:
    """Reports blobs that are missing from the object store."""

    def __init__(self, meta: MetaStore, count: Callable[[], None] = _NOT_COUNTED) -> None:
        """`count` is called for each read of a missing blob."""
        self._meta = meta
        self._count = count

    async def explain(self, blob: BlobId) -> LakebedError:
        """The error for a blob that the object store does not have: BlobMissing, or NoSuchKey if it was replaced."""
        if await self._meta.row(rows.BLOB_IS_REFERRED_TO, blob) is None:
            return NoSuchKey("object was replaced or deleted while it was being read")
        self._count()
        log.error("stored bytes are missing from the object store", extra={"key": blob_key(blob)})
        return BlobMissing(
            f"stored bytes are missing; check that the right object store is mounted. key={blob_key(blob)}"
        )
