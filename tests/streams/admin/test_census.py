from __future__ import annotations

import pytest

from lakebed.streams.admin import census as census_module
from lakebed.streams.admin.census import Census, CensusTaker, TableCount
from lakebed.streams.buckets import OpenBucket
from lakebed.streams.keys.snapshots import KeySnapshots
from lakebed.streams.seam import TableBucket
from lakebed.streams.table import StreamTable
from tests.streams.world import StreamWorld


class Log:
    """As much of a log as is counted."""

    def __init__(self, start: int, end: int) -> None:
        self.start_offset, self.stable_offset = start, end


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
    snapshots = KeySnapshots(world.store, world.clock)
    await snapshots.lease("mine", 1000, [])
    opened = [bucket(plain, 0, 10, 30), bucket(tiered, 0, 50, 100), bucket(tiered, 1, 5, 9)]
    census = await CensusTaker(world.tables, world.partitions, opened, world.lake, snapshots).take()
    assert census == Census(
        tables=4,
        keyed_tables=1,
        partitions=2,
        buckets=4 + 2 + 1 + 6,
        open_buckets=3,
        records=20 + 50 + 4,
        lake_tables={"tiering": 1},
        lake_failures=0,
        pending_records=40 + 4,
        leases=1,
        leased_snapshots=0,
        by_table=[
            TableCount("fluss.plain", readable=20, written=30, pending=0),
            TableCount("fluss.tiered", readable=54, written=109, pending=44),
            TableCount("fluss.keyed", readable=0, written=0, pending=0),
            TableCount("fluss.parts", readable=0, written=0, pending=0),
        ],
    )


async def test_not_more_tables_are_counted_one_by_one_than_are_told_of(
    light_world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(census_module, "TABLES", 2)
    opened = [bucket(await light_world.table(f"t{number}"), 0, 0, 5) for number in range(3)]
    snapshots = KeySnapshots(light_world.store, light_world.clock)
    taker = CensusTaker(light_world.tables, light_world.partitions, opened, light_world.lake, snapshots)
    census = await taker.take()
    assert [each.table for each in census.by_table] == ["fluss.t0", "fluss.t1"]
    assert (census.tables, census.records) == (3, 15)


def bucket(table: StreamTable, number: int, start: int, end: int) -> OpenBucket:
    return OpenBucket(TableBucket(table.id, None, number), Log(start, end))  # type: ignore[arg-type]  # what is not counted is not there
