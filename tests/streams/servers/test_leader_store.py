"""Tables are changed by the home of streams alone, and remembered by it alone."""

from __future__ import annotations

import pytest

from lakebed.core.errors import Fenced
from lakebed.fluss.errors import FlussError
from lakebed.meta.seam import Transaction
from lakebed.streams.servers.leader_store import LeaderStore
from tests.streams.world import StreamWorld


async def test_who_is_not_the_home_reads_and_changes_nothing(light_world: StreamWorld) -> None:
    is_leader = True

    async def fence(tx: Transaction) -> int:
        if not is_leader:
            raise Fenced("not the home")
        return 1

    store = LeaderStore(light_world.store, fence)

    async def work(tx: Transaction) -> int:
        return await tx.run("UPDATE stream_tables SET modified_ms = 5")

    await light_world.table()
    assert await store.transact(work) == 1
    is_leader = False
    with pytest.raises(Fenced):
        await store.transact(work)
    assert await store.row("SELECT modified_ms FROM stream_tables") == (5,)
    assert await store.rows("SELECT modified_ms FROM stream_tables") == [(5,)]


async def test_who_is_not_the_home_looks_tables_up_each_time(light_world: StreamWorld) -> None:
    is_leader = True
    light_world.tables.cache_while(lambda: is_leader)
    light_world.partitions.cache_while(lambda: is_leader)
    table = await light_world.table(partition_key=["name"])
    await light_world.partitions.add(light_world.root, table, "EU")
    partition = await light_world.partitions.by_name(table, "EU")
    await light_world.partitions.by_id(partition.id)

    async def drop(tx: Transaction) -> None:
        """As another server does it: nobody here is told."""
        await tx.run("DELETE FROM stream_partitions")
        await tx.run("DELETE FROM stream_schemas")
        await tx.run("DELETE FROM stream_tables")

    await light_world.store.transact(drop)
    assert await light_world.tables.by_id(table.id) is table
    assert await light_world.partitions.by_id(partition.id) == partition
    is_leader = False
    for looked_up in (
        light_world.tables.by_id(table.id),
        light_world.tables.by_path(*table.path),
        light_world.partitions.by_id(partition.id),
    ):
        with pytest.raises(FlussError):
            await looked_up
