"""Reads of an object's bytes, whole and in ranges, from every kind of content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Corrupted, NotFound
from lakebed.core.ids import BlobId, new_blob_id
from lakebed.objects.blobs.contents import ByteRange, Contents, ContentSource, OpenSlice
from lakebed.objects.blobs.encryption import FRAME_BYTES, SEALED_FRAME_BYTES, seal_whole
from lakebed.objects.blobs.ingest import blob_key
from lakebed.objects.model import Content, Extent, pack
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import Key, ObjectStorage
from tests.objects.stores import new_key_ring, read_all, replaced

KEYS = new_key_ring()
CLOCK = ManualClock()


def _bytes(size: int, start: int = 0) -> bytes:
    return bytes((start + index) % 251 for index in range(size))


async def _keep(
    storage: ObjectStorage,
    plain: bytes,
    *,
    sealed: bool,
    inline: bool = False,
    around: tuple[bytes, bytes] | None = None,
) -> Extent:
    """Store bytes as an extent; with `around`, as a range of a blob that has these bytes around it."""
    if around is not None:
        before, after = around
        whole = await _keep(storage, before + plain + after, sealed=sealed)
        return Extent(len(plain), blob=whole.blob, seal=whole.seal, start=len(before), blob_size=whole.size)
    seal, stored = None, plain
    if sealed:
        key, seal = KEYS.new_data_key()
        stored = seal_whole(key, plain)
    if inline:
        return Extent(len(plain), body=stored, seal=seal)
    blob = new_blob_id(CLOCK)
    await storage.put(blob_key(blob), stored)
    return Extent(len(plain), blob=blob, seal=seal)


def _source(storage: ObjectStorage, *pieces: Extent) -> ContentSource:
    size = sum(piece.size for piece in pieces)
    if len(pieces) == 1 and pieces[0].body is not None:
        content = Content(pieces[0].body, pieces[0].seal, None)
    else:
        content = Content(None, None, pack(list(pieces)))
    return ContentSource(Contents(storage, KEYS, replaced), size, content)


async def _stream(source: ContentSource, wanted: ByteRange) -> bytes:
    return b"".join([piece async for piece in source.stream(wanted)])


SIZES = (5, FRAME_BYTES, 0, 3 * FRAME_BYTES + 1, 1)
PLAIN = b"".join(_bytes(size, start) for start, size in enumerate(SIZES))
BORDERS = sorted(
    {0, len(PLAIN)}
    | {
        at + nearby
        for piece in (5, 5 + FRAME_BYTES, 6 + 4 * FRAME_BYTES)
        for frame in range(4)
        for nearby in (-1, 0, 1)
        if 0 <= (at := piece + frame * FRAME_BYTES) + nearby <= len(PLAIN)
    }
)


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
async def test_every_range_at_frame_and_extent_boundaries_is_exact(sealed: bool) -> None:
    storage = MemoryStorage(CLOCK)
    pieces = [await _keep(storage, _bytes(size, start), sealed=sealed) for start, size in enumerate(SIZES)]
    source = _source(storage, *pieces)
    for start in BORDERS:
        for end in BORDERS:
            if start < end:
                assert await _stream(source, ByteRange(start, end)) == PLAIN[start:end]


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("before", [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1])
@pytest.mark.parametrize("after", [0, 1, FRAME_BYTES])
async def test_every_range_of_a_base_range_is_exact(sealed: bool, before: int, after: int) -> None:
    storage = MemoryStorage(CLOCK)
    plain = _bytes(2 * FRAME_BYTES + 3)
    around = (b"<" * before, b">" * after)
    source = _source(
        storage,
        Extent(2, body=b"[["),
        await _keep(storage, plain, sealed=sealed, around=around),
        await _keep(storage, plain, sealed=sealed, around=around),
        Extent(2, body=b"]]"),
    )
    whole = b"[[" + plain + plain + b"]]"
    ends = (0, 1, 2, 3, FRAME_BYTES + 2, FRAME_BYTES + 3, len(plain) + 2, len(whole) - 2, len(whole) - 1, len(whole))
    for start in ends:
        for end in ends:
            if start < end:
                assert await _stream(source, ByteRange(start, end)) == whole[start:end]


@settings(max_examples=60)
@given(
    data=st.data(),
    kinds=st.lists(
        st.tuples(st.integers(0, 200), st.booleans(), st.booleans(), st.none() | st.tuples(st.binary(), st.binary())),
        max_size=5,
    ),
)
@pytest.mark.parametrize(
    "in_files", [pytest.param(False, id="memory"), pytest.param(True, id="folder", marks=pytest.mark.slow)]
)
async def test_any_range_of_any_layout_is_exact(
    data: st.DataObject,
    kinds: list[tuple[int, bool, bool, tuple[bytes, bytes] | None]],
    in_files: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    storage: ObjectStorage = MemoryStorage(CLOCK)
    if in_files:
        storage = FolderStorage(tmp_path_factory.mktemp("bytes"), CLOCK)
    plain = b"".join(_bytes(size, number) for number, (size, *_) in enumerate(kinds))
    pieces = [
        await _keep(storage, _bytes(size, number), sealed=sealed, inline=inline, around=around)
        for number, (size, sealed, inline, around) in enumerate(kinds)
    ]
    source = _source(storage, *pieces)
    start = data.draw(st.integers(0, len(plain)))
    wanted = ByteRange(start, data.draw(st.integers(start, len(plain))))
    assert await read_all(source, wanted) == plain[wanted.start : wanted.end]
    assert await _stream(source, wanted) == plain[wanted.start : wanted.end]
    await storage.close()


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
async def test_inline_object_can_be_read_and_streamed(sealed: bool) -> None:
    storage = MemoryStorage(CLOCK)
    source = _source(storage, await _keep(storage, b"0123456789", sealed=sealed, inline=True))
    assert source.inline(ByteRange(0, 10)) == b"0123456789"
    assert source.inline(ByteRange(3, 5)) == b"34"
    assert await _stream(source, ByteRange(3, 5)) == b"34"


def test_empty_object_has_no_content() -> None:
    source = ContentSource(Contents(MemoryStorage(CLOCK), KEYS, replaced), 0, Content(None, None, None))
    assert source.inline(ByteRange(0, 0)) == b""


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("kept", [0, 1, SEALED_FRAME_BYTES, SEALED_FRAME_BYTES + 5, -1])
async def test_truncated_blob_is_corrupted_not_a_shorter_object(sealed: bool, kept: int) -> None:
    storage = MemoryStorage(CLOCK)
    plain = _bytes(2 * FRAME_BYTES + 7)
    piece = await _keep(storage, plain, sealed=sealed)
    assert piece.blob is not None
    await storage.put(blob_key(piece.blob), (await storage.get(blob_key(piece.blob)))[:kept])
    source = _source(storage, piece)
    for wanted in (ByteRange(0, len(plain)), ByteRange(len(plain) - 1, len(plain))):
        with pytest.raises(Corrupted):
            await _stream(source, wanted)


async def test_damaged_frame_affects_only_overlapping_ranges() -> None:
    storage = MemoryStorage(CLOCK)
    plain = _bytes(3 * FRAME_BYTES)
    piece = await _keep(storage, plain, sealed=True)
    assert piece.blob is not None
    stored = bytearray(await storage.get(blob_key(piece.blob)))
    stored[SEALED_FRAME_BYTES + 10] ^= 1
    await storage.put(blob_key(piece.blob), stored)
    source = _source(storage, piece)
    assert await _stream(source, ByteRange(0, FRAME_BYTES)) == plain[:FRAME_BYTES]
    last = ByteRange(2 * FRAME_BYTES, 3 * FRAME_BYTES)
    assert await _stream(source, last) == plain[last.start :]
    with pytest.raises(Corrupted):
        await _stream(source, ByteRange(FRAME_BYTES, FRAME_BYTES + 1))


async def test_encrypted_blob_of_another_object_does_not_decrypt() -> None:
    storage = MemoryStorage(CLOCK)
    one = await _keep(storage, b"a" * 20, sealed=True)
    other = await _keep(storage, b"b" * 20, sealed=True)
    assert one.blob is not None
    assert other.blob is not None
    await storage.put(blob_key(one.blob), await storage.get(blob_key(other.blob)))
    with pytest.raises(Corrupted):
        await _stream(_source(storage, one), ByteRange(0, 20))


async def test_only_files_of_a_range_are_opened(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path, CLOCK)
    pieces = [await _keep(storage, text, sealed=False) for text in (b"0123", b"4567", b"89")]
    slices = await _source(storage, *pieces).open_files(ByteRange(5, 9))
    assert slices is not None
    assert [_read_and_close(piece) for piece in slices] == [b"567", b"8"]
    await storage.close()


async def test_open_files_returns_base_ranges_and_inline_bytes_in_order(
    tmp_path: Path,
) -> None:
    storage = FolderStorage(tmp_path, CLOCK)
    base_range = await _keep(storage, b"0123", sealed=False, around=(b"<<", b">"))
    slices = await _source(storage, Extent(3, body=b"abc"), base_range, Extent(2, body=b"de")).open_files(
        ByteRange(1, 8)
    )
    assert slices is not None
    assert [isinstance(piece, bytes) for piece in slices] == [True, False, True]
    assert [_read_and_close(piece) for piece in slices] == [b"bc", b"0123", b"d"]
    await storage.close()


def _read_and_close(piece: OpenSlice | bytes) -> bytes:
    if isinstance(piece, bytes):
        return piece
    read = os.pread(piece.descriptor, piece.length, piece.offset)
    os.close(piece.descriptor)
    return read


async def test_encrypted_bytes_are_never_opened_as_files(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path, CLOCK)
    plain, sealed = await _keep(storage, b"0123", sealed=False), await _keep(storage, b"4567", sealed=True)
    assert await _source(storage, plain, sealed).open_files(ByteRange(0, 4)) is None
    await storage.close()


async def test_open_files_are_closed_if_another_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FolderStorage(tmp_path, CLOCK)
    existing = await _keep(storage, b"0123", sealed=False)
    opened: list[int] = []
    closed: list[int] = []
    open_file, close = storage.open_file, os.close

    def watched_open(key: Key) -> int:
        opened.append(open_file(key))
        return opened[-1]

    def watched_close(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(storage, "open_file", watched_open)
    monkeypatch.setattr(os, "close", watched_close)
    with pytest.raises(NotFound):
        await _source(storage, existing, Extent(4, blob=BlobId("0" * 32))).open_files(ByteRange(0, 8))
    assert len(opened) == 1
    assert opened[0] in closed
    await storage.close()


async def test_store_without_local_files_opens_none() -> None:
    storage = MemoryStorage(CLOCK)
    assert await _source(storage, await _keep(storage, b"0123", sealed=False)).open_files(ByteRange(0, 4)) is None
