"""Writes a large body to a blob: hashed, encrypted and stored in batches, each while the next one arrives.

A body of up to one batch takes one thread call that creates, writes, syncs and renames the file; a larger body takes
one call per batch. Nothing references the blob yet, so a failure only has to remove it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from typing import Final

from lakebed.core.checksums import Checksum
from lakebed.core.errors import Incomplete
from lakebed.storage.seam import FileBacked, FileWriter, Key
from lakebed.storage.writer import BufferedMultipartWriter

from .digests import Chunk, Digests, ExpectedDigests
from .encryption import Sealer
from .threads import UploadThreads

BATCH_BYTES: Final = 1024 * 1024
"""Size of a batch, for one thread call."""

HASH_BYTES: Final = 256 * 1024
"""Size at which hashing starts, ahead of the batch."""


class BlobSink(ABC):
    """Hashes, encrypts and stores batches, and verifies the body.

    Every chunk is begun before it is written; calls of the other methods do not overlap.
    """

    def __init__(
        self,
        threads: UploadThreads,
        digests: Digests,
        expected: ExpectedDigests,
        sealer: Sealer | None,
        length: int | None,
    ) -> None:
        self._threads = threads
        self._digests = digests
        self._expected = expected
        self._sealer = sealer
        self._length = length
        self._begun = 0
        """The number for `Digests.wait` that covers all chunks so far."""

    def begin(self, chunks: list[Chunk]) -> None:
        """Start hashing the chunks of the next write. Does not block."""
        self._begun = self._digests.begin(chunks)

    @abstractmethod
    async def write(self, chunks: list[Chunk]) -> None:
        """Hash, encrypt and store the chunks."""

    @abstractmethod
    async def finish(self, chunks: list[Chunk]) -> tuple[bytes, Checksum]:
        """Store the last chunks, verify the declared digests, and sync to stable storage."""

    @abstractmethod
    async def discard(self) -> None:
        """Remove what was written."""

    def _process(self, chunk: Chunk) -> Chunk:
        """Count and hash a chunk; the bytes to store."""
        self._digests.add(chunk)
        return chunk if self._sealer is None else self._sealer.update(chunk)

    def _verify(self) -> tuple[bytes, Checksum]:
        """Check size and digests. Raises Incomplete, IntegrityMismatch."""
        check_length(self._digests.size, self._length)
        return self._digests.verify(self._expected)

    def _rest(self) -> bytes:
        """The bytes to store after the last chunk."""
        return b"" if self._sealer is None else self._sealer.finish()


class FileSink(BlobSink):
    """Writes to a file of a local object store, in the thread that hashes."""

    def __init__(
        self,
        threads: UploadThreads,
        files: FileBacked,
        key: Key,
        digests: Digests,
        expected: ExpectedDigests,
        sealer: Sealer | None,
        length: int | None,
    ) -> None:
        super().__init__(threads, digests, expected, sealer, length)
        self._files = files
        self._key = key
        self._file: FileWriter | None = None

    async def write(self, chunks: list[Chunk]) -> None:
        """Hash, encrypt and store the chunks in one thread call."""
        await self._threads.run(partial(self._write, chunks, self._begun))

    async def finish(self, chunks: list[Chunk]) -> tuple[bytes, Checksum]:
        """Store the last chunks, verify the body and commit the file in one thread call."""
        return await self._threads.run(partial(self._finish, chunks, self._begun))

    async def discard(self) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            await self._threads.run(self._file.discard)

    def _write(self, chunks: list[Chunk], begun: int) -> FileWriter:
        try:
            if self._file is None:
                self._file = self._files.create_file(self._key, self._length)
            for chunk in chunks:
                self._file.write(self._process(chunk))
        finally:
            self._digests.wait(begun)
        return self._file

    def _finish(self, chunks: list[Chunk], begun: int) -> tuple[bytes, Checksum]:
        file = self._write(chunks, begun)
        verified = self._verify()
        file.write(self._rest())
        file.commit()
        return verified


class RemoteSink(BlobSink):
    """Writes to a remote object store: hashed in a thread, sent from the event loop through the buffered writer."""

    def __init__(
        self,
        threads: UploadThreads,
        writer: BufferedMultipartWriter,
        digests: Digests,
        expected: ExpectedDigests,
        sealer: Sealer | None,
        length: int | None,
    ) -> None:
        super().__init__(threads, digests, expected, sealer, length)
        self._writer = writer

    async def write(self, chunks: list[Chunk]) -> None:
        """Hash and encrypt the chunks in a thread, then send them."""
        for data in await self._threads.run(partial(self._process_all, chunks, self._begun)):
            await self._writer.write(data)

    async def finish(self, chunks: list[Chunk]) -> tuple[bytes, Checksum]:
        """Send the last chunks, verify the body and complete the upload."""
        await self.write(chunks)
        verified = self._verify()
        await self._writer.write(self._rest())
        await self._writer.finish()
        return verified

    async def discard(self) -> None:
        """Abort the upload."""
        await self._writer.abort()

    def _process_all(self, chunks: list[Chunk], begun: int) -> list[Chunk]:
        try:
            return [self._process(chunk) for chunk in chunks]
        finally:
            self._digests.wait(begun)


class BlobWriting:
    """Feeds one body to a sink: one batch is stored while the next is gathered."""

    __slots__ = ("_finishing", "_gathered", "_gathered_bytes", "_sink", "_storing", "_to_hash", "_to_hash_bytes")

    def __init__(self, sink: BlobSink) -> None:
        self._sink = sink
        self._gathered: list[Chunk] = []
        self._gathered_bytes = 0
        self._to_hash: list[Chunk] = []
        self._to_hash_bytes = 0
        self._storing: asyncio.Task[None] | None = None
        self._finishing: asyncio.Task[tuple[bytes, Checksum]] | None = None

    async def put(self, chunk: Chunk) -> None:
        """Add a chunk; waits if a batch is complete while the previous one is still being stored."""
        self._gathered.append(chunk)
        self._gathered_bytes += len(chunk)
        self._to_hash.append(chunk)
        self._to_hash_bytes += len(chunk)
        if self._to_hash_bytes >= HASH_BYTES:
            self._begin_hash()
        if self._gathered_bytes >= BATCH_BYTES:
            await self._stored()
            self._storing = asyncio.get_running_loop().create_task(self._sink.write(self._take_gathered()))

    async def finish(self) -> tuple[bytes, Checksum]:
        """Store the rest and verify the body; its MD5 and checksum."""
        await self._stored()
        # Shielded: a commit in a thread cannot be cancelled; `abandon` waits for it.
        self._finishing = asyncio.get_running_loop().create_task(self._sink.finish(self._take_gathered()))
        return await asyncio.shield(self._finishing)

    async def abandon(self) -> bool:
        """Remove what was written, once the thread has finished: its descriptor may be reused for another file.

        True if the cancellation came too late and the blob was stored: the caller then deletes it.
        """
        is_stored = False
        for task in (self._storing, self._finishing):
            if task is not None:
                await asyncio.wait([task])
                # Retrieve a failure without raising it: the original error is reported.
                is_stored = not task.cancelled() and task.exception() is None and task is self._finishing
        await self._sink.discard()
        return is_stored

    async def _stored(self) -> None:
        if self._storing is not None:
            await asyncio.shield(self._storing)
            self._storing = None

    def _begin_hash(self) -> None:
        if self._to_hash:
            self._sink.begin(self._to_hash)
            self._to_hash = []
            self._to_hash_bytes = 0

    def _take_gathered(self) -> list[Chunk]:
        self._begin_hash()
        chunks, self._gathered = self._gathered, []
        self._gathered_bytes = 0
        return chunks


def check_length(size: int, length: int | None) -> None:
    """Raise Incomplete unless the size matches the declared length."""
    if length is not None and size != length:
        raise Incomplete(f"body ended early. received={size} expected={length}")
