"""Receiving bodies: digests, limits, and no leftovers of failed uploads."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.buffers import BODY_BUFFERS, BUFFER_BYTES
from lakebed.core.checksums import Checksum, ChecksumAlgorithm, new_hasher
from lakebed.core.clock import ManualClock
from lakebed.core.errors import Incomplete, IntegrityMismatch, StorageFull, TooLarge
from lakebed.objects.blobs import ingest, writing
from lakebed.objects.blobs.contents import Contents, ContentSource
from lakebed.objects.blobs.digests import ExpectedDigests
from lakebed.objects.blobs.encryption import FRAME_BYTES, sealed_size
from lakebed.objects.blobs.ingest import Ingested, Ingester, blob_key
from lakebed.objects.blobs.md5 import LIBRARY, PlainMd5
from lakebed.objects.model import Content, pack
from lakebed.storage.folder.storage import DIRECT_BYTES, FolderStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import ObjectStorage
from tests.fixtures.faulty_storage import FailBefore, FaultScript, FaultyStorage
from tests.objects.stores import INLINE_MAX_BYTES, Body, new_key_ring, read_all, replaced

KEYS = new_key_ring()
CLOCK = ManualClock()
LIMIT = 10_000_000
BIG = b"0123456789" * 10


@pytest.fixture(params=["memory", "folder"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStorage]:
    """An object store."""
    made: ObjectStorage = MemoryStorage(CLOCK) if request.param == "memory" else FolderStorage(tmp_path, CLOCK)
    yield made
    await made.close()


def _ingester(storage: ObjectStorage) -> Ingester:
    return Ingester(storage, KEYS, CLOCK, inline_max_bytes=INLINE_MAX_BYTES)


async def _ingest(
    storage: ObjectStorage,
    body: Body,
    expected: ExpectedDigests | None = None,
    *,
    encrypt: bool = False,
    limit: int = LIMIT,
    inline: bool = True,
) -> Ingested:
    return await _ingester(storage).ingest(
        body, expected or ExpectedDigests(), encrypt=encrypt, limit=limit, inline=inline
    )


async def _read_back(storage: ObjectStorage, ingested: Ingested) -> bytes:
    piece = ingested.extent
    content = Content(None, None, pack([piece])) if piece.blob else Content(piece.body, piece.seal, None)
    return await read_all(ContentSource(Contents(storage, KEYS, replaced), ingested.size, content))


async def _assert_nothing_left(storage: ObjectStorage) -> None:
    """Assert that the store has no blob, no upload and no temporary file."""
    assert [head.key async for head in storage.list_prefix()] == []
    assert [upload.key async for upload in storage.list_uploads()] == []
    if isinstance(storage, FolderStorage):
        assert len(await storage.sweep_temporary(-(10**15))) == 0


@settings(max_examples=25)
@given(
    pieces=st.lists(st.binary(max_size=40), max_size=5),
    declared=st.booleans(),
    encrypt=st.booleans(),
    inline=st.booleans(),
)
async def test_stored_body_matches_any_chunking(
    pieces: list[bytes], declared: bool, encrypt: bool, inline: bool
) -> None:
    storage = MemoryStorage(CLOCK)
    plain = b"".join(pieces)
    body = Body(*(memoryview(piece) for piece in pieces), length=-1 if declared else None)
    ingested = await _ingest(storage, body, encrypt=encrypt, inline=inline)
    assert (ingested.size, ingested.etag) == (len(plain), hashlib.md5(plain).hexdigest())
    assert await _read_back(storage, ingested) == plain
    assert (ingested.extent.seal is not None) == encrypt
    assert (ingested.extent.blob is None) == (inline and len(plain) <= INLINE_MAX_BYTES)


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("size", [INLINE_MAX_BYTES + 1, FRAME_BYTES, 3 * FRAME_BYTES + 1])
async def test_large_body_is_stored_as_one_blob(storage: ObjectStorage, size: int, encrypt: bool) -> None:
    plain = os.urandom(size)
    ingested = await _ingest(storage, Body(plain[:7], plain[7:]), encrypt=encrypt)
    assert await _read_back(storage, ingested) == plain
    assert ingested.extent.blob is not None
    stored = [head async for head in storage.list_prefix("blobs/")]
    assert [head.key for head in stored] == [blob_key(ingested.extent.blob)]
    assert stored[0].size == (sealed_size(size) if encrypt else size)


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
async def test_body_of_many_batches_is_stored(
    storage: ObjectStorage, encrypt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "BATCH_BYTES", 1000)
    plain = os.urandom(10_000)
    body = Body(*(plain[at : at + 300] for at in range(0, len(plain), 300)))
    ingested = await _ingest(storage, body, encrypt=encrypt)
    assert await _read_back(storage, ingested) == plain
    assert ingested.md5 == hashlib.md5(plain).digest()


@pytest.mark.slow
@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("hashed_by", ["lanes", "hashlib"])
async def test_concurrent_bodies_are_hashed_and_stored_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashed_by: str, encrypt: bool
) -> None:
    if hashed_by == "hashlib":
        monkeypatch.setattr(ingest, "md5_maker", lambda: PlainMd5)
    elif not LIBRARY.exists():
        pytest.skip("the package was built without a C compiler")
    storage = FolderStorage(tmp_path, CLOCK)
    ingester = _ingester(storage)
    # Large enough for direct I/O, with lengths that end inside a page.
    plain = [os.urandom(DIRECT_BYTES + 1000 * number) for number in range(6)]
    ingested = await asyncio.gather(
        *(ingester.ingest(_arrived(body), ExpectedDigests(), encrypt=encrypt, limit=LIMIT) for body in plain)
    )
    assert [one.etag for one in ingested] == [hashlib.md5(body).hexdigest() for body in plain]
    assert [await _read_back(storage, one) for one in ingested] == plain
    ingester.close()
    await storage.close()


def _arrived(body: bytes) -> Body:
    """A body in page-aligned buffers, as the HTTP layer receives it."""
    pieces = []
    for start in range(0, len(body), BUFFER_BYTES):
        piece = BODY_BUFFERS.take()[: len(body) - start]
        piece[:] = body[start : start + BUFFER_BYTES]
        pieces.append(piece)
    return Body(*pieces)


async def test_discarded_body_leaves_nothing(storage: ObjectStorage) -> None:
    ingested = await _ingest(storage, Body(BIG))
    await _ingester(storage).discard(ingested)
    await _assert_nothing_left(storage)


async def test_discarding_an_inline_body_does_nothing(storage: ObjectStorage) -> None:
    await _ingester(storage).discard(await _ingest(storage, Body(b"small")))
    await _assert_nothing_left(storage)


def _checksum(algorithm: ChecksumAlgorithm, body: bytes) -> Checksum:
    hasher = new_hasher(algorithm)
    hasher.update(body)
    return Checksum(algorithm, hasher.digest())


@pytest.mark.parametrize("body", [b"small", BIG], ids=["inline", "blob"])
@pytest.mark.parametrize("algorithm", list(ChecksumAlgorithm))
async def test_matching_digests_are_accepted(body: bytes, algorithm: ChecksumAlgorithm) -> None:
    expected = ExpectedDigests(
        md5=hashlib.md5(body).digest(),
        sha256=hashlib.sha256(body).hexdigest(),
        algorithm=algorithm,
        checksum=_checksum(algorithm, body),
    )
    ingested = await _ingest(MemoryStorage(CLOCK), Body(body), expected)
    assert ingested.checksum == _checksum(algorithm, body)


def _lost_trailer() -> Checksum:
    raise Incomplete("the trailer is missing")


WRONG = _checksum(ChecksumAlgorithm.CRC32, b"something else")


@pytest.mark.parametrize("body", [b"small", BIG], ids=["inline", "blob"])
@pytest.mark.parametrize(
    ("expected", "failure"),
    [
        (ExpectedDigests(md5=hashlib.md5(b"something else").digest()), IntegrityMismatch),
        (ExpectedDigests(sha256=hashlib.sha256(b"something else").hexdigest()), IntegrityMismatch),
        (ExpectedDigests(algorithm=ChecksumAlgorithm.CRC32, checksum=WRONG), IntegrityMismatch),
        (ExpectedDigests(algorithm=ChecksumAlgorithm.CRC32, trailing_checksum=lambda: WRONG), IntegrityMismatch),
        (ExpectedDigests(checksum=WRONG), IntegrityMismatch),
        (ExpectedDigests(trailing_checksum=_lost_trailer), Incomplete),
    ],
    ids=["md5", "sha256", "checksum", "trailer", "other algorithm", "no trailer"],
)
async def test_digest_mismatch_leaves_no_blob(
    storage: ObjectStorage, body: bytes, expected: ExpectedDigests, failure: type[Exception]
) -> None:
    with pytest.raises(failure):
        await _ingest(storage, Body(body), expected)
    await _assert_nothing_left(storage)


async def test_trailing_checksum_is_read_after_the_last_byte() -> None:
    body = Body(BIG)
    read_at_end: list[bool] = []

    def trailer() -> Checksum:
        read_at_end.append(not body._pieces)
        return _checksum(ChecksumAlgorithm.CRC32, BIG)

    expected = ExpectedDigests(algorithm=ChecksumAlgorithm.CRC32, trailing_checksum=trailer)
    await _ingest(MemoryStorage(CLOCK), body, expected)
    assert read_at_end == [True]


@pytest.mark.parametrize(("body", "length"), [(b"small", 6), (b"small", 4), (BIG, 101), (BIG, 99), (b"", 1)])
async def test_length_mismatch_leaves_no_blob(storage: ObjectStorage, body: bytes, length: int) -> None:
    with pytest.raises(Incomplete):
        await _ingest(storage, Body(body, length=length))
    await _assert_nothing_left(storage)


async def test_body_declared_over_the_limit_is_not_read(storage: ObjectStorage) -> None:
    body = Body(BIG)
    with pytest.raises(TooLarge):
        await _ingest(storage, body, limit=99)
    assert body._pieces == [BIG]
    await _assert_nothing_left(storage)


@pytest.mark.parametrize(
    "pieces", [(BIG,), (BIG, b""), (BIG[:50], BIG[50:]), (BIG[:10], BIG[10:20], BIG[20:])], ids=["1", "2", "3", "4"]
)
async def test_body_over_the_limit_without_declared_length_is_rejected(
    storage: ObjectStorage, pieces: tuple[bytes, ...]
) -> None:
    with pytest.raises(TooLarge):
        await _ingest(storage, Body(*pieces, length=None), limit=99)
    await _assert_nothing_left(storage)


async def test_body_of_exactly_the_limit_is_accepted(storage: ObjectStorage) -> None:
    assert (await _ingest(storage, Body(BIG[:50], BIG[50:], length=None), limit=100)).size == 100


class StoppingBody(Body):
    """A body that calls a function after its pieces, then blocks."""

    def __init__(self, *pieces: bytes, then: Callable[[], object]) -> None:
        super().__init__(*pieces, length=10**6)
        self._then = then
        self.waits = asyncio.Event()

    async def next_chunk(self) -> bytes | memoryview | None:
        if self._pieces:
            return self._pieces.pop(0)
        self.waits.set()
        self._then()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


def _stop() -> None:
    raise Incomplete("the connection ended inside the body")


@pytest.mark.parametrize("batch_bytes", [10, 10**6], ids=["stored", "gathered"])
async def test_incomplete_body_leaves_no_blob(
    storage: ObjectStorage, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "BATCH_BYTES", batch_bytes)
    with pytest.raises(Incomplete):
        await _ingest(storage, StoppingBody(BIG, BIG, BIG, then=_stop))
    await _assert_nothing_left(storage)


@pytest.mark.parametrize("batch_bytes", [10, 10**6], ids=["stored", "gathered"])
async def test_cancelled_upload_leaves_no_blob(
    storage: ObjectStorage, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "BATCH_BYTES", batch_bytes)
    body = StoppingBody(BIG, BIG, BIG, then=lambda: None)
    uploading = asyncio.create_task(_ingest(storage, body))
    await body.waits.wait()
    uploading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await uploading
    await _assert_nothing_left(storage)


async def test_upload_cancelled_during_its_commit_leaves_no_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client disconnects after its last byte: the thread cannot be stopped, so its file is removed."""
    storage = FolderStorage(tmp_path, CLOCK)
    reached, released = threading.Event(), threading.Event()
    sync = os.fdatasync

    def slow_sync(descriptor: int) -> None:
        reached.set()
        released.wait(60)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", slow_sync)
    uploading = asyncio.create_task(_ingest(storage, Body(BIG)))
    await asyncio.to_thread(reached.wait, 60)
    uploading.cancel()
    await asyncio.sleep(0)
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await uploading
    await _assert_nothing_left(storage)
    await storage.close()


