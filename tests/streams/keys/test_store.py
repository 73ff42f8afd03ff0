from __future__ import annotations

import shutil
from pathlib import Path

from lakebed.core.clock import ManualClock
from lakebed.storage.memory import MemoryStorage
from lakebed.streams.keys.batches import write_key_batch
from lakebed.streams.keys.bucket import KeyBucket
from lakebed.streams.keys.rocks import RocksMemory
from lakebed.streams.keys.snapshots import KeySnapshots
from lakebed.streams.keys.snapshotting import KeySnapshotting
from lakebed.streams.keys.store import KeyStore
from lakebed.streams.keys.table import KeyedTable, KeySettings
from lakebed.streams.log.memory import MemoryLog
from lakebed.streams.schema import Schema
from lakebed.streams.seam import Acks, Put, TableBucket
from tests.contracts.bucket_keys import PLAIN, key_of
from tests.meta.stores import open_migrated_file

from .test_snapshots import unfenced, with_table

TABLE = KeyedTable(KeySettings.parse(PLAIN, {}), {1: PLAIN})
MEMORY = RocksMemory(8 << 20, 8 << 20)


async def learn(schema_id: int) -> Schema:
    raise AssertionError("all schemas are known")


async def put(keys: KeyBucket, *numbers: int) -> None:
    row = TABLE.layout(1).encode
    batch = write_key_batch([(key_of(number), row((number, "x", number))) for number in numbers], 1)
    await keys.put(Put(batch), Acks.ALL)


async def test_keys_are_where_they_were_left(tmp_path: Path) -> None:
    store = KeyStore(tmp_path, MEMORY)
    log = MemoryLog(ManualClock())
    for bucket in (TableBucket(1, None, 0), TableBucket(1, None, 1), TableBucket(2, 7, 0)):
        keys = await store.open(TABLE, bucket, MemoryLog(ManualClock()), learn)
        assert keys.row_count == 0
        await keys.close()
    keys = await store.open(TABLE, TableBucket(1, None, 0), log, learn)
    await put(keys, 1, 2, 3)
    await keys.close()
    again = await store.open(TABLE, TableBucket(1, None, 0), log, learn)
    assert again.row_count == 3
    assert store.needs_from(TableBucket(1, None, 0)) == 3
    await put(again, 4)
    assert store.needs_from(TableBucket(1, None, 0)) == 3
    await again.close()
    await store.remove(2, 7)
    await store.remove(2, 7)
    assert not (tmp_path / "2" / "p7").exists()
    await store.remove(1, None)
    assert not (tmp_path / "1").exists()


async def test_a_lost_index_is_made_of_its_snapshot_and_the_log_after_it(tmp_path: Path) -> None:
    meta = await open_migrated_file(tmp_path / "meta.db")
    await with_table(meta)
    clock = ManualClock()
    storage = MemoryStorage(clock)
    taking = KeySnapshotting(KeySnapshots(meta, clock), storage, "kv", tmp_path / "scratch")
    store = KeyStore(tmp_path / "keys", MEMORY, taking)
    bucket, log = TableBucket(1, None, 0), MemoryLog(clock)
    keys = await store.open(TABLE, bucket, log, learn)
    await put(keys, 1, 2)
    await put(keys, 3)
    assert store.needs_from(bucket) == 0
    assert await store.take_snapshots(unfenced) == 1
    assert store.needs_from(bucket) == 3
    assert await store.take_snapshots(unfenced) == 0
    await put(keys, 4)
    await keys.close()
    assert await store.take_snapshots(unfenced) == 0
    shutil.rmtree(tmp_path / "keys")
    log.forget(2)  # so that it cannot have been the log alone

    again = await store.open(TABLE, bucket, log, learn)
    found = await again.lookup([key_of(number) for number in range(1, 6)])
    assert [value is not None for value in found] == [True, True, True, True, False]
    assert again.row_count == 4
    await again.close()
    await store.remove(1, None)
    assert [head async for head in storage.list_prefix("")] == []
    await meta.close()
