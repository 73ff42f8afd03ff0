"""Clients keep working while partitions that they use are dropped and created again.

Limitations of the clients are tested, too; they are the same with Fluss (ADR 47).
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest
import pytest_asyncio

import fluss
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import write_fields
from lakebed.core.secrets import Secret
from tests.clients.streams.dropping import Client, Refused, pyfluss_client, rust_client
from tests.clients.streams.serving import StreamServer, make_table
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = pytest.mark.integration

CLIENTS = {"pyfluss": pyfluss_client, "rust": rust_client}
ROWS = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("region", pa.string(), nullable=False)])
UNKNOWN_WRITER = "first batch sequence of a writer is not 0"


@pytest_asyncio.fixture(params=["pyfluss", pytest.param("rust", marks=pytest.mark.heavy)])
async def client(request: pytest.FixtureRequest, streams: StreamServer) -> AsyncIterator[Client]:
    """Each of the clients."""
    async with CLIENTS[request.param](streams) as made:
        yield made


async def make_partitioned(
    connection: Any, path: Any, *regions: str, has_primary_key: bool = False, **described: Any
) -> None:
    """Create a table with these partitions."""
    keys = ["id", "region"] if has_primary_key else None
    await make_table(connection, path, ROWS, primary_key=keys, partition_keys=["region"], bucket_count=1, **described)
    for region in regions:
        await connection.get_admin().create_partition(path, {"region": region})


async def partition_id(admin: Any, path: Any, region: str) -> int:
    (found,) = await admin.list_partition_infos(path, {"region": region})
    return int(found.partition_id)


async def recreate(admin: Any, path: Any, region: str) -> None:
    """Drop a partition and create another one of the same name, with another id."""
    await admin.drop_partition(path, {"region": region})
    await admin.create_partition(path, {"region": region})


async def read(client: Client, table: str, *wanted: int) -> None:
    """Poll until all of these ids are read. A failing poll fails the test."""
    left = set(wanted)
    for _ in range(60):
        left -= set(await client.poll(table))
        if not left:
            return
    raise AssertionError(f"rows did not arrive. ids={left}")


async def write_eight_rows(write: Callable[[int], Awaitable[None]]) -> list[int]:
    """Write eight rows; the ids of the acknowledged ones.

    The first may fail: its batch sequence is of the dropped partition.
    """
    refused: dict[int, str] = {}
    for id_ in range(10, 18):
        try:
            await write(id_)
        except Refused as failure:
            refused[id_] = str(failure)
    assert set(refused) <= {10}
    assert all(UNKNOWN_WRITER in words for words in refused.values())
    return [id_ for id_ in range(10, 18) if id_ not in refused]


@pytest.mark.parametrize("has_read", [True, False])
async def test_scanner_continues_with_one_partition_when_the_other_is_dropped(
    connection: Any, admin: Any, table_path: Any, database: str, client: Client, has_read: bool
) -> None:
    await make_partitioned(connection, table_path, "EU", "US")
    table = f"{database}.t"
    for region in ("EU", "US"):
        await client.subscribe(table, await partition_id(admin, table_path, region))
    await client.append(table, 1, "EU")
    await client.append(table, 2, "US")
    if has_read:
        await read(client, table, 1, 2)
    await admin.drop_partition(table_path, {"region": "EU"})
    for id_ in range(10, 16):
        await client.append(table, id_, "US")
        await read(client, table, id_)
    assert await client.poll(table) == []
    await admin.create_partition(table_path, {"region": "EU"})
    await client.subscribe(table, await partition_id(admin, table_path, "EU"))
    await client.append(table, 20, "EU")
    await client.append(table, 21, "US")
    await read(client, table, 20, 21)


@pytest.mark.parametrize("has_read", [True, False])
async def test_scanner_continues_when_retention_drops_a_partition(
    streams: StreamServer, connection: Any, admin: Any, table_path: Any, database: str, client: Client, has_read: bool
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    today, old = (f"{now - datetime.timedelta(days=days):%Y%m%d}" for days in (0, 3))
    options = {"enabled": "true", "time-unit": "DAY", "time-zone": "UTC", "num-retention": "7"}
    properties = {f"table.auto-partition.{key}": value for key, value in options.items()}
    await make_partitioned(connection, table_path, old, properties=properties)
    table = f"{database}.t"
    for day in (old, today):
        await client.subscribe(table, await partition_id(admin, table_path, day))
    await client.append(table, 1, old)
    await client.append(table, 2, today)
    if has_read:
        await read(client, table, 1, 2)

    def keep_two_days() -> None:
        raw = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))
        change = write_fields({1: "table.auto-partition.num-retention", 2: "2", 3: 0})
        raw.call(1044, write_fields({1: write_fields({1: database, 2: "t"}), 2: False, 3: change}))
        raw.close()

    await asyncio.to_thread(keep_two_days)
    assert await admin.list_partition_infos(table_path, {"region": old}) == []
    for id_ in range(10, 14):
        await client.append(table, id_, today)
        await read(client, table, id_)


@pytest.mark.parametrize("written_before", [0, 1, 3])
async def test_writer_continues_when_its_partition_is_recreated(
    streams: StreamServer,
    connection: Any,
    admin: Any,
    table_path: Any,
    database: str,
    client: Client,
    written_before: int,
) -> None:
    await make_partitioned(connection, table_path, "EU")
    table = f"{database}.t"
    for id_ in range(written_before):
        await client.append(table, id_, "EU")
    await recreate(admin, table_path, "EU")
    acknowledged = await write_eight_rows(lambda id_: client.append(table, id_, "EU"))
    async with pyfluss_client(streams) as other:
        await other.subscribe(table, await partition_id(admin, table_path, "EU"))
        found: list[int] = []
        while len(found) < len(acknowledged):
            found += await other.poll(table)
        assert found == acknowledged


@pytest.mark.parametrize("written_before", [0, 1, 3])
async def test_kv_writes_and_lookups_continue_when_the_partition_is_recreated(
    connection: Any, admin: Any, table_path: Any, database: str, client: Client, written_before: int
) -> None:
    await make_partitioned(connection, table_path, "EU", has_primary_key=True)
    table = f"{database}.t"
    for id_ in range(written_before):
        await client.upsert(table, id_, "EU")
        assert await client.lookup(table, id_, "EU") == id_
    await recreate(admin, table_path, "EU")
    acknowledged = await write_eight_rows(lambda id_: client.upsert(table, id_, "EU"))
    found = [await client.lookup(table, id_, "EU") for id_ in (*range(written_before), *range(10, 18))]
    assert [id_ for id_ in found if id_ is not None] == acknowledged


@pytest.mark.heavy
async def test_rust_lookuper_uses_the_dropped_partition_until_it_reconnects(
    streams: StreamServer, connection: Any, admin: Any, table_path: Any, database: str
) -> None:
    """It retries without refreshing the metadata, by default forever. This program limits the retries."""
    await make_partitioned(connection, table_path, "EU", has_primary_key=True)
    table = f"{database}.t"
    async with pyfluss_client(streams) as writer, rust_client(streams) as reader:
        await writer.upsert(table, 1, "EU")
        assert await reader.lookup(table, 1, "EU") == 1
        await recreate(admin, table_path, "EU")
        with pytest.raises(Refused, match="unknown partition"):
            await reader.lookup(table, 1, "EU")
        await write_eight_rows(lambda id_: writer.upsert(table, id_, "EU"))
        with pytest.raises(Refused, match="unknown partition"):
            await reader.lookup(table, 17, "EU")
    async with rust_client(streams) as reader:
        assert await reader.lookup(table, 17, "EU") == 17


async def test_absent_partition_has_the_error_message_of_fluss(
    connection: Any, admin: Any, table_path: Any, database: str
) -> None:
    await make_partitioned(connection, table_path)
    with pytest.raises(fluss.FlussError) as raised:
        await admin.drop_partition(table_path, {"region": "EU"})
    assert raised.value.error_code == 36
    assert f"Table partition '{database}.t(p=EU)' does not exist." in str(raised.value)
