from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakebed.streams.schema_evolution import AlterConfigOp, OptionChange
from tests.streams.world import StreamWorld

AUTO = {"table.auto-partition.enabled": "true", "table.auto-partition.num-retention": "2"}


async def names(world: StreamWorld, table: str = "orders") -> list[str]:
    found = await world.partitions.of(await world.tables.by_path("fluss", table))
    return sorted(partition.name for partition in found)


def day(world: StreamWorld, ahead: int) -> str:
    moment = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(days=ahead)
    return f"{moment:%Y%m%d}"


async def test_partitions_are_created_ahead_and_expired(world: StreamWorld) -> None:
    world.tables.on_changed(world.auto_partitions.changed)
    await world.table(partition_key=["name"], properties=AUTO)
    await world.table("plain", partition_key=["name"])
    first = day(world, 0)
    assert await names(world) == [first, day(world, 1)]
    await world.partitions.create(world.root, "fluss", "orders", {"name": "byhand"})
    world.clock.advance(3 * 86_400)
    await world.auto_partitions.round()
    await world.auto_partitions.round()
    # Partitions created ahead expire like others; days without a round are not created afterwards.
    assert await names(world) == [day(world, -2), day(world, 0), day(world, 1), "byhand"]
    assert await names(world, "plain") == []
    assert first in {event.partition for _, event in await world.events("StreamPartitionDropped")}


async def test_changed_retention_takes_effect_at_once(light_world: StreamWorld) -> None:
    world = light_world
    world.tables.on_changed(world.auto_partitions.changed)
    await world.table(partition_key=["name"], properties=AUTO)
    world.clock.advance(2 * 86_400)
    await world.auto_partitions.round()
    assert len(await names(world)) == 4
    change = OptionChange("table.auto-partition.num-retention", AlterConfigOp.SET, "0")
    await world.altering.table(world.root, "fluss", "orders", changes=[change])
    assert await names(world) == [day(world, 0), day(world, 1)]


async def test_table_at_the_partition_limit_does_not_block_other_tables(light_world: StreamWorld) -> None:
    world = light_world
    await world.configs.alter(world.root, [OptionChange("max.partition.num", AlterConfigOp.SET, "1")])
    world.tables.on_changed(world.auto_partitions.changed)
    await world.table("first", partition_key=["name"], properties=AUTO)
    await world.table("second", partition_key=["name"], properties=AUTO)
    assert await names(world, "first") == await names(world, "second") == [day(world, 0)]
    await world.auto_partitions.round()
    assert await names(world, "second") == [day(world, 0)]


async def test_with_several_partition_keys_the_time_key_decides(light_world: StreamWorld) -> None:
    world = light_world
    options = AUTO | {"table.auto-partition.key": "name"}
    await world.table(partition_key=["id", "name"], properties=options)
    for spec in ({"id": "1", "name": "20200101"}, {"id": "2", "name": "20200101"}, {"id": "1", "name": day(world, 0)}):
        await world.partitions.create(world.root, "fluss", "orders", spec)
    await world.auto_partitions.round()
    assert await names(world) == [f"1${day(world, 0)}"]
