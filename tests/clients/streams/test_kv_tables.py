"""KV tables, written and read with pyfluss."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pyarrow
import pytest
from pyroaring import BitMap

import fluss
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import messages, number, text, write_fields
from lakebed.core.secrets import Secret
from tests.clients.streams.serving import StreamServer, error_code, make_table, read_records
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = pytest.mark.integration


def changes(records: list[Any]) -> list[tuple[str, dict[str, object]]]:
    """Each change as its change type and row."""
    return [(record.change_type.short_string(), record.row) for record in records]


def row(number: int, name: str | None = "n", score: float | None = 1.0) -> dict[str, object]:
    """A row of the usual columns."""
    return {"id": number, "name": name, "score": score}


async def test_lookup_returns_the_latest_row_of_a_key(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"], bucket_count=3)
    assert table.has_primary_key()
    async with table.new_upsert().create_writer() as writer:
        for number in range(300):
            writer.upsert(row(number, f"n{number}"))
    writer = table.new_upsert().create_writer()
    await writer.upsert(row(7, "again")).wait()
    await writer.delete({"id": 8}).wait()
    lookuper = table.new_lookup().create_lookuper()
    assert await lookuper.lookup({"id": 7}) == row(7, "again")
    assert await lookuper.lookup([9]) == row(9, "n9")
    assert await lookuper.lookup({"id": 8}) is None
    assert await lookuper.lookup({"id": 1000}) is None


async def test_changelog_has_every_change_of_each_key(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    writer = table.new_upsert().create_writer()
    for step in (row(1, "a"), row(1, "b"), row(2, "c")):
        writer.upsert(step)
        await writer.flush()
    writer.delete({"id": 1})
    await writer.flush()
    writer.upsert(row(1, "d"))
    await writer.flush()
    found = await read_records(table, 6)
    assert changes(found) == [
        ("+I", row(1, "a")),
        ("-U", row(1, "a")),
        ("+U", row(1, "b")),
        ("+I", row(2, "c")),
        ("-D", row(1, "b")),
        ("+I", row(1, "d")),
    ]
    assert [record.offset for record in found] == list(range(6))


async def test_changelog_may_be_projected(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    async with table.new_upsert().create_writer() as writer:
        writer.upsert(row(1, "a", 5.0))
    found = await read_records(table, 1, project=["id", "score"])
    assert changes(found) == [("+I", {"id": 1, "score": 5.0})]


async def test_partial_update_keeps_other_columns(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    async with table.new_upsert().create_writer() as writer:
        writer.upsert(row(1, "kept", 1.0))
    async with table.new_upsert().partial_update_by_name(["id", "score"]).create_writer() as writer:
        writer.upsert({"id": 1, "score": 2.0})
        writer.upsert({"id": 2, "score": 3.0})
    async with table.new_upsert().partial_update_by_index([0, 1]).create_writer() as writer:
        writer.upsert({"id": 2, "name": "later"})
    lookuper = table.new_lookup().create_lookuper()
    assert await lookuper.lookup({"id": 1}) == row(1, "kept", 2.0)
    assert await lookuper.lookup({"id": 2}) == row(2, "later", 3.0)


async def test_prefix_lookup_returns_all_keys_with_the_prefix(connection: Any, table_path: Any) -> None:
    schema = pyarrow.schema([("user", pyarrow.int32()), ("order", pyarrow.int64()), ("what", pyarrow.string())])
    table = await make_table(
        connection, table_path, schema, primary_key=["user", "order"], bucket_keys=["user"], bucket_count=3
    )
    async with table.new_upsert().create_writer() as writer:
        for user in range(10):
            for order in range(user):
                writer.upsert({"user": user, "order": order, "what": f"{user}-{order}"})
    lookuper = table.new_lookup().lookup_by(["user"]).create_lookuper()
    assert [each["what"] for each in await lookuper.lookup({"user": 4})] == ["4-0", "4-1", "4-2", "4-3"]
    assert await lookuper.lookup([0]) == []


async def test_limit_scan_returns_rows_of_a_bucket(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    async with table.new_upsert().create_writer() as writer:
        for number in range(50):
            writer.upsert(row(number))
    bucket = fluss.TableBucket(table.get_table_info().table_id, 0)
    found = await table.new_scan().limit(20).create_bucket_batch_scanner(bucket).to_arrow()
    assert found.num_rows == 20
    assert len(set(found.column("id").to_pylist())) == 20
    everything = await table.new_scan().limit(1000).create_bucket_batch_scanner(bucket).to_arrow()
    assert sorted(everything.column("id").to_pylist()) == list(range(50))


async def test_first_row_merge_engine_keeps_the_first_row(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"], properties={"table.merge-engine": "first_row"})
    for name in ("first", "second"):
        async with table.new_upsert().create_writer() as writer:
            writer.upsert(row(1, name))
    assert await table.new_lookup().create_lookuper().lookup({"id": 1}) == row(1, "first")


async def test_versioned_merge_engine_keeps_the_greatest_version(connection: Any, table_path: Any) -> None:
    schema = pyarrow.schema([("id", pyarrow.int32()), ("version", pyarrow.int64())])
    table = await make_table(
        connection,
        table_path,
        schema,
        primary_key=["id"],
        properties={"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "version"},
    )
    for version in (2, 1, 3, 3, 0):
        async with table.new_upsert().create_writer() as writer:
            writer.upsert({"id": 1, "version": version})
    assert await table.new_lookup().create_lookuper().lookup({"id": 1}) == {"id": 1, "version": 3}


async def test_deletes_are_refused_if_the_table_is_configured_so(connection: Any, table_path: Any) -> None:
    table = await make_table(
        connection, table_path, primary_key=["id"], properties={"table.delete.behavior": "disable"}
    )
    writer = table.new_upsert().create_writer()
    writer.upsert(row(1))
    await writer.flush()
    with pytest.raises(fluss.FlussError) as raised:
        await writer.delete({"id": 1}).wait()
    assert error_code(raised) == 57
    assert await table.new_lookup().create_lookuper().lookup({"id": 1}) == row(1)


async def test_server_assigns_auto_increment_values(connection: Any, table_path: Any) -> None:
    schema = pyarrow.schema([("name", pyarrow.string()), ("number", pyarrow.int64())])
    table = await make_table(connection, table_path, schema, primary_key=["name"], auto_increment="number")
    async with table.new_upsert().partial_update_by_name(["name"]).create_writer() as writer:
        for name in ("a", "b", "c"):
            writer.upsert({"name": name})
    lookuper = table.new_lookup().create_lookuper()
    numbers = [(await lookuper.lookup({"name": name}))["number"] for name in ("a", "b", "c")]
    assert sorted(numbers) == [1, 2, 3]


async def test_partitions_have_separate_keys(connection: Any, admin: Any, table_path: Any) -> None:
    schema = pyarrow.schema([("id", pyarrow.int32()), ("region", pyarrow.string()), ("v", pyarrow.int32())])
    table = await make_table(
        connection, table_path, schema, primary_key=["id", "region"], partition_keys=["region"], bucket_count=2
    )
    for region in ("EU", "US"):
        await admin.create_partition(table_path, {"region": region})
    async with table.new_upsert().create_writer() as writer:
        for number in range(10):
            writer.upsert({"id": number, "region": "EU", "v": number})
            writer.upsert({"id": number, "region": "US", "v": -number})
    lookuper = table.new_lookup().create_lookuper()
    assert await lookuper.lookup({"id": 3, "region": "EU"}) == {"id": 3, "region": "EU", "v": 3}
    assert await lookuper.lookup({"id": 3, "region": "US"}) == {"id": 3, "region": "US", "v": -3}


async def test_lookup_in_a_log_table_is_refused(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    with pytest.raises(fluss.FlussError):
        table.new_lookup().create_lookuper()
    with pytest.raises(fluss.FlussError):
        table.new_upsert().create_writer()


async def test_value_outside_of_its_type_is_an_error_and_the_changelog_stays_readable(
    connection: Any, table_path: Any
) -> None:
    schema = pyarrow.schema([("id", pyarrow.int32()), ("code", pyarrow.binary(4))])
    table = await make_table(connection, table_path, schema, primary_key=["id"])
    writer = table.new_upsert().create_writer()
    with pytest.raises(fluss.FlussError, match="column=1") as raised:
        # Within a timeout: the client must not retry forever.
        await asyncio.wait_for(writer.upsert({"id": 1, "code": b"12345"}).wait(), 20)
    assert error_code(raised) == 35
    async with table.new_upsert().create_writer() as other:
        other.upsert({"id": 2, "code": b"1234"})
    assert changes(await read_records(table, 1)) == [("+I", {"id": 2, "code": b"1234"})]


async def test_bitmap_aggregation_merges_bitmaps(streams: StreamServer, connection: Any, table_path: Any) -> None:
    columns = [
        {"name": "id", "data_type": {"type": "INTEGER", "nullable": False}},
        {"name": "seen", "data_type": {"type": "BYTES"}, "agg_function": {"type": "rbm32", "parameters": {}}},
    ]
    document = {
        "schema": {"version": 1, "columns": columns, "primary_key": ["id"]},
        "bucket_count": 1,
        "properties": {"table.merge-engine": "aggregation"},
    }
    path = write_fields({1: table_path.database_name, 2: table_path.table_name})
    # pyfluss has no API for aggregations.
    raw = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))
    await asyncio.to_thread(raw.call, 1005, write_fields({1: path, 2: json.dumps(document), 3: 0}))
    raw.close()
    table = await connection.get_table(table_path)
    for seen in ([1, 2], [2, 3_000_000_000], range(100, 200)):
        async with table.new_upsert().create_writer() as writer:
            writer.upsert({"id": 1, "seen": BitMap(seen).serialize()})
    found = await table.new_lookup().create_lookuper().lookup({"id": 1})
    assert set(BitMap.deserialize(found["seen"])) == {1, 2, 3_000_000_000, *range(100, 200)}
    with pytest.raises(fluss.FlussError, match="invalid RoaringBitmap") as raised:
        await asyncio.wait_for(table.new_upsert().create_writer().upsert({"id": 2, "seen": b"bad"}).wait(), 20)
    assert error_code(raised) == 35
    assert await table.new_lookup().create_lookuper().lookup({"id": 2}) is None


@pytest.mark.parametrize(
    ("lake", "key"), [("iceberg", "0700000000000000"), ("paimon", "00000000000000000700000000000000"), ("lance", "07")]
)
async def test_lookup_or_insert_works_with_lake_key_encoding(
    streams: StreamServer, connection: Any, table_path: Any, lake: str, key: str
) -> None:
    schema = pyarrow.schema([("id", pyarrow.int32()), ("number", pyarrow.int64())])
    properties = {"table.datalake.format": lake}
    table = await make_table(
        connection, table_path, schema, primary_key=["id"], auto_increment="number", properties=properties
    )
    # pyfluss has no API for it; the row is looked up with pyfluss.
    lookup = write_fields({2: 0, 3: bytes.fromhex(key)})
    raw = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))
    message = write_fields({1: table.get_table_info().table_id, 2: lookup, 3: 1, 4: -1, 5: 30_000})
    answer = await asyncio.to_thread(raw.call, 1017, message)
    raw.close()
    (bucket,) = messages(answer, 1)
    assert number(bucket, 3) == 0, text(bucket, 4)
    assert await table.new_lookup().create_lookuper().lookup({"id": 7}) == {"id": 7, "number": 1}
