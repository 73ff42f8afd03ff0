"""Administration of databases, tables, partitions and offsets with pyfluss."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

import fluss
from tests.clients.streams.serving import ROWS, StreamServer, error_code, make_table

pytestmark = pytest.mark.integration


async def test_databases_are_created_listed_and_dropped(admin: Any, database: str) -> None:
    name = f"{database}_more"
    described = fluss.DatabaseDescriptor(comment="orders", custom_properties={"team": "sales"})
    await admin.create_database(name, described)
    assert {name, database, "fluss"} <= set(await admin.list_databases())
    info = await admin.get_database_info(name)
    assert info.database_name == name
    assert info.get_database_descriptor().comment == "orders"
    assert info.get_database_descriptor().get_custom_properties() == {"team": "sales"}
    assert info.created_time == info.modified_time > 1_700_000_000_000
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_database(name)
    assert error_code(raised) == 6
    await admin.create_database(name, ignore_if_exists=True)
    await admin.drop_database(name)
    assert not await admin.database_exists(name)
    with pytest.raises(fluss.FlussError) as raised:
        await admin.drop_database(name)
    assert error_code(raised) == 4
    await admin.drop_database(name, ignore_if_not_exists=True)


async def test_database_with_tables_is_dropped_only_with_cascade(connection: Any, admin: Any, database: str) -> None:
    path = fluss.TablePath(database, "kept")
    await make_table(connection, path)
    with pytest.raises(fluss.FlussError) as raised:
        await admin.drop_database(database, cascade=False)
    assert error_code(raised) == 5
    await admin.drop_database(database, cascade=True)
    assert not await admin.table_exists(path)


@pytest.mark.parametrize("name", ["", "with space", "__hidden", "a" * 201, "dotted.name", "ünicode"])
async def test_invalid_names_are_refused(admin: Any, database: str, name: str) -> None:
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_database(name)
    assert error_code(raised) == 16
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_table(fluss.TablePath(database, name), fluss.TableDescriptor(fluss.Schema(ROWS)))
    assert error_code(raised) == 15


async def test_tables_are_created_listed_described_and_dropped(connection: Any, admin: Any, table_path: Any) -> None:
    schema = fluss.Schema(ROWS, primary_keys=["id"])
    descriptor = fluss.TableDescriptor(
        schema,
        bucket_count=3,
        comment="people",
        properties={"table.log.ttl": "2 d"},
        custom_properties={"owner": "us"},
    )
    await admin.create_table(table_path, descriptor)
    assert await admin.table_exists(table_path)
    assert await admin.list_tables(table_path.database_name) == [table_path.table_name]
    info = await admin.get_table_info(table_path)
    assert (info.table_path, info.schema_id, info.num_buckets, info.comment) == (table_path, 1, 3, "people")
    assert info.get_primary_keys() == ["id"]
    assert info.get_bucket_keys() == ["id"]
    assert info.get_column_names() == ["id", "name", "score"]
    assert info.get_properties()["table.log.ttl"] == "2 d"
    assert info.get_properties()["table.replication.factor"] == "1"
    assert info.get_custom_properties() == {"owner": "us"}
    assert info.has_primary_key()
    assert not info.is_partitioned()
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_table(table_path, descriptor)
    assert error_code(raised) == 8
    await admin.create_table(table_path, descriptor, ignore_if_exists=True)
    await admin.drop_table(table_path)
    assert not await admin.table_exists(table_path)
    for call in (admin.get_table_info(table_path), admin.drop_table(table_path), connection.get_table(table_path)):
        with pytest.raises(fluss.FlussError) as raised:
            await call
        assert error_code(raised) == 7
    await admin.drop_table(table_path, ignore_if_not_exists=True)


async def test_table_requires_an_existing_database(admin: Any) -> None:
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_table(fluss.TablePath("nowhere", "t"), fluss.TableDescriptor(fluss.Schema(ROWS)))
    assert error_code(raised) == 4


@pytest.mark.parametrize(
    ("described", "code"),
    [
        ({"properties": {"table.no-such-option": "1"}}, 39),
        ({"properties": {"unknown": "1"}}, 39),
        ({"properties": {"table.log.ttl": "soon"}}, 39),
        ({"properties": {"table.merge-engine": "first_row"}}, 15),
        ({"properties": {"table.replication.factor": "3"}}, 17),
        ({"bucket_count": 4097}, 49),
        ({"bucket_keys": ["nothing"]}, 15),
    ],
)
async def test_invalid_tables_are_refused(admin: Any, table_path: Any, described: dict[str, Any], code: int) -> None:
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_table(table_path, fluss.TableDescriptor(fluss.Schema(ROWS), **described))
    assert error_code(raised) == code
    assert not await admin.table_exists(table_path)


@pytest.mark.parametrize("reserved", ["__offset", "__bucket", "_change_type"])
async def test_system_columns_are_reserved(admin: Any, table_path: Any, reserved: str) -> None:
    schema = fluss.Schema(pyarrow.schema([("id", pyarrow.int32()), (reserved, pyarrow.int32())]))
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_table(table_path, fluss.TableDescriptor(schema))
    assert error_code(raised) == 15


async def test_server_is_coordinator_and_tablet_server(admin: Any, streams: StreamServer) -> None:
    nodes = await admin.get_server_nodes()
    assert {node.server_type for node in nodes} == {"CoordinatorServer", "TabletServer"}
    assert {(node.host, node.port) for node in nodes} == {("127.0.0.1", streams.port)}


async def test_partitions_are_created_listed_and_dropped(connection: Any, admin: Any, table_path: Any) -> None:
    schema = pyarrow.schema([("id", pyarrow.int32()), ("region", pyarrow.string()), ("day", pyarrow.string())])
    table = await make_table(connection, table_path, schema, partition_keys=["region", "day"], bucket_count=2)
    assert table.get_table_info().get_partition_keys() == ["region", "day"]
    for region in ("EU", "US"):
        await admin.create_partition(table_path, {"region": region, "day": "1"})
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_partition(table_path, {"region": "EU", "day": "1"})
    assert error_code(raised) == 42
    await admin.create_partition(table_path, {"region": "EU", "day": "1"}, ignore_if_exists=True)
    found = await admin.list_partition_infos(table_path)
    assert [each.partition_name for each in found] == ["EU$1", "US$1"]
    assert [each.partition_name for each in await admin.list_partition_infos(table_path, {"region": "US"})] == ["US$1"]
    await admin.drop_partition(table_path, {"region": "EU", "day": "1"})
    assert [each.partition_name for each in await admin.list_partition_infos(table_path)] == ["US$1"]
    with pytest.raises(fluss.FlussError) as raised:
        await admin.drop_partition(table_path, {"region": "EU", "day": "1"})
    assert error_code(raised) == 36
    await admin.drop_partition(table_path, {"region": "EU", "day": "1"}, ignore_if_not_exists=True)
    for spec in ({"region": "EU"}, {"region": "EU", "day": "1", "more": "2"}, {"region": "a$b", "day": "1"}):
        with pytest.raises(fluss.FlussError) as raised:
            await admin.create_partition(table_path, spec)
        assert error_code(raised) == 43


async def test_a_table_without_partitions_has_none(connection: Any, admin: Any, table_path: Any) -> None:
    await make_table(connection, table_path)
    with pytest.raises(fluss.FlussError) as raised:
        await admin.create_partition(table_path, {"region": "EU"})
    assert error_code(raised) == 37


async def test_offsets_are_listed(connection: Any, admin: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, bucket_count=2)
    writer = table.new_append().create_writer()
    for number in range(7):
        writer.append({"id": number, "name": "n", "score": 0.0})
    await writer.flush()
    earliest = await admin.list_offsets(table_path, [0, 1], fluss.OffsetSpec.earliest())
    latest = await admin.list_offsets(table_path, [0, 1], fluss.OffsetSpec.latest())
    assert earliest == {0: 0, 1: 0}
    assert sum(latest.values()) == 7
    assert await admin.list_offsets(table_path, [0, 1], fluss.OffsetSpec.timestamp(0)) == earliest
    with pytest.raises(fluss.FlussError) as raised:
        await admin.list_offsets(table_path, [0], fluss.OffsetSpec.timestamp(2**50))
    assert error_code(raised) == 38
