"""JSON documents in calls are parsed within limits, and only for callers with the permission."""

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
    calls: list[AnyCall] = [
        *table_calls(world.tables),
        *database_calls(world.databases),
        *altering_calls(world.altering),
    ]
    return {call.name: call for call in calls if isinstance(call, Call)}


def nested(depth: int) -> Iterator[str]:
    for opening, closing in (("[", "]"), ('{"type":', "}"), ('{"element_type":', "}")):
        yield opening * depth + "1" + closing * depth
        yield f'{{"type":"ARRAY","nullable":{opening * depth}1{closing * depth}}}'


async def refusal(world: StreamWorld, call: Call[Any], request: object) -> ErrorCode:
    with pytest.raises(FlussError) as caught:
        await call.handle(world.root, request)
    return caught.value.code


@pytest.mark.parametrize("depth", [250, 299, 500, 900, 100_000])
async def test_deeply_nested_documents_are_refused_as_invalid(
    light_world: StreamWorld, calls: Calls, depth: int
) -> None:
    await light_world.table()
    fresh = pb.TablePath(database_name="fluss", table_name="fresh")
    for deep in nested(depth):
        table = json.dumps({"schema": SCHEMA | {"columns": 0}}).replace("0", f'[{{"name":"a","data_type":{deep}}}]', 1)
        for text in (deep, table):
            create = pb.CreateTableRequest(table_path=fresh, table_json=text.encode(), ignore_if_exists=False)
            assert await refusal(light_world, calls["CREATE_TABLE"], create) is ErrorCode.INVALID_TABLE
        column = pb.AddColumn(column_name="a", data_type_json=deep.encode())
        alter = pb.AlterTableRequest(table_path=ORDERS, add_columns=[column], ignore_if_not_exists=False)
        assert await refusal(light_world, calls["ALTER_TABLE"], alter) is ErrorCode.INVALID_ALTER_TABLE
        options = f'{{"custom_properties":{{"a":{deep}}}}}'
        database = pb.CreateDatabaseRequest(database_name="d", database_json=options.encode(), ignore_if_exists=False)
        assert await refusal(light_world, calls["CREATE_DATABASE"], database) is ErrorCode.INVALID_DATABASE


@pytest.mark.parametrize("text", [b"{", b'"\xff"', b"[" * 300, b"[" + b"0," * 100_000 + b"0]"])
async def test_invalid_and_too_large_documents_are_refused_as_invalid(
    light_world: StreamWorld, calls: Calls, text: bytes
) -> None:
    await light_world.table()
    fresh = pb.TablePath(database_name="fluss", table_name="fresh")
    create = pb.CreateTableRequest(table_path=fresh, table_json=text, ignore_if_exists=False)
    assert await refusal(light_world, calls["CREATE_TABLE"], create) is ErrorCode.INVALID_TABLE
    column = pb.AddColumn(column_name="a", data_type_json=text)
    alter = pb.AlterTableRequest(table_path=ORDERS, add_columns=[column], ignore_if_not_exists=False)
    assert await refusal(light_world, calls["ALTER_TABLE"], alter) is ErrorCode.INVALID_ALTER_TABLE


async def test_types_nested_64_levels_are_accepted(light_world: StreamWorld, calls: Calls) -> None:
    nested_type: dict[str, object] = {"type": "INTEGER"}
    for _ in range(64):
        nested_type = {"type": "ROW", "fields": [{"name": "a", "field_type": nested_type}]}
    schema = {"columns": [{"name": "id", "data_type": nested_type, "id": 0}]}
    document = json.dumps({"schema": schema, "bucket_count": 1}).encode()
    request = pb.CreateTableRequest(table_path=ORDERS, table_json=document, ignore_if_exists=False)
    await calls["CREATE_TABLE"].handle(light_world.root, request)
    assert (await light_world.tables.by_path("fluss", "orders")).schema.names == ("id",)


async def test_documents_are_not_parsed_without_the_permission(light_world: StreamWorld, calls: Calls) -> None:
    await light_world.table()
    unprivileged = await light_world.caller(await light_world.user("unprivileged"))
    garbage = b"\xff<<<"
    fresh = pb.TablePath(database_name="fluss", table_name="fresh")
    column = pb.AddColumn(column_name="a", data_type_json=garbage)
    for name, request in (
        ("CREATE_TABLE", pb.CreateTableRequest(table_path=fresh, table_json=garbage, ignore_if_exists=False)),
        ("CREATE_DATABASE", pb.CreateDatabaseRequest(database_name="d", database_json=garbage, ignore_if_exists=False)),
        ("ALTER_TABLE", pb.AlterTableRequest(table_path=ORDERS, add_columns=[column], ignore_if_not_exists=False)),
    ):
        with pytest.raises(AccessDenied):
            await calls[name].handle(unprivileged, request)
