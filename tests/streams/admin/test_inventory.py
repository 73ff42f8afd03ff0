from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

import pytest

from lakebed.meta.seam import Transaction
from lakebed.storage.seam import Key
from lakebed.streams.admin import inventory as census_module
from lakebed.streams.admin.inventory import InventoryCollector, LakeTableStats, StreamInventory, TableInventory
from lakebed.streams.admin.kv_sizes import KvSizeCollector, KvSizes
from lakebed.streams.admin.stats import ClusterHealth
from lakebed.streams.buckets.log_maintenance import UploadCounts
from lakebed.streams.buckets.open_buckets import OpenBucket
from lakebed.streams.durations import Durations
from lakebed.streams.kv.index.rocksdb import RocksIndex, RocksMemory
from lakebed.streams.kv.snapshots import KvSnapshot, KvSnapshots, SnapshotFile
from lakebed.streams.lake.schedule import TieringStats
from lakebed.streams.lake.service import TieringReport
from lakebed.streams.seam import Acks, TableBucket
from lakebed.streams.table import StreamTable
from lakebed.streams.traffic import Traffic
from tests.contracts.stream_log import plain_batch
from tests.streams.admin.test_stats import Checked, check_of
from tests.streams.buckets.test_log_maintenance import LogShelf, begun, claim_tail, written
from tests.streams.world import StreamWorld


class Log:
    """As much of a log as is counted."""

    def __init__(self, start: int, end: int) -> None:
        self.start_offset, self.high_watermark = start, end


async def test_all_there_is(light_world: StreamWorld) -> None:
    world = light_world
    lake = {"table.datalake.enabled": "true"}
    plain = await world.table("plain", bucket_count=4)
    tiered = await world.table("tiered", properties=lake, bucket_count=2)
    await world.table("keyed", key=["id"])
    await world.table("parts", partition_key=["name"], bucket_count=3)
    for name in ("a", "b"):
        await world.partitions.create(world.root, "fluss", "parts", {"name": name})
    prepared = await world.lake.prepare(world.root, tiered.id, {(None, 0): 60})
    await world.lake.commit(world.root, tiered.id, 1, prepared)
    await world.lake.next_table(world.root)
    await KvSnapshots(world.store, world.clock).lease("mine", 1000, [])
    opened = [bucket(plain, 0, 10, 30), bucket(tiered, 0, 50, 100), bucket(tiered, 1, 5, 9)]
    inventory = await taker(world, opened).take()
    fresh_ms = 30_000
    assert inventory == StreamInventory(
        tables=4,
        kv_tables=1,
        partitions=2,
        health=ClusterHealth(13, 13, 13),
        open_buckets=3,
        records=20 + 50 + 4,
        lake_tables={"tiering": 1},
        lake_failures=0,
        pending_records=40 + 4,
        leases=1,
        leased_snapshots=0,
        kv=KvSizes({3: 0}),
        by_table=[
            TableInventory(1, "fluss.plain", readable=20, written=30, pending=0),
            TableInventory(2, "fluss.tiered", readable=54, written=109, pending=44, lake=LakeTableStats(fresh_ms)),
            TableInventory(3, "fluss.keyed", readable=0, written=0, pending=0),
            TableInventory(4, "fluss.parts", readable=0, written=0, pending=0),
        ],
    )


