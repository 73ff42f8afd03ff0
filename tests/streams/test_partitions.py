"""Partitions: found by id or by name, and not at all once they were dropped."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.partitions import StreamPartitions

from .slow_reads import SlowReads
from .world import StreamWorld

MISSING = r"Table partition 'fluss\.orders\(p=EU\)' does not exist\."


async def test_a_dropped_partition_is_unknown_by_its_id_and_missing_by_its_name(light_world: StreamWorld) -> None:
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


async def test_a_partition_that_is_made_again_has_another_id(light_world: StreamWorld) -> None:
    table = await light_world.table(partition_key=["name"])
    ids = []
    for _ in range(2):
        await light_world.partitions.add(light_world.root, table, "EU")
        ids.append((await light_world.partitions.by_name(table, "EU")).id)
        await light_world.partitions.remove(light_world.root, table, "EU")
    assert ids[0] < ids[1]


@pytest.mark.parametrize("dropped", ["partition", "table"])
async def test_a_partition_that_is_dropped_while_it_is_looked_up_is_not_remembered(
    light_world: StreamWorld, dropped: str
) -> None:
    world, reads = light_world, SlowReads(light_world.store)
    partitions = StreamPartitions(reads, world.outbox, world.clock, world.authorizer, world.tables, world.configs)

    async def forget(table_id: int) -> None:
        partitions.forget_table(table_id)

    world.tables.on_dropped(forget)
    table = await world.table(partition_key=["name"])
    await partitions.add(world.root, table, "EU")
    partition = await partitions.by_name(table, "EU")
    reads.is_held = True
    looking = asyncio.create_task(partitions.by_id(partition.id))
    await reads.has_read.wait()
    if dropped == "partition":
        await partitions.remove(world.root, table, "EU")
    else:
        await world.tables.drop(world.root, *table.path)
    reads.may_return.set()
    for found in (looking, partitions.by_id(partition.id)):
        with pytest.raises(FlussError) as raised:
            await found
        assert raised.value.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET


async def test_dropped_names_are_remembered_as_long_as_writers(world: StreamWorld) -> None:
    table = await world.table(partition_key=["name"])

    async def make_again(name: str) -> int | None:
        await world.partitions.add(world.root, table, name)
        return (await world.partitions.by_name(table, name)).predecessor_dropped_ms

    assert await make_again("EU") is None
    await world.partitions.remove(world.root, table, "EU")
    assert await make_again("EU") == world.clock.now_ms()
    assert await make_again("US") is None
    await world.partitions.remove(world.root, table, "EU")
    world.clock.advance(8 * 24 * 3600)
    await world.partitions.remove(world.root, table, "US")  # drops forget what is too long ago
    assert await make_again("EU") is None
