"""Receives an object's bytes and hashes them; small bodies stay in memory, large ones go to the object store.

When `ingest` returns, the bytes are on stable storage and nothing references them; publishing is a separate
transaction. If ingest fails, the blob is removed; if the process dies, the orphan sweep finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.core.checksums import Checksum
from lakebed.core.clock import Clock
from lakebed.core.errors import TooLarge
from lakebed.core.ids import BlobId, new_blob_id
from lakebed.storage.seam import FileBacked, Key, ObjectStorage
from lakebed.storage.writer import BufferedMultipartWriter

from ..model import Extent
from .composition import BaseContent, BaseRange, ComposedObject, compose, own_size
from .digests import Chunk, Digests, ExpectedDigests
from .encryption import KeyRing, Sealer, seal_whole
from .md5 import MakeMd5, md5_maker
from .store_failures import writing_to_store
from .threads import UploadThreads
from .writing import BlobSink, BlobWriting, FileSink, RemoteSink, check_length

BLOBS_PREFIX: Final = "blobs/"
"""The prefix of blobs in the object store; it contains nothing else."""

OpenWriter = Callable[[Key], BufferedMultipartWriter]


class BodyStream(Protocol):
    """An incoming body."""

    @property
    def length(self) -> int | None:
        """Its size, if known."""
        ...

    async def next_chunk(self) -> bytes | memoryview | None:
        """The next bytes, or None at the end; the caller owns them. Raises Incomplete if the sender stops early."""
        ...


@dataclass(frozen=True, slots=True)
class Ingested:
    """Bytes that were received, hashed and stored; nothing references them yet."""

    size: int
    md5: bytes
    checksum: Checksum
    extent: Extent
    """Where the bytes are: inline, or in a blob."""
    declared: Checksum | None = None
    """The checksum by the sender's algorithm, if `checksum` uses another."""

    @property
    def etag(self) -> str:
        """The ETag of an object that is not multipart."""
        return self.md5.hex()


class CapacityCheck(Protocol):
    """Checks whether the metadata store may grow."""

    async def check(self, size: int) -> None:
        """Raise StorageFull unless `size` more bytes fit."""
        ...


class Ingester:
    """Receives bodies for one object store."""

    def __init__(
        self,
        storage: ObjectStorage,
        keys: KeyRing,
        clock: Clock,
        *,
        inline_max_bytes: int,
        open_writer: OpenWriter | None = None,
        capacity: CapacityCheck | None = None,
    ) -> None:
        """`open_writer` creates the writer of a large body, unless the store is a local folder.

        `capacity` is checked before a small body is stored in the metadata store.
        """
        self._capacity = capacity
        self._open_writer = open_writer or (lambda key: BufferedMultipartWriter(storage, key))
        self._storage = storage
        self._keys = keys
        self._clock = clock
        self._inline_max = inline_max_bytes
        self._files: FileBacked | None = storage if isinstance(storage, FileBacked) else None
        self._threads = UploadThreads()
        self._make_md5: MakeMd5 | None = None

    async def ingest(
        self, stream: BodyStream, expected: ExpectedDigests, *, encrypt: bool, limit: int, inline: bool = True
    ) -> Ingested:
        """Store all of `stream`: in memory if it is small and may be `inline`.

        Raises TooLarge, Incomplete, IntegrityMismatch, StorageFull, Unavailable; then nothing remains.
        """
        length = stream.length
        if length is not None and length > limit:
            raise TooLarge(f"body exceeds the limit of one upload. size={length} limit={limit}")
        # Check capacity before the body is read.
        if inline and (length or 0) <= self._inline_max:
            if self._capacity is not None:
                await self._capacity.check(length or 0)
        elif self._files is not None:
            self._files.check_capacity(length or 0)
        head: list[Chunk] = []
        held = 0
        ended = False
        while inline and held <= self._inline_max:
            chunk = await stream.next_chunk()
            if chunk is None:
                ended = True
                break
            head.append(chunk)
            held += len(chunk)
        if ended:
            body = head[0] if len(head) == 1 else b"".join(head)
            return self._keep_inline(bytes(body), expected, length, encrypt=encrypt)
        return await self._write_blob(head, stream, expected, encrypt=encrypt, limit=limit)

    async def compose(self, base: BaseContent, parts: Sequence[bytes | BaseRange]) -> ComposedObject:
        """Compose an object of new bytes and base ranges. Writes nothing. Raises StorageFull."""
        if self._capacity is not None:
            await self._capacity.check(own_size(parts))
        return compose(self._keys, base, parts)

    def _keep_inline(self, body: bytes, expected: ExpectedDigests, length: int | None, *, encrypt: bool) -> Ingested:
        check_length(len(body), length)
        digests = Digests(expected)
        digests.update(body)
        md5, checksum = digests.verify(expected)
        seal = None
        size = len(body)
        if encrypt:
            key, seal = self._keys.new_data_key()
            body = seal_whole(key, body)
        return Ingested(size, md5, checksum, Extent(size, body=body, seal=seal), digests.declared)

    async def _write_blob(
        self,
        head: list[Chunk],
        stream: BodyStream,
        expected: ExpectedDigests,
        *,
        encrypt: bool,
        limit: int,
    ) -> Ingested:
        if self._make_md5 is None:
            self._make_md5 = md5_maker()
        digests = Digests(expected, self._make_md5())
        blob = new_blob_id(self._clock)
        seal, sealer = None, None
        if encrypt:
            key, seal = self._keys.new_data_key()
            sealer = Sealer(key)
        writing = BlobWriting(self._open_sink(blob_key(blob), digests, expected, sealer, stream.length))
        received = 0
        try:
            for chunk in head:
                received += len(chunk)
                with writing_to_store():
                    await writing.put(chunk)
            # Only the writes: an error of the sender's stream must not be mapped to a store failure.
            while received <= limit and (more := await stream.next_chunk()) is not None:
                received += len(more)
                with writing_to_store():
                    await writing.put(more)
            if received > limit:
                raise TooLarge(f"body exceeds the limit of one upload. limit={limit}")
            with writing_to_store():
                md5, checksum = await writing.finish()
        except BaseException:
            # Shielded: the cancellation of a disconnected client must not leave the bytes behind.
            await asyncio.shield(self._abandon(writing, blob))
            raise
        return Ingested(received, md5, checksum, Extent(received, blob=blob, seal=seal), digests.declared)

    async def _abandon(self, writing: BlobWriting, blob: BlobId) -> None:
        with writing_to_store():
            if await writing.abandon():
                await self._storage.delete(blob_key(blob))

    def _open_sink(
        self, key: Key, digests: Digests, expected: ExpectedDigests, sealer: Sealer | None, length: int | None
    ) -> BlobSink:
        if self._files is not None:
            return FileSink(self._threads, self._files, key, digests, expected, sealer, length)
        return RemoteSink(self._threads, self._open_writer(key), digests, expected, sealer, length)

    def close(self) -> None:
        """Stop the threads."""
        self._threads.close()
        self._make_md5 = None

    async def discard(self, ingested: Ingested) -> None:
        """Remove bytes that will not be published."""
        if ingested.extent.blob is not None:
            with writing_to_store():
                await self._storage.delete(blob_key(ingested.extent.blob))


def blob_key(blob: BlobId) -> Key:
    """The key of a blob. Its random suffix spreads blobs over 256 folders; an id starts with the time."""
    return Key(f"{BLOBS_PREFIX}{blob[-2:]}/{blob}")
