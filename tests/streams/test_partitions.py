"""Lookup of partitions by id and by name, also after they are dropped."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.partitions import StreamPartitions

from .slow_reads import SlowReads
from .world import StreamWorld

MISSING = r"Table partition 'fluss\.orders\(p=EU\)' does not exist\."


async def test_dropped_partition_is_unknown_by_id_and_does_not_exist_by_name(light_world: StreamWorld) -> None:
    table = await light_world.table(partition_key=["name"])
    partitions = light_world.partitions
    await partitions.add(light_world.root, table, "EU")
    partition = await partitions.by_name(table, "EU")
    assert await partitions.by_id(partition.id) == partition
    await partitions.drop(light_world.root, *table.path, {"name": "EU"})
    with pytest.raises(FlussError) as raised:
        await partitions.by_id(partition.id)
    assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    with pytest.raises(FlussError, match=MISSING) as raised:
        await partitions.by_name(table, "EU")
    assert raised.value.code is ErrorCode.PARTITION_NOT_EXISTS
    with pytest.raises(FlussError, match=MISSING) as raised:
        await partitions.drop(light_world.root, *table.path, {"name": "EU"})
    assert raised.value.code is ErrorCode.PARTITION_NOT_EXISTS
    await partitions.drop(light_world.root, *table.path, {"name": "EU"}, ignore_if_not_exists=True)


async def test_recreated_partition_has_a_greater_id(light_world: StreamWorld) -> None:
    table = await light_world.table(partition_key=["name"])
    ids = []
    for _ in range(2):
        await light_world.partitions.add(light_world.root, table, "EU")
        ids.append((await light_world.partitions.by_name(table, "EU")).id)
        await light_world.partitions.remove(light_world.root, table, "EU")
    assert ids[0] < ids[1]


@pytest.mark.parametrize("dropped", ["partition", "table"])
async def test_partition_dropped_during_its_lookup_is_not_cached(light_world: StreamWorld, dropped: str) -> None:
    world, reads = light_world, SlowReads(light_world.store)
    partitions = StreamPartitions(reads, world.outbox, world.clock, world.authorizer, world.tables, world.configs)

    async def forget(table_id: int) -> None:
        partitions.forget_table(table_id)

    world.tables.on_dropped(forget)
    table = await world.table(partition_key=["name"])
    await partitions.add(world.root, table, "EU")
    partition = await partitions.by_name(table, "EU")
    reads.is_held = True
    lookup = asyncio.create_task(partitions.by_id(partition.id))
    await reads.has_read.wait()
    if dropped == "partition":
        await partitions.remove(world.root, table, "EU")
    else:
        await world.tables.drop(world.root, *table.path)
    reads.may_return.set()
    for late in (lookup, partitions.by_id(partition.id)):
        with pytest.raises(FlussError) as raised:
            await late
        assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET


async def test_names_of_dropped_partitions_are_kept_as_long_as_writer_states(world: StreamWorld) -> None:
    table = await world.table(partition_key=["name"])

    async def recreate(name: str) -> int | None:
        await world.partitions.add(world.root, table, name)
        return (await world.partitions.by_name(table, name)).predecessor_dropped_ms

    assert await recreate("EU") is None
    await world.partitions.remove(world.root, table, "EU")
    assert await recreate("EU") == world.clock.now_ms()
    assert await recreate("US") is None
    await world.partitions.remove(world.root, table, "EU")
    world.clock.advance(8 * 24 * 3600)
    await world.partitions.remove(world.root, table, "US")  # a drop deletes expired names
    assert await recreate("EU") is None
