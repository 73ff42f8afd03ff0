from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.kv.index.rocksdb import RocksIndex, RocksMemory
from lakebed.streams.kv.index.write_buffer import WriteBufferMemory
from tests.contracts.kv_bucket import KvBucketContract, OpenIndex, key_of
from tests.fixtures.memory_index import MemoryIndex


class TestMemoryKvBucket(KvBucketContract):
    @pytest.fixture
    def open_index(self) -> OpenIndex:
        """A new index at each opening: the whole log is replayed."""
        return MemoryIndex


class _Unreadable(MemoryIndex):
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        raise RuntimeError("Corruption: block checksum mismatch")


async def test_unreadable_index_is_reported_as_kv_storage_error() -> None:
    bucket = await KvBucketContract().open(_Unreadable)
    for call in (bucket.put((1, "a", 1)), bucket.kv.lookup([key_of(1)])):
        with pytest.raises(FlussError) as failed:
            await call
        assert failed.value.code is ErrorCode.KV_STORAGE
    assert bucket.log.end_offset == 0
    await bucket.kv.close()


class _Unwritable(MemoryIndex):
    def apply(self, values: Mapping[bytes, bytes | None], log_offset: int, row_count: int | None) -> None:
        raise RuntimeError("No space left on device")


async def test_put_that_the_index_rejects_is_not_acknowledged_and_fails_the_bucket() -> None:
    bucket = await KvBucketContract().open(_Unwritable)
    for _ in range(2):
        with pytest.raises(FlussError) as failed:
            await bucket.put((1, "a", 1))
        assert failed.value.code is ErrorCode.KV_STORAGE
    assert bucket.log.end_offset == 1
    await bucket.kv.close()
    again = await KvBucketContract().open(MemoryIndex, log=bucket.log)
    assert await again.row(1) == (1, "a", 1)  # the log has it: a repeated put is a duplicate
    await again.kv.close()


class TestRocksDbKvBucket(KvBucketContract):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> OpenIndex:
        memory = RocksMemory(8 << 20, 8 << 20)
        return lambda: RocksIndex(tmp_path / "index", memory)


class TestRocksDbKvBucketWithoutBuffer(KvBucketContract):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> OpenIndex:
        """An index that writes through to disk and caches nothing."""
        memory = RocksMemory(8 << 20, 8 << 20, WriteBufferMemory(most_bytes=1, fresh_bytes=1))
        return lambda: RocksIndex(tmp_path / "index", memory)


class _FailingToSpill(MemoryIndex):
    """An index whose writes to disk fail."""

    @property
    def is_full(self) -> bool:
        return True

    def spill(self) -> None:
        raise RuntimeError("No space left on device")


async def test_failed_spill_of_the_index_fails_the_bucket() -> None:
    bucket = await KvBucketContract().open(_FailingToSpill)
    assert await bucket.put((1, "a", 1)) == 1
    while bucket.kv.failure is None:
        await asyncio.sleep(0)
    with pytest.raises(FlussError) as failed:
        await bucket.put((2, "b", 2))
    assert failed.value.code is ErrorCode.KV_STORAGE
    await bucket.kv.close()
