"""Error codes of every call for a dropped partition or table.

Clients treat error 21 (UNKNOWN_TABLE_OR_BUCKET) as stale metadata: they refresh it and continue. Error 36
(PARTITION_NOT_EXIST) fails their operation, so only metadata requests return it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pytest
import pytest_asyncio

import fluss
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import Fields, messages, number, text, write_fields
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.log_batches import write_batch
from tests.clients.streams.serving import StreamServer, make_table
from tests.contracts.stream_log import arrow_body
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY
from tests.server.running_processes import wait_until

pytestmark = pytest.mark.integration

UNKNOWN_TABLE_OR_BUCKET: Final = 21
ROWS: Final = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("region", pa.string(), nullable=False)])
LOG, KEYED = "log", "keyed"
SCANNER_EXPIRED: Final = 66
FETCH_WAIT_MS: Final = 50


@dataclass(frozen=True)
class Target:
    """A bucket of a partition, as calls identify it by ids."""

    table_id: int
    partition_id: int

    def fields(self, *, table: int, partition: int, bucket: int) -> dict[int, int]:
        """The three ids under the field numbers of a message."""
        return {table: self.table_id, partition: self.partition_id, bucket: 0}


def dial(streams: StreamServer) -> StreamConnection:
    return StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))


@pytest.fixture
def wire(streams: StreamServer) -> Iterator[StreamConnection]:
    """A connection for hand-built calls."""
    made = dial(streams)
    yield made
    made.close()


@pytest_asyncio.fixture
async def tables(connection: Any, database: str) -> AsyncIterator[dict[str, Any]]:
    """A log table and a KV table, partitioned by region, each with the partitions EU and US."""
    made = {}
    for name, keys in ((LOG, None), (KEYED, ["id", "region"])):
        path = fluss.TablePath(database, name)
        made[name] = await make_table(
            connection, path, ROWS, primary_key=keys, partition_keys=["region"], bucket_count=1
        )
        for region in ("EU", "US"):
            await connection.get_admin().create_partition(path, {"region": region})
    yield made


async def partition_id(admin: Any, path: Any, region: str) -> int:
    (found,) = await admin.list_partition_infos(path, {"region": region})
    return int(found.partition_id)


async def target(admin: Any, table: Any, region: str = "EU") -> Target:
    return Target(table.get_table_info().table_id, await partition_id(admin, table.get_table_info().table_path, region))


def bucket_code(answer: Fields, code: int) -> int:
    """The error code of the single bucket of a response."""
    (bucket,) = messages(answer, 1)
    return number(bucket, code)


def produce(wire: StreamConnection, to: Target) -> int:
    row = pa.record_batch([pa.array([1], pa.int32()), pa.array(["EU"])], schema=ROWS)
    part = write_fields({1: to.partition_id, 2: 0, 3: write_batch(arrow_body(row), 1, schema_id=1)})
    return bucket_code(wire.call(1014, write_fields({1: -1, 2: to.table_id, 3: 30_000, 4: part})), 3)


def fetch(wire: StreamConnection, to: Target, wait_ms: int = FETCH_WAIT_MS) -> int:
    part = write_fields({1: to.partition_id, 2: 0, 3: 0, 4: 1 << 20})
    request = write_fields({1: to.table_id, 2: False, 4: part})
    answer = wire.call(1015, write_fields({1: -1, 2: 1 << 20, 3: request, 4: wait_ms, 5: 1}))
    (table,) = messages(answer, 1)
    return number(next(messages(table, 2)), 3)


def put(wire: StreamConnection, to: Target) -> int:
    batch = write_kv_batch([(b"\1", b"\0\1\2EU")], 1, -1, -1)
    part = write_fields({1: to.partition_id, 2: 0, 3: batch})
    return bucket_code(wire.call(1016, write_fields({1: -1, 2: to.table_id, 3: 30_000, 5: part})), 3)


def lookup(wire: StreamConnection, to: Target) -> int:
    part = write_fields({1: to.partition_id, 2: 0, 3: b"\1"})
    return bucket_code(wire.call(1017, write_fields({1: to.table_id, 2: part})), 3)


def lookup_or_insert(wire: StreamConnection, to: Target) -> int:
    part = write_fields({1: to.partition_id, 2: 0, 3: b"\1"})
    return bucket_code(wire.call(1017, write_fields({1: to.table_id, 2: part, 3: True, 4: -1, 5: 30_000})), 3)


def list_offsets(wire: StreamConnection, to: Target) -> int:
    return bucket_code(wire.call(1021, write_fields({1: -1, 2: 1, 3: to.table_id, 4: to.partition_id, 5: 0})), 2)


def limit_scan(wire: StreamConnection, to: Target) -> int:
    return number(wire.call(1033, write_fields(to.fields(table=2, partition=3, bucket=4) | {5: 10})), 1)


def prefix_lookup(wire: StreamConnection, to: Target) -> int:
    part = write_fields({1: to.partition_id, 2: 0, 3: b"\1"})
    return bucket_code(wire.call(1034, write_fields({1: to.table_id, 2: part})), 3)


def table_stats(wire: StreamConnection, to: Target) -> int:
    part = write_fields({1: to.partition_id, 2: 0})
    return bucket_code(wire.call(1059, write_fields({1: to.table_id, 2: part})), 1)


def open_scan(wire: StreamConnection, to: Target) -> int:
    opened = write_fields(to.fields(table=1, partition=2, bucket=3))
    return number(wire.call(1061, write_fields({2: opened, 3: 0, 4: 1 << 20})), 1)


CALLS_BY_ID: Final[dict[str, tuple[str, Callable[[StreamConnection, Target], int]]]] = {
    "produce": (LOG, produce),
    "fetch": (LOG, fetch),
    "fetch a changelog": (KEYED, fetch),
    "put": (KEYED, put),
    "lookup": (KEYED, lookup),
    "lookup or insert": (KEYED, lookup_or_insert),
    "offsets": (LOG, list_offsets),
    "limit scan of a log": (LOG, limit_scan),
    "limit scan of a KV table": (KEYED, limit_scan),
    "prefix lookup": (KEYED, prefix_lookup),
    "stats": (KEYED, table_stats),
    "KV scan": (KEYED, open_scan),
}


@pytest.mark.parametrize(("name", "call"), CALLS_BY_ID.values(), ids=CALLS_BY_ID.keys())
@pytest.mark.parametrize("was_open", [True, False], ids=["open before", "never opened"])
async def test_calls_with_the_id_of_a_dropped_partition_return_21(
    admin: Any,
    wire: StreamConnection,
    tables: dict[str, Any],
    name: str,
    call: Callable[[StreamConnection, Target], int],
    was_open: bool,
) -> None:
    table = tables[name]
    removed, left = await target(admin, table, "EU"), await target(admin, table, "US")
    if was_open:
        assert await asyncio.to_thread(list_offsets, wire, removed) == 0
    await admin.drop_partition(table.get_table_info().table_path, {"region": "EU"})
    assert await asyncio.to_thread(call, wire, removed) == UNKNOWN_TABLE_OR_BUCKET
    assert await asyncio.to_thread(list_offsets, wire, left) == 0


@pytest.mark.parametrize(("name", "call"), CALLS_BY_ID.values(), ids=CALLS_BY_ID.keys())
async def test_calls_with_the_id_of_a_dropped_table_return_21(
    admin: Any,
    wire: StreamConnection,
    tables: dict[str, Any],
    name: str,
    call: Callable[[StreamConnection, Target], int],
) -> None:
    table = tables[name]
    removed = await target(admin, table)
    assert await asyncio.to_thread(list_offsets, wire, removed) == 0
    await admin.drop_table(table.get_table_info().table_path)

    def code() -> int:
        try:
            return call(wire, removed)
        except FlussError as failure:  # an error of the whole call
            return {ErrorCode.UNKNOWN_TABLE_OR_BUCKET: UNKNOWN_TABLE_OR_BUCKET}[failure.code]

    assert await asyncio.to_thread(code) == UNKNOWN_TABLE_OR_BUCKET


def by_name(database: str, table: str, partition: str) -> bytes:
    """A metadata request for a partition by name."""
    return write_fields({2: write_fields({1: database, 2: table, 3: partition})})


async def test_requests_by_the_name_of_a_dropped_partition_return_36_with_the_message_of_fluss(
    admin: Any, wire: StreamConnection, tables: dict[str, Any], database: str
) -> None:
    await admin.drop_partition(tables[KEYED].get_table_info().table_path, {"region": "EU"})
    path = write_fields({1: database, 2: KEYED})
    spec = write_fields({1: write_fields({1: "region", 2: "EU"})})
    lookups = {
        1012: by_name(database, KEYED, "EU"),  # GET_METADATA
        1023: write_fields({1: path, 2: "EU"}),  # GET_LATEST_KV_SNAPSHOTS
        1037: write_fields({1: path, 2: spec, 3: False}),  # DROP_PARTITION
    }
    for key, message in lookups.items():
        with pytest.raises(FlussError) as raised:
            await asyncio.to_thread(wire.call, key, message)
        assert raised.value.code is ErrorCode.PARTITION_NOT_EXISTS
        assert str(raised.value) == f"Table partition '{database}.{KEYED}(p=EU)' does not exist."


@pytest.mark.parametrize("dropped", ["partition", "table"])
async def test_metadata_of_a_dropped_partition_by_id_returns_36(
    admin: Any, wire: StreamConnection, tables: dict[str, Any], dropped: str
) -> None:
    """Scanners of all clients continue after 36. After 21, the Java and Rust clients drop the server."""
    path = tables[LOG].get_table_info().table_path
    removed = await target(admin, tables[LOG])
    (found,) = messages(await asyncio.to_thread(wire.call, 1012, write_fields({3: removed.partition_id})), 4)
    assert number(found, 3) == removed.partition_id
    if dropped == "partition":
        await admin.drop_partition(path, {"region": "EU"})
    else:
        await admin.drop_table(path)
    with pytest.raises(FlussError, match=f"The partition id '{removed.partition_id}' does not exist") as raised:
        await asyncio.to_thread(wire.call, 1012, write_fields({3: removed.partition_id}))
    assert raised.value.code is ErrorCode.PARTITION_NOT_EXISTS


async def test_dropped_table_does_not_exist_by_name(
    admin: Any, wire: StreamConnection, tables: dict[str, Any], database: str
) -> None:
    await admin.drop_table(tables[LOG].get_table_info().table_path)
    path = write_fields({1: database, 2: LOG})
    for key, message in {1007: write_fields({1: path}), 1012: by_name(database, LOG, "EU")}.items():
        with pytest.raises(FlussError) as raised:
            await asyncio.to_thread(wire.call, key, message)
        assert raised.value.code is ErrorCode.TABLE_NOT_EXIST


async def test_listings_with_the_id_of_a_dropped_partition_are_empty(
    admin: Any, wire: StreamConnection, tables: dict[str, Any]
) -> None:
    """Orphan file removal requests the files that a partition needs: a dropped one needs none."""
    removed = await target(admin, tables[KEYED])
    await admin.drop_partition(tables[KEYED].get_table_info().table_path, {"region": "EU"})
    request = write_fields({1: removed.table_id, 2: removed.partition_id})
    assert list(messages(await asyncio.to_thread(wire.call, 1063, request), 1)) == []  # LIST_REMOTE_LOG_MANIFESTS
    assert list(messages(await asyncio.to_thread(wire.call, 1064, request), 3)) == []  # LIST_KV_SNAPSHOTS


@pytest.mark.parametrize("dropped", ["partition", "table"])
async def test_open_scan_expires_when_its_partition_is_dropped(
    admin: Any, wire: StreamConnection, tables: dict[str, Any], dropped: str
) -> None:
    table = tables[KEYED]
    async with table.new_upsert().create_writer() as writer:
        for at in range(100):
            writer.upsert({"id": at, "region": "EU"})
    removed = await target(admin, table)
    opened = write_fields(removed.fields(table=1, partition=2, bucket=3))
    answer = await asyncio.to_thread(wire.call, 1061, write_fields({2: opened, 3: 0, 4: 100}))
    assert number(answer, 4) == 1  # has more rows
    scanner = bytes(text(answer, 3))
    path = table.get_table_info().table_path
    if dropped == "partition":
        await admin.drop_partition(path, {"region": "EU"})
    else:
        await admin.drop_table(path)
    for sequence in (1, 2):
        answer = await asyncio.to_thread(wire.call, 1061, write_fields({1: scanner, 3: sequence, 4: 100}))
        assert number(answer, 1) == SCANNER_EXPIRED
    closing = await asyncio.to_thread(wire.call, 1061, write_fields({1: scanner, 5: True}))
    assert number(closing, 1) == 0


@pytest.mark.parametrize(("name", "call"), CALLS_BY_ID.values(), ids=CALLS_BY_ID.keys())
async def test_concurrent_calls_during_a_drop_succeed_or_return_21(
    streams: StreamServer,
    admin: Any,
    tables: dict[str, Any],
    name: str,
    call: Callable[[StreamConnection, Target], int],
) -> None:
    """Any other error would stop the client or make it retry forever."""
    table = tables[name]
    removed = await target(admin, table)
    served = threading.Semaphore(0)

    def until_refused() -> int:
        made = dial(streams)
        try:
            while not (code := call(made, removed)):
                served.release()
            return code
        finally:
            made.close()

    callers = [asyncio.create_task(asyncio.to_thread(until_refused)) for _ in range(4)]
    for _ in range(8):
        await asyncio.to_thread(served.acquire)
    await admin.drop_partition(table.get_table_info().table_path, {"region": "EU"})
    assert set(await asyncio.gather(*callers)) == {UNKNOWN_TABLE_OR_BUCKET}


async def test_late_request_does_not_recreate_a_dropped_partition(
    streams: StreamServer, admin: Any, wire: StreamConnection, tables: dict[str, Any]
) -> None:
    removed = await target(admin, tables[KEYED])
    assert await asyncio.to_thread(put, wire, removed) == 0
    folders = [
        streams.server.data / "streams" / kind / str(removed.table_id) / f"p{removed.partition_id}"
        for kind in ("logs", "keys")
    ]
    assert all(folder.exists() for folder in folders)
    await admin.drop_partition(tables[KEYED].get_table_info().table_path, {"region": "EU"})
    for call in (put, fetch, lookup, list_offsets):
        assert await asyncio.to_thread(call, wire, removed) == UNKNOWN_TABLE_OR_BUCKET
    await asyncio.to_thread(wait_until, lambda: not any(each.exists() for each in folders), "the files to be removed")
    for call in (put, fetch, lookup, list_offsets):
        assert await asyncio.to_thread(call, wire, removed) == UNKNOWN_TABLE_OR_BUCKET
    assert not any(folder.exists() for folder in folders)
