"""Writes a large body into a blob: hashed, sealed and stored a batch at a time, while the next batch arrives.

A body of up to a batch is one visit to a thread, file made, written, synced and named; a longer one is a visit a batch.
Nothing refers to the blob yet, so all that a failure has to do is to remove it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

from lakebed.core.checksums import Checksum
from lakebed.core.errors import Incomplete
from lakebed.storage.seam import FileBacked, FileWriter, Key
from lakebed.storage.writer import BufferedMultipartWriter

from .digests import Chunk, Digests, ExpectedDigests
from .encryption import Sealer
from .threads import UploadThreads

BATCH_BYTES: Final = 1024 * 1024
"""How much is gathered before a thread is asked to work on it."""

HASH_BYTES: Final = 256 * 1024
"""How much is gathered before its hash is begun, which is ahead of the rest."""


class BlobSink(Protocol):
    """Where batches go. Every chunk is begun before it is written; of the other methods, one call at a time."""

    def begin(self, chunks: list[Chunk]) -> None:
        """Start hashing what will be written next. Does not block."""
        ...

    async def write(self, chunks: list[Chunk]) -> None:
        """Hash, seal and store these."""
        ...

    async def finish(self, chunks: list[Chunk]) -> tuple[bytes, Checksum]:
        """The last ones: then verify what was promised of the whole, and put it on stable storage."""
        ...

    async def discard(self) -> None:
        """Remove what was written."""
        ...


class _Intake:
    """The part of a sink that does not depend on where bytes go: what they add up to."""

    def __init__(self, digests: Digests, expected: ExpectedDigests, sealer: Sealer | None, length: int | None) -> None:
        self._digests = digests
        self._expected = expected
        self._sealer = sealer
        self._length = length
        self.begun = 0
        """What to wait for when all that came so far is taken."""

    def begin(self, chunks: list[Chunk]) -> None:
        """Start what another thread does before these are taken, or while they are."""
        self.begun = self._digests.begin(chunks)

    def take(self, chunk: Chunk) -> Chunk:
        """Count and hash a chunk; as it is to be stored."""
        self._digests.add(chunk)
        return chunk if self._sealer is None else self._sealer.update(chunk)

    def wait(self, begun: int) -> None:
        """Return once nobody looks any more at what was begun so far."""
        self._digests.wait(begun)

    def verify(self) -> tuple[bytes, Checksum]:
        """Check the whole. Raises Incomplete, IntegrityMismatch."""
        check_length(self._digests.size, self._length)
        return self._digests.verify(self._expected)

    def rest(self) -> bytes:
        """What is left to store behind the last chunk."""
        return b"" if self._sealer is None else self._sealer.finish()


class FileSink:
    """A file of a local byte store: everything happens in the thread that hashes."""

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
        self._threads = threads
        self._files = files
        self._key = key
        self._length = length
        self._intake = _Intake(digests, expected, sealer, length)
        self._file: FileWriter | None = None

    def begin(self, chunks: list[Chunk]) -> None:
        """Start hashing what will be written next."""
        self._intake.begin(chunks)

    async def write(self, chunks: list[Chunk]) -> None:
        """Hash, seal and store these."""
        await self._threads.run(partial(self._write, chunks, self._intake.begun))

    async def finish(self, chunks: list[Chunk]) -> tuple[bytes, Checksum]:
        """Store the last ones, verify the whole, put it on stable storage."""
        return await self._threads.run(partial(self._finish, chunks, self._intake.begun))

    async def discard(self) -> None:
        """Remove what was written."""
        if self._file is not None:
            await self._threads.run(self._file.discard)

    def _write(self, chunks: list[Chunk], begun: int) -> FileWriter:
        try:
            if self._file is None:
                self._file = self._files.create_file(self._key, self._length)
            for chunk in chunks:
                self._file.write(self._intake.take(chunk))
        finally:
            self._intake.wait(begun)
        return self._file

    def _finish(self, chunks: list[Chunk], begun: int) -> tuple[bytes, Checksum]:
        file = self._write(chunks, begun)
        verified = self._intake.verify()
        file.write(self._intake.rest())
        file.commit()
        return verified


class RemoteSink:
    """A byte store elsewhere: hashed in a thread, sent from the loop through the buffered writer."""

    def __init__(
        self,
        threads: UploadThreads,
        writer: BufferedMultipartWriter,
        digests: Digests,
        expected: ExpectedDigests,
        sealer: Sealer | None,
        length: int | None,
    ) -> None:
        self._threads = threads
        self._writer = writer
        self._intake = _Intake(digests, expected, sealer, length)

    def begin(self, chunks: list[Chunk]) -> None:
        """Start hashing what will be written next."""
        self._intake.begin(chunks)

    async def write(self, chunks: list[Chunk]) -> None:
        """Hash, seal and store these."""
        for data in await self._threads.run(partial(self._take, chunks, self._intake.begun)):
            await self._writer.write(data)

    async def finish(self, chunks: list[Chunk]) -> tuple[bytes, Checksum]:
        """Store the last ones, verify the whole, put it on stable storage."""
        await self.write(chunks)
        verified = self._intake.verify()
        await self._writer.write(self._intake.rest())
        await self._writer.finish()
        return verified

    async def discard(self) -> None:
        """Remove what was written."""
        await self._writer.abort()

    def _take(self, chunks: list[Chunk], begun: int) -> list[Chunk]:
        try:
            return [self._intake.take(chunk) for chunk in chunks]
        finally:
            self._intake.wait(begun)


class BlobWriting:
    """One body on its way into a sink: one batch is being stored while the next gathers."""

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
        """Take a chunk; waits when a whole batch has gathered and the one before it is still being stored."""
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
        """Store the rest and verify the whole; its MD5 and checksum."""
        await self._stored()
        # Shielded: a thread that is told to commit cannot be called back, and `abandon` waits for what it does.
        self._finishing = asyncio.get_running_loop().create_task(self._sink.finish(self._take_gathered()))
        return await asyncio.shield(self._finishing)

    async def abandon(self) -> bool:
        """Remove what was written, once the thread has let go of it: its descriptor may soon be another file's.

        True if the whole was stored all the same, because we were stopped too late: then the blob is to be deleted.
        """
        is_stored = False
        for task in (self._storing, self._finishing):
            if task is not None:
                await asyncio.wait([task])
                # A failure is looked at and not of interest: what stopped us comes first.
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
    """Raise Incomplete unless all came that was promised."""
    if length is not None and size != length:
        raise Incomplete(f"the body ended early. received={size} expected={length}")