async def test_not_more_tables_are_counted_one_by_one_than_are_told_of(
    light_world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(census_module, "TABLES", 2)
    opened = [bucket(await light_world.table(f"t{number}"), 0, 0, 5) for number in range(3)]
    inventory = await taker(light_world, opened).take()
    assert [each.table for each in inventory.by_table] == ["fluss.t0", "fluss.t1"]
    assert (inventory.tables, inventory.records) == (3, 15)


def bucket(table: StreamTable, number: int, start: int, end: int) -> OpenBucket:
    return OpenBucket(TableBucket(table.id, None, number), Log(start, end))  # type: ignore[arg-type]  # what is not counted is not there


def taker(
    world: StreamWorld,
    opened: Iterable[OpenBucket],
    folder: Path = Path("none"),
    traffic: Traffic | None = None,
    flushes: Mapping[str, Durations] | None = None,
) -> InventoryCollector:
    snapshots = KvSnapshots(world.store, world.clock)
    sizes = KvSizeCollector(folder, world.partitions, snapshots, world.clock)
    check = Checked(world).check
    return InventoryCollector(
        world.tables,
        world.partitions,
        opened,
        world.lake,
        snapshots,
        world.clock,
        check,
        sizes,
        traffic=traffic,
        flushes=flushes,
    )


# -- what there is of logs ----------------------------------------------------------------------------------------


@pytest.fixture
async def logs(light_world: StreamWorld, tmp_path: Path) -> AsyncIterator[LogShelf]:
    made = LogShelf(light_world, tmp_path / "logs")
    yield made
    await asyncio.to_thread(made.logs.close)


async def test_logs_are_as_large_as_their_files(light_world: StreamWorld, logs: LogShelf, tmp_path: Path) -> None:
    table = await light_world.table(bucket_count=2)
    await written(light_world, logs, table)
    async with begun(light_world, logs) as server:
        other = await server.buckets.get(table, None, 1)
        await other.log.append(plain_batch(5, writer_id=7, sequence=0), Acks.ALL)
        await other.log.append(plain_batch(5, writer_id=8, sequence=0), Acks.ALL)
        await server.buckets.get(table, None, 0)
        await server.log_maintenance.maintain()
        inventory = await taker(light_world, server.buckets).take()
        here = [path.stat().st_size for path in (tmp_path / "logs").rglob("*.log")]
        there = [len(await logs.storage.get(Key(key))) for key in await logs.keys() if key.endswith(".log")]
        assert len(here) > 2
        assert len(there) > 1
        assert (inventory.segments, inventory.log_bytes) == (len(here), sum(here))
        assert (inventory.remote_segments, inventory.remote_bytes) == (len(there), sum(there))
        assert inventory.writers == 2
        (count,) = inventory.by_table
        assert (count.log_bytes, count.remote_bytes) == (sum(here), sum(there))


async def test_how_long_flushes_took_is_told_once(light_world: StreamWorld, logs: LogShelf, tmp_path: Path) -> None:
    table = await light_world.table(bucket_count=1)
    memory = RocksMemory(8 << 20, 8 << 20)
    counting = taker(light_world, [], flushes={"log": logs.logs.flushes, "keys": memory.flushes})
    await written(light_world, logs, table)
    index = RocksIndex(tmp_path / "index", memory)
    index.apply({b"k": b"\1\0v"}, 1, 1)
    index.flush()
    told = (await counting.take()).flush_seconds
    assert len(told["keys"]) == 1
    assert told["log"]
    assert min(*told["log"], *told["keys"]) > 0
    assert (await counting.take()).flush_seconds == {"log": [], "keys": []}
    index.close()


async def test_what_is_offline_is_counted(light_world: StreamWorld, logs: LogShelf) -> None:
    table = await light_world.table(bucket_count=3)
    await claim_tail(logs.rows, TableBucket(table.id, None, 2), "another")
    async with begun(light_world, logs) as server:
        snapshots = KvSnapshots(light_world.store, light_world.clock)
        inventory = await InventoryCollector(
            light_world.tables,
            light_world.partitions,
            server.buckets,
            light_world.lake,
            snapshots,
            light_world.clock,
            check_of(light_world, logs, server),
            KvSizeCollector(Path("none"), light_world.partitions, snapshots, light_world.clock),
        ).take()
    assert inventory.health == ClusterHealth(3, 2, 2)


# -- the lake -----------------------------------------------------------------------------------------------------


async def test_how_far_a_table_is_in_the_lake(light_world: StreamWorld, logs: LogShelf) -> None:
    world = light_world
    lake = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 min"}
    table = await world.table(properties=lake)
    async with begun(world, logs) as server:
        taking = taker(world, server.buckets)

        async def counted() -> LakeTableStats:
            found = (await taking.take()).by_table[0].lake
            assert found is not None
            return found

        log = (await server.buckets.get(table, None, 0)).log
        await log.append(plain_batch(4), Acks.ALL)
        # Nobody has asked for it yet, and it is told of all the same.
        world.clock.advance(5)
        await world.lake.waiting()
        world.clock.advance(2)
        assert await counted() == LakeTableStats(60_000, waits_ms=2_000)
        given = await world.lake.next_table(world.root)
        assert given is not None
        began_ms = world.clock.now_ms()
        world.clock.advance(3)
        prepared = await world.lake.prepare(world.root, table.id, {(None, 0): 4})
        await world.lake.commit(world.root, table.id, 1, prepared)
        ended = TieringReport(table.id, world.leader_epoch, given[1], TieringStats(1234, 4))
        await world.lake.report(world.root, finished=[ended])
        told = LakeTableStats(
            60_000, tiered_ms=began_ms, age_ms=3_000, lag_ms=0, took_ms=3_000, file_bytes=1234, records=4
        )
        assert await counted() == told
        assert told.is_fresh
        world.clock.advance(4)
        await log.append(plain_batch(2), Acks.ALL)
        world.clock.advance(60)
        late = await counted()
        assert (late.age_ms, late.lag_ms, late.waits_ms) == (67_000, 7_000, 7_000)
        assert not late.is_fresh
        given = await world.lake.next_table(world.root)
        assert given is not None
        await world.lake.report(world.root, failed=[TieringReport(table.id, world.leader_epoch, given[1])])
        assert (await counted()).failures == 1


# -- keys ---------------------------------------------------------------------------------------------------------


async def test_keys_take_what_their_files_take_and_a_shared_file_once(light_world: StreamWorld, tmp_path: Path) -> None:
    world = light_world
    table = await world.table(key=["id"])
    plain = await world.table("plain")
    for name, size in (("0/a.sst", 10), ("0/CURRENT", 3), ("1/b.sst", 7)):
        path = tmp_path / str(table.id) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (tmp_path / str(plain.id)).mkdir()
    (tmp_path / str(plain.id) / "stray").write_bytes(b"of no table with keys")
    snapshots = KvSnapshots(world.store, world.clock)
    bucket_id = TableBucket(table.id, None, 0)

    async def fence(tx: Transaction) -> None:
        """Whoever asks is the home."""

    async def taken(number: int, *files: tuple[str, int]) -> None:
        parts = tuple(SnapshotFile(name, f"keys/{name}", size) for name, size in files)
        await snapshots.add(KvSnapshot(bucket_id, number, number, None, "lineage", parts), fence)

    await taken(1, ("shared", 100), ("one", 1))
    await taken(2, ("shared", 100), ("two", 2))
    taking = taker(world, [], tmp_path)
    inventory = await taking.take()
    assert inventory.kv == KvSizes({table.id: 20}, snapshots=2, snapshot_bytes=103)
    assert [(each.table, each.index_bytes) for each in inventory.by_table] == [("fluss.orders", 20), ("fluss.plain", 0)]
    # A look costs as much as there are files: the next is a while later.
    await taken(3, ("shared", 100), ("three", 3))
    assert (await taking.take()).kv.snapshot_bytes == 103
    world.clock.advance(60)
    assert (await taking.take()).kv == KvSizes({table.id: 20}, snapshots=2, snapshot_bytes=105)


# -- what others counted ------------------------------------------------------------------------------------------


async def test_what_others_counted_is_told_once(light_world: StreamWorld) -> None:
    table = await light_world.table()
    traffic = Traffic()
    taking = taker(light_world, [], traffic=traffic)
    traffic.record_write(table.id, "PRODUCE_LOG", 100, 5)
    traffic.record_read(table.id, "FETCH_LOG", 30, 2)
    traffic.record_read(table.id, "FETCH_LOG", 30, 2)
    traffic.record_failure(table.id, "FETCH_LOG")
    traffic.record_failure(None, "PUT_KV", 3)
    inventory = await taking.take()
    moved = inventory.traffic[table.id]
    assert (moved.bytes_in, moved.records_in, moved.bytes_out, moved.records_out) == (100, 5, 60, 4)
    assert (moved.answered, moved.failed) == ({"PRODUCE_LOG": 1, "FETCH_LOG": 2}, {"FETCH_LOG": 1})
    assert inventory.traffic[None].failed == {"PUT_KV": 3}
    assert inventory.uploads == UploadCounts()
    assert (await taking.take()).traffic == {}
