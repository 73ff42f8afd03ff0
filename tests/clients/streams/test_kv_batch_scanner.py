"""Lakebed's batch scanner of KV tables over the protocol; rows are written with pyfluss."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

import fluss
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import number, text, write_fields
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError
from tests.clients.streams.serving import ROWS, StreamServer, make_table
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = pytest.mark.integration

SCAN_KV = 1061


def client(streams: StreamServer, secret: str = ROOT_SECRET_KEY) -> StreamClient:
    return StreamClient(streams.address, ROOT_ACCESS_KEY, secret)


def scanned(streams: StreamServer, path: Any, **others: Any) -> list[pa.RecordBatch]:
    with client(streams) as known, known.scan_kv(path.database_name, path.table_name, **others) as scan:
        return list(scan)


async def write(table: Any, numbers: range) -> None:
    async with table.new_upsert().create_writer() as writer:
        for number_ in numbers:
            writer.upsert({"id": number_, "name": f"n{number_}", "score": number_ / 2})


async def test_every_row_of_all_buckets_is_returned_once(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path, primary_key=["id"], bucket_count=3)
    await write(table, range(2000))
    await write(table, range(0, 2000, 7))
    batches = await asyncio.to_thread(scanned, streams, table_path, scanner_kv_fetch_max_bytes=4096)
    assert len(batches) > 6
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert len(rows) == 2000
    assert sorted(row["id"] for row in rows) == list(range(2000))
    assert all(row["name"] == f"n{row['id']}" and row["score"] == row["id"] / 2 for row in rows)


async def test_scan_applies_columns_buckets_and_limit(streams: StreamServer, connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"], bucket_count=2)
    await write(table, range(100))
    batches = await asyncio.to_thread(scanned, streams, table_path, columns=["score"], buckets=[1], limit=5)
    assert [batch.num_rows for batch in batches] == [5]
    assert batches[0].schema.names == ["score"]


async def test_an_empty_table_has_no_rows(streams: StreamServer, connection: Any, table_path: Any) -> None:
    await make_table(connection, table_path, primary_key=["id"])
    assert await asyncio.to_thread(scanned, streams, table_path) == []


async def test_one_partition_is_scanned(streams: StreamServer, connection: Any, table_path: Any) -> None:
    schema = pa.schema([("day", pa.string()), ("id", pa.int32()), ("name", pa.string())])
    table = await make_table(
        connection, table_path, schema, primary_key=["day", "id"], partition_keys=["day"], bucket_count=1
    )
    admin = connection.get_admin()
    for day in ("mon", "tue"):
        await admin.create_partition(table_path, {"day": day})
    async with table.new_upsert().create_writer() as writer:
        for number_ in range(10):
            writer.upsert({"day": "mon" if number_ % 2 else "tue", "id": number_, "name": "x"})
    batches = await asyncio.to_thread(scanned, streams, table_path, partition="mon")
    assert [row["id"] for batch in batches for row in batch.to_pylist()] == [1, 3, 5, 7, 9]
    for wrong in (None, "wed"):
        with pytest.raises(FlussError) as failed:
            await asyncio.to_thread(scanned, streams, table_path, partition=wrong)
        assert failed.value.code is ErrorCode.PARTITION_NOT_EXISTS


async def test_log_tables_and_absent_tables_are_refused(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    with pytest.raises(FlussError) as failed:
        await asyncio.to_thread(scanned, streams, table_path)
    assert failed.value.code is ErrorCode.TABLE_NOT_EXIST
    await make_table(connection, table_path)
    with pytest.raises(FlussError) as failed:
        await asyncio.to_thread(scanned, streams, table_path)
    assert failed.value.code is ErrorCode.NON_PRIMARY_KEY_TABLE


async def test_a_wrong_secret_is_refused(streams: StreamServer) -> None:
    with pytest.raises(FlussError) as failed:
        await asyncio.to_thread(lambda: client(streams, "wrong").scan_kv("fluss", "t"))
    assert failed.value.code is ErrorCode.AUTHENTICATE


async def test_scan_is_a_consistent_snapshot(streams: StreamServer, connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    await write(table, range(500))
    known = client(streams)
    scan = known.scan_kv(table_path.database_name, table_path.table_name, scanner_kv_fetch_max_bytes=1000)
    first = await asyncio.to_thread(scan.next_batch)
    writer = table.new_upsert().create_writer()
    for number_ in range(500):
        writer.delete({"id": number_})
    await writer.flush()
    rest = await asyncio.to_thread(lambda: list(scan))
    assert first is not None
    assert first.num_rows + sum(batch.num_rows for batch in rest) == 500
    assert scan.log_offsets == {0: 500}
    assert await asyncio.to_thread(scanned, streams, table_path) == []
    known.close()


async def test_scan_calls_follow_the_protocol(streams: StreamServer, connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    await write(table, range(500))
    table_id = table.get_table_info().table_id
    raw = await asyncio.to_thread(StreamConnection, "127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))

    def scan(**fields: Any) -> Any:
        names = {"id": 1, "bucket": 2, "seq": 3, "size": 4, "close": 5}
        return raw.call(SCAN_KV, write_fields({names[name]: value for name, value in fields.items()}))

    def codes() -> list[int]:
        bucket = write_fields({1: table_id, 3: 0})
        opened = scan(bucket=bucket, seq=0, size=500)
        id_ = text(opened, 3)
        found = [number(opened, 1), number(scan(id=id_, seq=1, size=500), 1), number(scan(id=id_, seq=1, size=500), 1)]
        found.append(number(scan(id=id_, seq=2, size=500), 1))
        found.append(number(scan(bucket=bucket, seq=0), 1))
        found.append(number(scan(bucket=write_fields({1: table_id, 3: 9}), seq=0, size=1), 1))
        found.append(number(scan(id=b"unknown", close=True), 1))
        open_ = [text(scan(bucket=bucket, seq=0, size=500), 3) for _ in range(8)]
        found.append(number(scan(bucket=bucket, seq=0, size=500), 1))
        for each in open_:
            scan(id=each, close=True)
        return found

    assert await asyncio.to_thread(codes) == [0, 0, 68, 67, 68, 21, 0, 69]
    raw.close()


async def test_rows_of_older_schemas_have_null_in_later_columns(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path, ROWS, primary_key=["id"])
    await write(table, range(3))

    def grow() -> None:
        raw = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))
        path = write_fields({1: table_path.database_name, 2: table_path.table_name})
        column = write_fields({1: "later", 2: b'{"type":"STRING"}', 4: 0})
        raw.call(1044, write_fields({1: path, 2: False, 4: column}))
        raw.close()

    await asyncio.to_thread(grow)
    later = await connection.get_table(fluss.TablePath(table_path.database_name, table_path.table_name))
    writer = later.new_upsert().create_writer()
    await writer.upsert({"id": 1, "name": "again", "score": 0.0, "later": "here"}).wait()
    rows = [row for batch in await asyncio.to_thread(scanned, streams, table_path) for row in batch.to_pylist()]
    assert [row["later"] for row in rows] == [None, "here", None]
