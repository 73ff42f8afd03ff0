from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

import pytest

from lakebed.meta.seam import Transaction
from lakebed.storage.seam import Key
from lakebed.streams.admin import inventory as inventory_module
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
from tests.streams.admin.test_stats import HealthSetup, check_of
from tests.streams.buckets.test_log_maintenance import LogOpener, claim_tail, running_server, write_log
from tests.streams.world import StreamWorld


class Log:
    """The offsets of a log."""

    def __init__(self, start: int, end: int) -> None:
        self.start_offset, self.high_watermark = start, end


async def test_inventory_counts_tables_partitions_records_and_leases(light_world: StreamWorld) -> None:
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
    inventory = await collector_of(world, opened).take()
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


async def test_number_of_tables_counted_one_by_one_is_limited(
    light_world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory_module, "TABLES", 2)
    opened = [bucket(await light_world.table(f"t{number}"), 0, 0, 5) for number in range(3)]
    inventory = await collector_of(light_world, opened).take()
    assert [each.table for each in inventory.by_table] == ["fluss.t0", "fluss.t1"]
    assert (inventory.tables, inventory.records) == (3, 15)


def bucket(table: StreamTable, number: int, start: int, end: int) -> OpenBucket:
    return OpenBucket(TableBucket(table.id, None, number), Log(start, end))  # type: ignore[arg-type]  # only the offsets are read


def collector_of(
    world: StreamWorld,
    opened: Iterable[OpenBucket],
    folder: Path = Path("none"),
    traffic: Traffic | None = None,
    flushes: Mapping[str, Durations] | None = None,
) -> InventoryCollector:
    snapshots = KvSnapshots(world.store, world.clock)
    sizes = KvSizeCollector(folder, world.partitions, snapshots, world.clock)
    check = HealthSetup(world).check
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


# -- logs --------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def logs(light_world: StreamWorld, tmp_path: Path) -> AsyncIterator[LogOpener]:
    made = LogOpener(light_world, tmp_path / "logs")
    yield made
    await asyncio.to_thread(made.logs.close)


async def test_log_sizes_are_those_of_the_files(light_world: StreamWorld, logs: LogOpener, tmp_path: Path) -> None:
    table = await light_world.table(bucket_count=2)
    await write_log(light_world, logs, table)
    async with running_server(light_world, logs) as server:
        other = await server.buckets.get(table, None, 1)
        await other.log.append(plain_batch(5, writer_id=7, sequence=0), Acks.ALL)
        await other.log.append(plain_batch(5, writer_id=8, sequence=0), Acks.ALL)
        await server.buckets.get(table, None, 0)
        await server.log_maintenance.maintain()
        inventory = await collector_of(light_world, server.buckets).take()
        local = [path.stat().st_size for path in (tmp_path / "logs").rglob("*.log")]
        remote = [len(await logs.storage.get(Key(key))) for key in await logs.keys() if key.endswith(".log")]
        assert len(local) > 2
        assert len(remote) > 1
        assert (inventory.segments, inventory.log_bytes) == (len(local), sum(local))
        assert (inventory.remote_segments, inventory.remote_bytes) == (len(remote), sum(remote))
        assert inventory.writers == 2
        (count,) = inventory.by_table
        assert (count.log_bytes, count.remote_bytes) == (sum(local), sum(remote))


async def test_flush_durations_are_reported_once(light_world: StreamWorld, logs: LogOpener, tmp_path: Path) -> None:
    table = await light_world.table(bucket_count=1)
    memory = RocksMemory(8 << 20, 8 << 20)
    collector = collector_of(light_world, [], flushes={"log": logs.logs.flushes, "keys": memory.flushes})
    await write_log(light_world, logs, table)
    index = RocksIndex(tmp_path / "index", memory)
    index.apply({b"k": b"\1\0v"}, 1, 1)
    index.flush()
    reported = (await collector.take()).flush_seconds
    assert len(reported["keys"]) == 1
    assert reported["log"]
    assert min(*reported["log"], *reported["keys"]) > 0
    assert (await collector.take()).flush_seconds == {"log": [], "keys": []}
    index.close()


async def test_offline_buckets_are_counted(light_world: StreamWorld, logs: LogOpener) -> None:
    table = await light_world.table(bucket_count=3)
    await claim_tail(logs.rows, TableBucket(table.id, None, 2), "another")
    async with running_server(light_world, logs) as server:
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


# -- the lake ----------------------------------------------------------------------------------------------------------


