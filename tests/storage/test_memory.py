"""The memory store fulfils the contract, and its ETags are those of S3."""

from __future__ import annotations

import hashlib

import pytest

from lakebed.core.clock import ManualClock
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import MIN_PART_BYTES, Key, ObjectStorage
from tests.contracts.storage import StorageContract


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self, clock: ManualClock) -> ObjectStorage:
        return MemoryStorage(clock)


async def test_etag_of_a_put_is_the_md5_of_its_bytes(clock: ManualClock) -> None:
    version = await MemoryStorage(clock).put(Key("k"), b"body")
    assert version.etag == hashlib.md5(b"body").hexdigest()


async def test_etag_of_a_multipart_object_is_the_md5_of_md5s_and_the_part_count(clock: ManualClock) -> None:
    storage = MemoryStorage(clock)
    upload = await storage.start_multipart(Key("k"))
    bodies = [b"a" * MIN_PART_BYTES, b"b"]
    version = await upload.complete([await upload.upload_part(n, body) for n, body in enumerate(bodies, 1)])
    digests = b"".join(hashlib.md5(body).digest() for body in bodies)
    assert version.etag == hashlib.md5(digests).hexdigest() + "-2"


async def test_modification_time_comes_from_the_clock(clock: ManualClock) -> None:
    storage = MemoryStorage(clock)
    await storage.put(Key("k"), b"1")
    first = (await storage.head(Key("k"))).modified_ms
    clock.advance(2.5)
    await storage.put(Key("k"), b"1")
    assert (await storage.head(Key("k"))).modified_ms == first + 2500


async def test_stored_bytes_are_a_copy(clock: ManualClock) -> None:
    storage = MemoryStorage(clock)
    body = bytearray(b"before")
    await storage.put(Key("k"), body)
    body[:] = b"after!"
    assert await storage.get(Key("k")) == b"before"
