from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import BlobMissing, NoSuchKey, Unavailable
from lakebed.core.ids import new_blob_id
from lakebed.objects.blobs.contents import ByteRange, Contents, ContentSource, MissingBlobs
from lakebed.objects.blobs.ingest import blob_key
from lakebed.objects.model import Content, Extent, pack
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import Key
from tests.objects.stores import ROOT, ObjectStore, new_key_ring, replaced

CLOCK = ManualClock()
BIG = b"0123456789" * 10


async def lose_blobs(store: ObjectStore) -> None:
    """Delete all blobs but keep the metadata."""
    await store.storage.delete_many([head.key async for head in store.storage.list_prefix("blobs/")])


async def test_lost_blob_is_reported_as_missing_blob_not_missing_key(
    store: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "key", BIG)
    await lose_blobs(store)
    with caplog.at_level(logging.ERROR, "lakebed.objects"), pytest.raises(BlobMissing, match="key=blobs/"):
        await store.get("bucket", "key")
    assert [record.message for record in caplog.records] == ["stored bytes are missing from the object store"]


async def test_lost_encrypted_blob_is_reported_as_missing_blob(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "key", BIG, encrypt=True)
    await lose_blobs(store)
    with pytest.raises(BlobMissing):
        await store.get("bucket", "key")


async def test_object_replaced_during_a_read_is_not_reported_as_lost(
    store: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "key", BIG)
    found = await store.reader.get(ROOT, "bucket", "key")
    assert found.source is not None
    await store.put("bucket", "key", BIG[::-1])
    await store.garbage_collector.sweep()
    with pytest.raises(NoSuchKey):
        _ = [piece async for piece in found.source.stream(ByteRange(0, len(BIG)))]
    assert not caplog.records


async def test_each_read_of_a_missing_blob_is_counted(store: ObjectStore) -> None:
    await store.bucket("bucket")
    await store.put("bucket", "key", BIG)
    counted: list[int] = []
    missing = MissingBlobs(store.meta, lambda: counted.append(1))
    (row,) = await store.meta.rows("SELECT id FROM blobs WHERE id > ''")
    assert isinstance(await missing.explain(row[0]), BlobMissing)
    assert isinstance(await missing.explain(new_blob_id(store.clock)), NoSuchKey)
    assert counted == [1]


class Unreachable(MemoryStorage):
    """A store that is unavailable, or becomes so after the first bytes."""

    pieces: tuple[bytes, ...] = ()

    async def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        raise Unavailable("the store is down")


def _source(store: Unreachable) -> ContentSource:
    piece = Extent(6, blob=new_blob_id(CLOCK))
    return ContentSource(Contents(store, new_key_ring(), replaced), 6, Content(None, None, pack([piece])))


async def test_unavailable_store_fails_before_the_stream_starts() -> None:
    with pytest.raises(Unavailable):
        await _source(Unreachable(CLOCK)).open_stream(ByteRange(0, 6))


async def test_inline_bytes_before_a_blob_do_not_hide_an_unavailable_store() -> None:
    layout = pack([Extent(3, body=b"abc"), Extent(3, body=b"def"), Extent(6, blob=new_blob_id(CLOCK))])
    source = ContentSource(Contents(Unreachable(CLOCK), new_key_ring(), replaced), 12, Content(None, None, layout))
    with pytest.raises(Unavailable):
        await source.open_stream(ByteRange(1, 12))
    opened = await source.open_stream(ByteRange(1, 5))
    assert b"".join([piece async for piece in opened]) == b"bcde"


async def test_store_that_fails_later_breaks_the_stream() -> None:
    store = Unreachable(CLOCK)
    store.pieces = (b"abc",)
    opened = await _source(store).open_stream(ByteRange(0, 6))
    assert await anext(opened) == b"abc"
    with pytest.raises(Unavailable):
        await anext(opened)


async def test_opened_stream_returns_all_bytes() -> None:
    store = MemoryStorage(CLOCK)
    blob = new_blob_id(CLOCK)
    await store.put(blob_key(blob), b"abcdef")
    content = Content(None, None, pack([Extent(6, blob=blob)]))
    source = ContentSource(Contents(store, new_key_ring(), replaced), 6, content)
    opened = await source.open_stream(ByteRange(1, 5))
    assert b"".join([piece async for piece in opened]) == b"bcde"