async def test_lake_freshness_and_lag_of_a_table(light_world: StreamWorld, logs: LogOpener) -> None:
    world = light_world
    lake = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 min"}
    table = await world.table(properties=lake)
    async with running_server(world, logs) as server:
        collector = collector_of(world, server.buckets)

        async def lake_stats() -> LakeTableStats:
            found = (await collector.take()).by_table[0].lake
            assert found is not None
            return found

        log = (await server.buckets.get(table, None, 0)).log
        await log.append(plain_batch(4), Acks.ALL)
        # A table that waits for its first tiering is reported too.
        world.clock.advance(5)
        await world.lake.waiting()
        world.clock.advance(2)
        assert await lake_stats() == LakeTableStats(60_000, waits_ms=2_000)
        given = await world.lake.next_table(world.root)
        assert given is not None
        began_ms = world.clock.now_ms()
        world.clock.advance(3)
        prepared = await world.lake.prepare(world.root, table.id, {(None, 0): 4})
        await world.lake.commit(world.root, table.id, 1, prepared)
        ended = TieringReport(table.id, world.leader_epoch, given[1], TieringStats(1234, 4))
        await world.lake.report(world.root, finished=[ended])
        reported = LakeTableStats(
            60_000, tiered_ms=began_ms, age_ms=3_000, lag_ms=0, took_ms=3_000, file_bytes=1234, records=4
        )
        assert await lake_stats() == reported
        assert reported.is_fresh
        world.clock.advance(4)
        await log.append(plain_batch(2), Acks.ALL)
        world.clock.advance(60)
        late = await lake_stats()
        assert (late.age_ms, late.lag_ms, late.waits_ms) == (67_000, 7_000, 7_000)
        assert not late.is_fresh
        given = await world.lake.next_table(world.root)
        assert given is not None
        await world.lake.report(world.root, failed=[TieringReport(table.id, world.leader_epoch, given[1])])
        assert (await lake_stats()).failures == 1


# -- KV indexes and snapshots ------------------------------------------------------------------------------------------


async def test_kv_sizes_count_files_and_shared_files_once(light_world: StreamWorld, tmp_path: Path) -> None:
    world = light_world
    table = await world.table(key=["id"])
    plain = await world.table("plain")
    for name, size in (("0/a.sst", 10), ("0/CURRENT", 3), ("1/b.sst", 7)):
        path = tmp_path / str(table.id) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (tmp_path / str(plain.id)).mkdir()
    (tmp_path / str(plain.id) / "stray").write_bytes(b"not a KV table")
    snapshots = KvSnapshots(world.store, world.clock)
    bucket_id = TableBucket(table.id, None, 0)

    async def fence(tx: Transaction) -> None:
        """Every caller is the leader."""

    async def snapshot(number: int, *files: tuple[str, int]) -> None:
        parts = tuple(SnapshotFile(name, f"keys/{name}", size) for name, size in files)
        await snapshots.add(KvSnapshot(bucket_id, number, number, None, "lineage", parts), fence)

    await snapshot(1, ("shared", 100), ("one", 1))
    await snapshot(2, ("shared", 100), ("two", 2))
    collector = collector_of(world, [], tmp_path)
    inventory = await collector.take()
    assert inventory.kv == KvSizes({table.id: 20}, snapshots=2, snapshot_bytes=103)
    assert [(each.table, each.index_bytes) for each in inventory.by_table] == [("fluss.orders", 20), ("fluss.plain", 0)]
    # Measuring visits every file, so the next measurement is later.
    await snapshot(3, ("shared", 100), ("three", 3))
    assert (await collector.take()).kv.snapshot_bytes == 103
    world.clock.advance(60)
    assert (await collector.take()).kv == KvSizes({table.id: 20}, snapshots=2, snapshot_bytes=105)


# -- traffic -----------------------------------------------------------------------------------------------------------


async def test_traffic_is_reported_once(light_world: StreamWorld) -> None:
    table = await light_world.table()
    traffic = Traffic()
    collector = collector_of(light_world, [], traffic=traffic)
    traffic.record_write(table.id, "PRODUCE_LOG", 100, 5)
    traffic.record_read(table.id, "FETCH_LOG", 30, 2)
    traffic.record_read(table.id, "FETCH_LOG", 30, 2)
    traffic.record_failure(table.id, "FETCH_LOG")
    traffic.record_failure(None, "PUT_KV", 3)
    inventory = await collector.take()
    traffic_of_table = inventory.traffic[table.id]
    assert (
        traffic_of_table.bytes_in,
        traffic_of_table.records_in,
        traffic_of_table.bytes_out,
        traffic_of_table.records_out,
    ) == (100, 5, 60, 4)
    assert (traffic_of_table.answered, traffic_of_table.failed) == (
        {"PRODUCE_LOG": 1, "FETCH_LOG": 2},
        {"FETCH_LOG": 1},
    )
    assert inventory.traffic[None].failed == {"PUT_KV": 3}
    assert inventory.uploads == UploadCounts()
    assert (await collector.take()).traffic == {}
