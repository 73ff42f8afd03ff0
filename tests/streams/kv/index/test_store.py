from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.schema import Schema
from lakebed.meta.sqlite.store import SqliteStore
from lakebed.storage.memory import MemoryStorage
from lakebed.streams.kv.bucket import KvBucket
from lakebed.streams.kv.index.rocksdb import RocksIndex, RocksMemory
from lakebed.streams.kv.index.store import KvStore
from lakebed.streams.kv.snapshot_files import KvSnapshotter
from lakebed.streams.kv.snapshots import KvSnapshots
from lakebed.streams.kv.table import KvSettings, KvTable
from lakebed.streams.seam import Acks, KvPut, TableBucket
from tests.contracts.kv_bucket import PLAIN, key_of
from tests.fixtures.memory_log import MemoryLog
from tests.meta.stores import open_migrated_file
from tests.storage.ownership import ClaimedAtFirstUse
from tests.streams.kv.test_snapshots import unfenced, with_table

TABLE = KvTable(KvSettings.parse(PLAIN, {}), {1: PLAIN})
MEMORY = RocksMemory(8 << 20, 8 << 20)


async def find_schema(schema_id: int) -> Schema:
    raise AssertionError("all schemas are known")


async def put(kv: KvBucket, *numbers: int) -> None:
    row = TABLE.layout(1).encode
    batch = write_kv_batch([(key_of(number), row((number, "x", number))) for number in numbers], 1)
    await kv.put(KvPut(batch), Acks.ALL)


async def test_reopened_bucket_keeps_its_rows(tmp_path: Path) -> None:
    store = KvStore(tmp_path, MEMORY)
    log = MemoryLog(ManualClock())
    for bucket in (TableBucket(1, None, 0), TableBucket(1, None, 1), TableBucket(2, 7, 0)):
        kv = await store.open(TABLE, bucket, MemoryLog(ManualClock()), find_schema)
        assert kv.row_count == 0
        await kv.close()
    kv = await store.open(TABLE, TableBucket(1, None, 0), log, find_schema)
    await put(kv, 1, 2, 3)
    await kv.close()
    again = await store.open(TABLE, TableBucket(1, None, 0), log, find_schema)
    assert again.row_count == 3
    assert store.required_offset(TableBucket(1, None, 0)) == 3
    await put(again, 4)
    assert store.required_offset(TableBucket(1, None, 0)) == 3
    await again.close()
    await store.remove(2, 7)
    await store.remove(2, 7)
    assert not (tmp_path / "2" / "p7").exists()
    await store.remove(1, None)
    assert not (tmp_path / "1").exists()


async def test_lost_index_is_restored_from_its_snapshot_and_the_later_log(tmp_path: Path) -> None:
    meta = await open_migrated_file(tmp_path / "meta.db")
    await with_table(meta)
    clock = ManualClock()
    storage = MemoryStorage(clock)
    snapshotter = KvSnapshotter(
        KvSnapshots(meta, clock), storage, ClaimedAtFirstUse(storage), "kv", tmp_path / "scratch"
    )
    store = KvStore(tmp_path / "keys", MEMORY, snapshotter)
    bucket, log = TableBucket(1, None, 0), MemoryLog(clock)
    kv = await store.open(TABLE, bucket, log, find_schema)
    await put(kv, 1, 2)
    await put(kv, 3)
    assert store.required_offset(bucket) == 0
    assert await store.take_snapshots(unfenced) == (1, 0)
    assert store.required_offset(bucket) == 3
    assert await store.take_snapshots(unfenced) == (0, 0)
    await put(kv, 4)
    await kv.close()
    assert await store.take_snapshots(unfenced) == (0, 0)
    shutil.rmtree(tmp_path / "keys")
    log.forget(2)  # so that the log alone is not sufficient

    again = await store.open(TABLE, bucket, log, find_schema)
    found = await again.lookup([key_of(number) for number in range(1, 6)])
    assert [value is not None for value in found] == [True, True, True, True, False]
    assert again.row_count == 4
    await again.close()
    await store.remove(1, None)
    assert [head async for head in storage.list_prefix("kv/")] == []
    await meta.close()


