"""The table cache is never older than the last change of a table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.table import StreamTable
from lakebed.streams.tables import StreamTables

from .slow_reads import SlowReads
from .world import StreamWorld

LOOKUPS: dict[str, Callable[[StreamTables, StreamTable], Awaitable[StreamTable]]] = {
    "id": lambda tables, table: tables.by_id(table.id),
    "path": lambda tables, table: tables.by_path(*table.path),
}
REASONS = {"id": ErrorCode.UNKNOWN_TABLE_OR_BUCKET, "path": ErrorCode.TABLE_NOT_EXIST}


@pytest.mark.parametrize("by", LOOKUPS)
async def test_table_dropped_during_its_lookup_is_not_cached(light_world: StreamWorld, by: str) -> None:
    world, reads = light_world, SlowReads(light_world.store)
    tables = StreamTables(reads, world.outbox, world.clock, world.authorizer, world.configs)
    table = await world.table()
    reads.is_held = True
    lookup = asyncio.ensure_future(LOOKUPS[by](tables, table))
    await reads.has_read.wait()
    await tables.drop(world.root, *table.path)
    reads.may_return.set()
    for late in (lookup, LOOKUPS[by](tables, table)):
        with pytest.raises(FlussError) as raised:
            await late
        assert raised.value.code is REASONS[by]
