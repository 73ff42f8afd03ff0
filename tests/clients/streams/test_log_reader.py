"""Lakebed's log reader and table descriptions over the protocol; records are written with pyfluss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.lake import LakeTieringClient
from lakebed.client.streams.log_ranges import read_range
from lakebed.client.streams.logs import CHANGES, EARLIEST, LATEST, LogRecords, StreamLog
from lakebed.client.streams.tables import Bucket, TableInfo, describe, list_offsets
from lakebed.fluss.errors import ErrorCode, FlussError
from tests.clients.streams.serving import ROWS, StreamServer, make_table
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = pytest.mark.integration


async def with_client(streams: StreamServer, do: Callable[[StreamClient], Any]) -> Any:  # Any: the result of `do`
    def run() -> Any:
        with StreamClient(streams.address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY) as client:
            return do(client)

    return await asyncio.to_thread(run)


def known(client: StreamClient, path: Any) -> TableInfo:
    return describe(client, path.database_name, path.table_name)


def read(
    client: StreamClient, table: TableInfo, bucket: Bucket, start: int, end: int, **others: Any
) -> list[LogRecords]:
    log = StreamLog(client, table.physical(bucket[0]), **others)
    return list(read_range(client, log, bucket[1], start, end))


def read_all(client: StreamClient, path: Any) -> dict[Bucket, list[LogRecords]]:
    """All records of all buckets."""
    table = known(client, path)
    starts, ends = (list_offsets(client, table, which) for which in (EARLIEST, LATEST))
    return {bucket: read(client, table, bucket, starts[bucket], end) for bucket, end in ends.items()}


def rows_of(batches: list[LogRecords]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.rows.to_pylist()]


async def append(table: Any, numbers: range, schema: pa.Schema = ROWS) -> None:
    writer = table.new_append().create_writer()
    columns = [list(numbers), [f"n{each}" for each in numbers], [each / 2 for each in numbers]]
    writer.write_arrow_batch(
        pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)
    )
    await writer.flush()


async def test_only_the_requested_range_of_a_log_is_read(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path)
    for start in (0, 100, 200):
        await append(table, range(start, start + 100))

    found = await with_client(
        streams, lambda client: read(client, known(client, table_path), (None, 0), 50, 230, columns=["score", "id"])
    )
    assert [row["id"] for row in rows_of(found)] == list(range(50, 230))
    assert found[0].rows.schema.names == ["score", "id"]
    assert [batch.base_offset for batch in found] == [50, 100, 200]
    assert all(set(batch.changes) == {0} and batch.timestamp_ms > 0 for batch in found)


async def test_logs_of_all_buckets_have_every_record_once(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path, bucket_count=3, bucket_keys=["id"])
    writer = table.new_append().create_writer()
    for number in range(500):
        writer.append({"id": number, "name": None, "score": 1.0})
    await writer.flush()
    found = await with_client(streams, lambda client: read_all(client, table_path))
    assert set(found) == {(None, 0), (None, 1), (None, 2)}
    assert sorted(row["id"] for part in found.values() for row in rows_of(part)) == list(range(500))


async def test_changelog_records_have_their_change_type(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    writer = table.new_upsert().create_writer()
    for row in ({"id": 1, "name": "a", "score": 1.0}, {"id": 1, "name": "b", "score": 1.0}):
        writer.upsert(row)
        await writer.flush()
    writer.delete({"id": 1})
    await writer.flush()
    found = await with_client(streams, lambda client: read_all(client, table_path))
    batches = found[None, 0]
    assert [CHANGES[each] for batch in batches for each in batch.changes] == ["+I", "-U", "+U", "-D"]
    assert [row["name"] for row in rows_of(batches)] == ["a", "a", "b", "b"]
    assert [batch.base_offset for batch in batches] == [0, 1, 3]


async def test_partitions_have_separate_logs(
    streams: StreamServer, connection: Any, admin: Any, table_path: Any
) -> None:
    schema = pa.schema([("id", pa.int32()), ("day", pa.string())])
    table = await make_table(connection, table_path, schema, partition_keys=["day"])
    await admin.create_partition(table_path, {"day": "mon"})
    await admin.create_partition(table_path, {"day": "tue"})
    writer = table.new_append().create_writer()
    for number in range(10):
        writer.append({"id": number, "day": "mon" if number < 3 else "tue"})
    await writer.flush()

    def counts(client: StreamClient) -> dict[tuple[str, ...], int]:
        parts = known(client, table_path).partitions
        found = read_all(client, table_path)
        return {part.values: len(rows_of(found[part.id, 0])) for part in parts}

    assert await with_client(streams, counts) == {("mon",): 3, ("tue",): 7}


async def test_absent_tables_and_offsets_are_refused(streams: StreamServer, connection: Any, table_path: Any) -> None:
    await make_table(connection, table_path)

    def refused(do: Callable[[StreamClient], Any]) -> Callable[[StreamClient], ErrorCode]:
        def run(client: StreamClient) -> ErrorCode:
            with pytest.raises(FlussError) as raised:
                do(client)
            return raised.value.code

        return run

    beyond = refused(lambda client: read(client, known(client, table_path), (None, 0), 5, 9))
    assert await with_client(streams, beyond) is ErrorCode.LOG_OFFSET_OUT_OF_RANGE
    unknown = refused(lambda client: describe(client, table_path.database_name, "absent"))
    assert await with_client(streams, unknown) is ErrorCode.TABLE_NOT_EXIST
    columns = refused(lambda client: read(client, known(client, table_path), (None, 0), 0, 1, columns=["absent"]))
    assert await with_client(streams, columns) is ErrorCode.INVALID_COLUMN_PROJECTION


async def test_tiering_job_gets_a_table_and_commits_its_offsets(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    database, name = table_path.database_name, table_path.table_name
    await make_table(connection, table_path, properties={"table.datalake.enabled": "true"}, bucket_count=2)

    def run(client: StreamClient) -> None:
        lake = LakeTieringClient(client)
        table = known(client, table_path)
        assert lake.latest(database, name) is None
        given = lake.request_table()
        assert given is not None
        assert (given.table_id, given.database, given.name) == (table.id, database, name)
        lake.heartbeat(given)
        prepared = lake.prepare(table.id, database, name, {(None, 0): 5, (None, 1): 7})
        lake.commit(table.id, 2**62 + 1, prepared)
        lake.commit(table.id, 2**62 + 1, prepared)
        found = lake.latest(database, name)
        assert found is not None
        assert (found.snapshot_id, found.offsets) == (2**62 + 1, {(None, 0): 5, (None, 1): 7})
        lake.finish(given, 12)
        assert lake.request_table() is None
        with pytest.raises(FlussError) as raised:
            lake.finish(given, 12)
        assert raised.value.code is ErrorCode.FENCED_TIERING_EPOCH

    await with_client(streams, run)