class Shared:
    """The snapshots in the object store that two servers share."""

    def __init__(self, folder: Path, meta: SqliteStore) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.storage = MemoryStorage(self.clock)
        self.snapshots = KvSnapshots(meta, self.clock)
        self.bucket = TableBucket(1, None, 0)

    def store(self, server: str) -> KvStore:
        snapshotter = KvSnapshotter(
            self.snapshots, self.storage, ClaimedAtFirstUse(self.storage), "kv", self.folder / server / "scratch"
        )
        return KvStore(self.folder / server / "keys", MEMORY, snapshotter)


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    meta = await open_migrated_file(tmp_path / "meta.db")
    await with_table(meta)
    yield Shared(tmp_path, meta)
    await meta.close()


async def found(kv: KvBucket) -> list[int]:
    values = await kv.lookup([key_of(number) for number in range(10)])
    return [number for number, value in enumerate(values) if value is not None]


@pytest.mark.parametrize("incarnation", ["first", "another"], ids=["same log", "recreated log"])
async def test_stale_index_is_rebuilt(shared: Shared, incarnation: str) -> None:
    one, other, log = shared.store("one"), shared.store("other"), MemoryLog(shared.clock)
    kv = await one.open(TABLE, shared.bucket, log, find_schema, incarnation="first")
    await put(kv, 1)
    await kv.close()
    kv = await other.open(TABLE, shared.bucket, log, find_schema, incarnation="other")
    await put(kv, 2)
    await put(kv, 3)
    assert (await other.take_snapshots(unfenced)).taken == 1
    await put(kv, 4)
    await kv.close()
    log.forget(3)  # covered by the snapshot; the first server lacks a part of it

    kv = await one.open(TABLE, shared.bucket, log, find_schema, incarnation=incarnation)
    assert (await found(kv), kv.row_count) == ([1, 2, 3, 4], 4)
    await kv.close()
    again = await one.open(TABLE, shared.bucket, log, find_schema, incarnation=incarnation)
    assert await found(again) == [1, 2, 3, 4]
    await again.close()


@pytest.mark.parametrize("incarnation", ["first", "another"], ids=["ahead of its log", "of a recreated log"])
async def test_rows_missing_from_the_log_are_dropped_from_the_index(shared: Shared, incarnation: str) -> None:
    store = shared.store("one")
    kv = await store.open(TABLE, shared.bucket, MemoryLog(shared.clock), find_schema, incarnation="first")
    await put(kv, 1)
    await put(kv, 2)
    await kv.close()
    # Neither put was acknowledged: another server became the leader and continued with this log.
    log = MemoryLog(shared.clock)
    successor = await shared.store("other").open(TABLE, shared.bucket, log, find_schema)
    await put(successor, 5)
    if incarnation == "another":
        await put(successor, 6, 7)
    await successor.close()
    kv = await store.open(TABLE, shared.bucket, log, find_schema, incarnation=incarnation)
    assert await found(kv) == ([5] if incarnation == "first" else [5, 6, 7])
    await kv.close()


async def test_failed_snapshot_does_not_block_others(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    store = shared.store("one")
    opened = []
    for number in range(3):
        bucket = TableBucket(1, None, number)
        opened.append(await store.open(TABLE, bucket, MemoryLog(shared.clock), find_schema))
        await put(opened[-1], 1)
    checkpoint = RocksIndex.checkpoint

    def refuse(index: RocksIndex, folder: Path) -> tuple[int, int | None]:
        if folder.name == "1-0":
            raise RuntimeError("IO error: no space left on device")
        return checkpoint(index, folder)

    monkeypatch.setattr(RocksIndex, "checkpoint", refuse)
    assert await store.take_snapshots(unfenced) == (2, 1)
    assert [store.required_offset(TableBucket(1, None, number)) for number in range(3)] == [0, 1, 1]
    monkeypatch.undo()
    assert await store.take_snapshots(unfenced) == (1, 0)
    for kv in opened:
        await kv.close()