async def test_file_is_not_written_after_discard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed descriptor may be reused for another file before a forgotten thread writes to it."""
    monkeypatch.setattr(writing, "BATCH_BYTES", 10)
    storage = FolderStorage(tmp_path, CLOCK)
    reached, released = threading.Event(), threading.Event()
    order: list[str] = []
    create = storage.create_file

    class SlowFile:
        def __init__(self, key: str, size: int | None) -> None:
            self._inner = create(key, size)  # type: ignore[arg-type]  # a key, as it was given

        def write(self, body: bytes) -> None:
            reached.set()
            released.wait(60)
            order.append("write")
            self._inner.write(body)

        def discard(self) -> None:
            order.append("discard")
            self._inner.discard()

    monkeypatch.setattr(storage, "create_file", SlowFile)
    body = StoppingBody(BIG, then=lambda: None)
    uploading = asyncio.create_task(_ingest(storage, body))
    await asyncio.to_thread(reached.wait, 60)
    uploading.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert order == []
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await uploading
    assert order == ["write", "discard"]
    await _assert_nothing_left(storage)
    await storage.close()


async def test_failing_object_store_leaves_no_blob() -> None:
    inner = MemoryStorage(CLOCK)
    faults = FaultScript().always("put", FailBefore(StorageFull("full")))
    with pytest.raises(StorageFull):
        await _ingest(FaultyStorage(inner, faults), Body(BIG))
    assert faults.calls("put") == 1
    await _assert_nothing_left(inner)


async def test_full_disk_rejects_a_body_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FolderStorage(tmp_path, CLOCK)
    body = Body(BIG)

    def full(size: int) -> None:
        raise StorageFull(f"no space left. wanted={size}")

    monkeypatch.setattr(storage, "check_capacity", full)
    with pytest.raises(StorageFull, match="wanted=100"):
        await _ingest(storage, body)
    assert body._pieces == [BIG]
    await _assert_nothing_left(storage)
    await storage.close()
