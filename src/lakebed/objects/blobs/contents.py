"""Gives an object's bytes out: from its row, from files that the kernel can send, or as a stream.

A piece may be a range of a blob; where in the blob it begins matters only here.
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
"""Encrypted frames opened in one visit to a thread: 256 KiB."""


ExplainMissing = Callable[[BlobId], Awaitable[LakebedError]]
"""Gives the error to raise for a blob that the object store does not have (`missing_blobs`)."""


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """A run of bytes of an open file. Whoever takes it closes the descriptor."""

    descriptor: int
    offset: int
    length: int


class ByteRange(NamedTuple):
    """Bytes from `start` up to, not including, `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How many."""
        return self.end - self.start


class Contents:
    """Where bytes are kept and how they are opened: what every source of one object store shares."""

    __slots__ = ("explain_missing", "files", "keys", "storage")

    def __init__(self, storage: ObjectStorage, keys: KeyRing, explain_missing: ExplainMissing) -> None:
        self.storage = storage
        self.keys = keys
        self.explain_missing = explain_missing
        # Asked once: a look at a protocol's methods costs microseconds, and this is asked on every GET.
        self.files: FileBacked | None = storage if isinstance(storage, FileBacked) else None


class ContentSource:
    """The bytes of one version of an object, wherever they are."""

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
        """The pieces of an object that is not in its row."""
        return self._pieces

    def inline(self, wanted: ByteRange) -> bytes | None:
        """The bytes, if they are at hand."""
        if self._body is None:
            return None
        return self._body if wanted.length == self.size else self._body[wanted.start : wanted.end]

    async def open_files(self, wanted: ByteRange) -> list[OpenSlice | bytes] | None:
        """Open files that hold just these bytes, if that is how they are stored, and what is between them in the row.

        Raises NoSuchKey if one was replaced meanwhile, BlobMissing if one is lost, Unavailable.
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
        """As `stream`, with the first bytes of the object store read already: one that is away is noticed here.

        Raises Unavailable, and as `stream`.
        """
        chunks = self.stream(wanted)
        # What the row has comes without a look at the store: read on to the first byte behind it.
        needed = min(self._leading_at_hand(wanted) + 1, wanted.length)
        first = bytearray()
        try:
            while len(first) < needed and (chunk := await anext(chunks, None)) is not None:
                first += chunk
        except BaseException:
            await chunks.aclose()
            raise
        return _BegunStream(bytes(first), chunks)

    def _leading_at_hand(self, wanted: ByteRange) -> int:
        """How many of the first bytes are in the row, before the first that is in the object store."""
        count = 0
        for extent, part in _overlapping(self._pieces, wanted):
            if extent.blob is not None:
                break
            count += part.length
        return count

    async def stream(self, wanted: ByteRange) -> AsyncGenerator[bytes, None]:
        """The bytes in order, a few hundred KiB at a time.

        Raises NoSuchKey if they were replaced meanwhile, BlobMissing if they are lost, Corrupted where they are not
        what was written, Unavailable where the object store is away or refuses this server.
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
        """Stored bytes, all that were asked for: a store cuts a range at the blob's end without a word."""
        missing = end - start
        try:
            with reading_from_store():
                async for chunk in self._storage.stream(blob_key(blob), start, end):
                    missing -= len(chunk)
                    yield chunk
        except InvalidRange as error:
            raise Corrupted(f"a stored blob is too short. blob={blob} wanted={start}-{end}") from error
        except NotFound as error:
            raise await self._explain_missing(blob) from error
        if missing:
            raise Corrupted(f"a stored blob is too short. blob={blob} missing={missing}")


class _BegunStream:
    """A stream of which the first bytes were read. Closing it closes the stream, read on or not."""

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
        """Release what the stream holds."""
        await self._rest.aclose()


def _open_batch(opener: Opener, first: int, sealed: bytes) -> bytes:
    return b"".join(opener.open_frames(first, sealed))


def _overlapping(extents: list[Extent], wanted: ByteRange) -> list[tuple[Extent, ByteRange]]:
    """The pieces that hold some of the range, each with the range inside it."""
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
    """Explains blobs that were not found."""

    def __init__(self, meta: MetaStore, count: Callable[[], None] = _NOT_COUNTED) -> None:
        """`count` is called for each read of a blob that is missing."""
        self._meta = meta
        self._count = count

    async def explain(self, blob: BlobId) -> LakebedError:
        """The error to raise for a blob that the object store does not have: BlobMissing, or NoSuchKey."""
        if await self._meta.row(rows.BLOB_IS_REFERRED_TO, blob) is None:
            return NoSuchKey("the object was replaced or deleted while it was being read")
        self._count()
        log.error("stored bytes are missing from the object store", extra={"key": blob_key(blob)})
        return BlobMissing(
            f"stored bytes are missing; see that the object store is mounted and is the right one. key={blob_key(blob)}"
        )
