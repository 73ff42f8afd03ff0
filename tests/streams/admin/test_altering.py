from __future__ import annotations

import json

import pytest

from lakebed.core.errors import AccessDenied
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.table_options import milliseconds
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.schema_evolution import AddColumn, AlterConfigOp, OptionChange
from lakebed.streams.table import StreamTable
from tests.streams.world import StreamWorld

AGE = AddColumn("age", DataType(TypeRoot.INT))


async def test_added_column_creates_a_new_schema(world: StreamWorld) -> None:
    before = await world.table()
    seen: list[StreamTable] = []

    async def changed(table: StreamTable) -> None:
        seen.append(table)

    world.tables.on_changed(changed)
    world.clock.advance(1)
    await world.altering.table(world.root, "fluss", "orders", [AGE])
    after = await world.tables.by_path("fluss", "orders")
    assert (before.schema_id, after.schema_id) == (1, 2)
    assert after.schema.names == ("id", "name", "age")
    assert after.schema.columns[2].id == 2
    assert await world.tables.schema(after, 1) == before.schema
    assert after.modified_ms == before.modified_ms + 1000
    assert seen == [after]
    assert [event.schema_id for _, event in await world.events("StreamTableAltered")] == [2]


async def test_alteration_without_effect_emits_no_event(world: StreamWorld) -> None:
    await world.table()
    await world.altering.table(world.root, "fluss", "orders", [AGE])
    await world.altering.table(world.root, "fluss", "orders", [AGE])
    await world.altering.table(world.root, "fluss", "orders", changes=[OptionChange("mine", AlterConfigOp.DELETE)])
    assert len(await world.events("StreamTableAltered")) == 1


async def test_options_change_without_a_new_schema(world: StreamWorld) -> None:
    await world.table()
    changes = [OptionChange("table.log.ttl", AlterConfigOp.SET, "1 d"), OptionChange("mine", AlterConfigOp.SET, "x")]
    await world.altering.table(world.root, "fluss", "orders", changes=changes)
    table = await world.tables.by_path("fluss", "orders")
    assert table.schema_id == 1
    assert milliseconds(table.definition.options["table.log.ttl"]) == 86_400_000
    assert table.definition.custom_options == {"mine": "x"}


async def test_alteration_is_atomic(world: StreamWorld) -> None:
    before = await world.table()
    bad = OptionChange("table.log.format", AlterConfigOp.SET, "INDEXED")
    with pytest.raises(FlussError) as caught:
        await world.altering.table(world.root, "fluss", "orders", [AGE], [bad])
    assert caught.value.code is ErrorCode.INVALID_ALTER_TABLE
    assert await world.tables.find(world.store, "fluss", "orders") == before


async def test_missing_tables_and_databases_can_be_ignored(light_world: StreamWorld) -> None:
    world = light_world
    with pytest.raises(FlussError) as caught:
        await world.altering.table(world.root, "fluss", "nothing", [AGE])
    assert caught.value.code is ErrorCode.TABLE_NOT_EXIST
    await world.altering.table(world.root, "fluss", "nothing", [AGE], ignore_if_not_exists=True)
    with pytest.raises(FlussError) as caught:
        await world.altering.database(world.root, "nothing")
    assert caught.value.code is ErrorCode.DATABASE_NOT_EXIST
    await world.altering.database(world.root, "nothing", ignore_if_not_exists=True)


async def test_databases_are_altered(world: StreamWorld) -> None:
    await world.databases.create(world.root, "sales", b'{"version":1,"comment":"old","custom_properties":{"a":"1"}}')
    changes = [OptionChange("a", AlterConfigOp.DELETE), OptionChange("b", AlterConfigOp.SET, "2")]
    await world.altering.database(world.root, "sales", changes)
    found = await world.databases.get(world.root, "sales")
    assert (found.comment, dict(found.custom_options)) == ("old", {"b": "2"})
    await world.altering.database(world.root, "sales", comment="new")
    await world.altering.database(world.root, "sales", comment="new")
    assert json.loads((await world.databases.get(world.root, "sales")).document)["comment"] == "new"
    assert len(await world.events("StreamDatabaseAltered")) == 2


async def test_altering_requires_permission(light_world: StreamWorld) -> None:
    world = light_world
    await world.table()
    caller = await world.caller(await world.user("alice"))
    with pytest.raises(AccessDenied):
        await world.altering.table(caller, "fluss", "orders", [AGE])
    with pytest.raises(AccessDenied):
        await world.altering.database(caller, "fluss", comment="mine")
