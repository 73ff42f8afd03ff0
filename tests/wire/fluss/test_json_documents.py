"""JSON in calls of stream clients is read within bounds, and only for callers with the permission."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.core.errors import AccessDenied
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.calls import AnyCall, Call
from lakebed.wire.fluss.handlers.altering import altering_calls
from lakebed.wire.fluss.handlers.databases import database_calls
from lakebed.wire.fluss.handlers.tables import table_calls
from tests.streams.world import StreamWorld

Calls = dict[str, Call[Any]]
ORDERS = pb.TablePath(database_name="fluss", table_name="orders")
SCHEMA = {"columns": [{"name": "id", "data_type": {"type": "INTEGER"}, "id": 0}], "highest_field_id": 0}


@pytest.fixture
def calls(light_world: StreamWorld) -> Calls:
    world = light_world
    made: list[AnyCall] = [
        *table_calls(world.tables),
        *database_calls(world.databases),
        *altering_calls(world.altering),
    ]
    return {call.name: call for call in made if isinstance(call, Call)}


def nested(depth: int) -> Iterator[str]:
    for opening, closing in (("[", "]"), ('{"type":', "}"), ('{"element_type":', "}")):
        yield opening * depth + "1" + closing * depth
        yield f'{{"type":"ARRAY","nullable":{opening * depth}1{closing * depth}}}'


async def refusal(world: StreamWorld, call: Call[Any], request: object) -> ErrorCode:
    with pytest.raises(FlussError) as caught:
        await call.answer(world.root, request)
    return caught.value.code


@pytest.mark.parametrize("depth", [250, 299, 500, 900, 100_000])
async def test_deep_documents_are_refused_with_the_reason(light_world: StreamWorld, calls: Calls, depth: int) -> None:
    await light_world.table()
    fresh = pb.TablePath(database_name="fluss", table_name="fresh")
    for deep in nested(depth):
        table = json.dumps({"schema": SCHEMA | {"columns": 0}}).replace("0", f'[{{"name":"a","data_type":{deep}}}]', 1)
        for text in (deep, table):
            asked = pb.CreateTableRequest(table_path=fresh, table_json=text.encode(), ignore_if_exists=False)
            assert await refusal(light_world, calls["CREATE_TABLE"], asked) is ErrorCode.INVALID_TABLE
        column = pb.AddColumn(column_name="a", data_type_json=deep.encode())
        alter = pb.AlterTableRequest(table_path=ORDERS, add_columns=[column], ignore_if_not_exists=False)
        assert await refusal(light_world, calls["ALTER_TABLE"], alter) is ErrorCode.INVALID_ALTER_TABLE
        options = f'{{"custom_properties":{{"a":{deep}}}}}'
        database = pb.CreateDatabaseRequest(database_name="d", database_json=options.encode(), ignore_if_exists=False)
        assert await refusal(light_world, calls["CREATE_DATABASE"], database) is ErrorCode.INVALID_DATABASE


@pytest.mark.parametrize("text", [b"{", b'"\xff"', b"[" * 300, b"[" + b"0," * 100_000 + b"0]"])
async def test_what_is_no_json_or_too_large_is_refused_with_the_reason(
    light_world: StreamWorld, calls: Calls, text: bytes
) -> None:
    await light_world.table()
    fresh = pb.TablePath(database_name="fluss", table_name="fresh")
    create = pb.CreateTableRequest(table_path=fresh, table_json=text, ignore_if_exists=False)
    assert await refusal(light_world, calls["CREATE_TABLE"], create) is ErrorCode.INVALID_TABLE
    column = pb.AddColumn(column_name="a", data_type_json=text)
    alter = pb.AlterTableRequest(table_path=ORDERS, add_columns=[column], ignore_if_not_exists=False)
    assert await refusal(light_world, calls["ALTER_TABLE"], alter) is ErrorCode.INVALID_ALTER_TABLE


async def test_a_type_of_64_levels_is_read(light_world: StreamWorld, calls: Calls) -> None:
    written: dict[str, object] = {"type": "INTEGER"}
    for _ in range(64):
        written = {"type": "ROW", "fields": [{"name": "a", "field_type": written}]}
    schema = {"columns": [{"name": "id", "data_type": written, "id": 0}]}
    document = json.dumps({"schema": schema, "bucket_count": 1}).encode()
    asked = pb.CreateTableRequest(table_path=ORDERS, table_json=document, ignore_if_exists=False)
    await calls["CREATE_TABLE"].answer(light_world.root, asked)
    assert (await light_world.tables.by_path("fluss", "orders")).schema.names == ("id",)


async def test_documents_are_not_read_without_the_permission(light_world: StreamWorld, calls: Calls) -> None:
    await light_world.table()
    nobody = await light_world.caller(await light_world.user("nobody"))
    garbage = b"\xff<<<"
    fresh = pb.TablePath(database_name="fluss", table_name="fresh")
    column = pb.AddColumn(column_name="a", data_type_json=garbage)
    for name, asked in (
        ("CREATE_TABLE", pb.CreateTableRequest(table_path=fresh, table_json=garbage, ignore_if_exists=False)),
        ("CREATE_DATABASE", pb.CreateDatabaseRequest(database_name="d", database_json=garbage, ignore_if_exists=False)),
        ("ALTER_TABLE", pb.AlterTableRequest(table_path=ORDERS, add_columns=[column], ignore_if_not_exists=False)),
    ):
        with pytest.raises(AccessDenied):
            await calls[name].answer(nobody, asked)
