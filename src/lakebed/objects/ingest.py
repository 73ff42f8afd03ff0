"""Takes an object's bytes in: hashed as they come, small ones kept in memory, large ones written to the byte store.

The bytes are on stable storage when `ingest` returns, and nothing refers to them yet: publishing is a transaction of
its own. If anything fails the blob is removed; if the process dies, the sweeper finds it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lakebed.core.checksums import DEFAULT_ALGORITHM, Checksum, ChecksumAlgorithm, new_hasher
from lakebed.core.clock import Clock
from lakebed.core.errors import Incomplete, IntegrityMismatch, TooLarge
from lakebed.core.ids import BlobId, new_blob_id
from lakebed.storage.seam import FileBacked, FileWriter, Key, ObjectStorage
from lakebed.storage.writer import BufferedMultipartWriter

from .model import Piece
from .sealing import KeyRing, Sealer, seal_whole

Chunk = bytes | bytearray | memoryview

OpenWriter = Callable[[Key], BufferedMultipartWriter]


class ByteStream(Protocol):
    """Bytes on their way in."""

    @property
    def length(self) -> int | None:
        """How many there will be, if that is known."""
        ...

    async def next_chunk(self) -> bytes | memoryview | None:
        """The next bytes, or None at the end; the caller owns them. Raises Incomplete when the sender stops early."""
        ...


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the sender said its bytes would be."""

    md5: bytes | None = None
    sha256: str | None = None
    """Hexadecimal, of a signed payload."""
    algorithm: ChecksumAlgorithm = DEFAULT_ALGORITHM
    """The checksum to calculate and keep, whether or not its value was given."""
    checksum: Checksum | None = None
    """The value, when it was sent ahead of the bytes."""
    trailing_checksum: Callable[[], Checksum] | None = None
    """Asks for the value that came behind the bytes; raises when it did not come."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """Bytes that were taken in, hashed and stored, to which nothing refers yet."""

    size: int
    md5: bytes
    checksum: Checksum
    piece: Piece
    """Where they are: inline, or in a blob."""

    @property
    def etag(self) -> str:
        """The ETag of an object put whole."""
        return self.md5.hex()


class Digests:
    """The running hashes of one body."""

    __slots__ = ("_checksum", "_md5", "_sha256", "size")

    def __init__(self, expected: Expectations) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._sha256 = hashlib.sha256() if expected.sha256 is not None else None
        self._checksum = new_hasher(expected.algorithm)
        self.size = 0

    def update(self, data: Chunk) -> None:
        """Add bytes. May run in a thread."""
        self.size += len(data)
        self._md5.update(data)
        if self._sha256 is not None:
            self._sha256.update(data)
        self._checksum.update(data)

    def verify(self, expected: Expectations) -> tuple[bytes, Checksum]:
        """The MD5 and the checksum. Raises IntegrityMismatch when the sender said otherwise."""
        md5 = self._md5.digest()
        if self._sha256 is not None and not hmac.compare_digest(self._sha256.hexdigest(), expected.sha256 or ""):
            raise IntegrityMismatch("the payload is not the one that was signed", digest="sha256-payload")
        if expected.md5 is not None and expected.md5 != md5:
            raise IntegrityMismatch("the bytes do not match their Content-MD5", digest="md5")
        checksum = Checksum(expected.algorithm, self._checksum.digest())
        claim = expected.checksum
        if claim is None and expected.trailing_checksum is not None:
            claim = expected.trailing_checksum()
        if claim is not None:
            claim.check(checksum)
        return md5, checksum


class Ingester:
    """Takes bodies in, for one byte store."""

    def __init__(
        self,
        storage: ObjectStorage,
        keys: KeyRing,
        clock: Clock,
        *,
        inline_max_bytes: int,
        open_writer: OpenWriter | None = None,
    ) -> None:
        """`open_writer` makes the writer of a large body, where the store is not a local folder."""
        self._open_writer = open_writer or (lambda key: BufferedMultipartWriter(storage, key))
        self._storage = storage
        self._keys = keys
        self._clock = clock
        self._inline_max = inline_max_bytes
        self._files: FileBacked | None = storage if isinstance(storage, FileBacked) else None

    async def ingest(
        self, stream: ByteStream, expected: Expectations, *, encrypt: bool, limit: int, inline: bool = True
    ) -> Ingested:
        """Store all of `stream`, in memory if it is small and may be `inline`.

        Raises TooLarge, Incomplete, IntegrityMismatch, StorageFull; then nothing is left behind.
        """
        length = stream.length
        if length is not None and length > limit:
            raise TooLarge(f"the body is over the limit of one upload. size={length} limit={limit}")
        head: list[bytes | memoryview] = []
        held = 0
        digests = Digests(expected)
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
            return self._keep_inline(bytes(body), digests, expected, length, encrypt=encrypt)
        return await self._write_blob(head, stream, digests, expected, encrypt=encrypt, limit=limit)

    def _keep_inline(
        self, body: bytes, digests: Digests, expected: Expectations, length: int | None, *, encrypt: bool
    ) -> Ingested:
        _check_length(len(body), length)
        digests.update(body)
        md5, checksum = digests.verify(expected)
        seal = None
        size = len(body)
        if encrypt:
            key, seal = self._keys.new_data_key()
            body = seal_whole(key, body)
        return Ingested(size, md5, checksum, Piece(size, body=body, seal=seal))

    async def _write_blob(
        self,
        head: list[bytes | memoryview],
        stream: ByteStream,
        digests: Digests,
        expected: Expectations,
        *,
        encrypt: bool,
        limit: int,
    ) -> Ingested:
        blob = new_blob_id(self._clock)
        seal, sealer = None, None
        if encrypt:
            key, seal = self._keys.new_data_key()
            sealer = Sealer(key)
        sink: _Sink
        if self._files is not None:
            sink = _FileSink(await asyncio.to_thread(self._files.create_file, blob_key(blob), stream.length))
        else:
            sink = _RemoteSink(self._open_writer(blob_key(blob)))
        try:
            writing = _Pump(sink, digests, sealer)
            for chunk in head:
                await writing.put(chunk)
            while (more := await stream.next_chunk()) is not None:
                await writing.put(more)
                if digests.size > limit:
                    raise TooLarge(f"the body is over the limit of one upload. limit={limit}")
            await writing.drain()
            _check_length(digests.size, stream.length)
            md5, checksum = digests.verify(expected)
            if sealer is not None:
                await sink.write(sealer.finish())
            await sink.commit()
        except BaseException:
            # Shielded: a client that goes away cancels us, and the bytes must not stay behind.
            await asyncio.shield(sink.discard())
            raise
        return Ingested(digests.size, md5, checksum, Piece(digests.size, blob=blob, seal=seal))

    async def discard(self, ingested: Ingested) -> None:
        """Remove bytes that will not be published after all."""
        if ingested.piece.blob is not None:
            await self._storage.delete(blob_key(ingested.piece.blob))


def blob_key(blob: BlobId) -> Key:
    """Where a blob is: spread over 256 folders by its random end, because its start is the time."""
    return Key(f"blobs/{blob[-2:]}/{blob}")


def _check_length(size: int, length: int | None) -> None:
    if length is not None and size != length:
        raise Incomplete(f"the body ended early. received={size} expected={length}")


class _Sink(Protocol):
    async def write(self, data: Chunk) -> None: ...

    async def commit(self) -> None: ...

    async def discard(self) -> None: ...

    def write_now(self, data: Chunk) -> None: ...

    writes_in_thread: bool


class _FileSink:
    """A local file: written in the thread that hashes."""

    writes_in_thread = True

    def __init__(self, writer: FileWriter) -> None:
        self._writer = writer

    def write_now(self, data: Chunk) -> None:
        self._writer.write(data)

    async def write(self, data: Chunk) -> None:
        await asyncio.to_thread(self._writer.write, data)

    async def commit(self) -> None:
        await asyncio.to_thread(self._writer.commit)

    async def discard(self) -> None:
        await asyncio.to_thread(self._writer.discard)


class _RemoteSink:
    """A byte store elsewhere: written from the loop, through the buffered writer."""

    writes_in_thread = False

    def __init__(self, writer: BufferedMultipartWriter) -> None:
        self._writer = writer

    def write_now(self, data: Chunk) -> None:
        raise RuntimeError("a remote sink is written from the event loop")

    async def write(self, data: Chunk) -> None:
        await self._writer.write(data)

    async def commit(self) -> None:
        await self._writer.finish()

    async def discard(self) -> None:
        await self._writer.abort()


class _Pump:
    """Hashes, seals and writes one chunk in a thread while the next one arrives."""

    __slots__ = ("_digests", "_in_flight", "_loop", "_sealer", "_sink")

    def __init__(self, sink: _Sink, digests: Digests, sealer: Sealer | None) -> None:
        self._sink = sink
        self._digests = digests
        self._sealer = sealer
        self._loop = asyncio.get_running_loop()
        self._in_flight: asyncio.Future[Chunk] | None = None

    async def put(self, chunk: Chunk) -> None:
        await self.drain()
        self._in_flight = self._loop.run_in_executor(None, self._step, chunk)

    async def drain(self) -> None:
        """Wait for the chunk in flight. A cancelled wait still lets the thread finish before the file is closed."""
        running, self._in_flight = self._in_flight, None
        if running is None:
            return
        try:
            data = await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise
        if not self._sink.writes_in_thread:
            await self._sink.write(data)

    def _step(self, chunk: Chunk) -> Chunk:
        self._digests.update(chunk)
        data = self._sealer.update(chunk) if self._sealer is not None else chunk
        if self._sink.writes_in_thread and data:
            self._sink.write_now(data)
        return data
