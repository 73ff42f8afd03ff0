"""Features of pyfluss that the other modules do not cover: settings, filters, values, schemas, the lake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pytest

import fluss
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.lake import LakeTieringClient
from lakebed.client.streams.messages import write_fields
from lakebed.client.streams.tables import describe
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.wire.fluss.errors import error_code as number_of
from tests.clients.streams.serving import StreamServer, connected, drain, error_code, make_table, read_records
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = pytest.mark.integration

SETTINGS: Final = {
    "scanner.log.fetch.max-bytes": ("scanner_log_fetch_max_bytes", 65536),
    "scanner.log.fetch.max-bytes-for-bucket": ("scanner_log_fetch_max_bytes_for_bucket", 4096),
    "scanner.log.fetch.min-bytes": ("scanner_log_fetch_min_bytes", 10),
    "scanner.log.fetch.wait-max-time-ms": ("scanner_log_fetch_wait_max_time_ms", 50),
    "scanner.log.max-poll-records": ("scanner_log_max_poll_records", 7),
    "scanner.remote-log.prefetch-num": ("scanner_remote_log_prefetch_num", 2),
    "scanner.remote-log.read-concurrency": ("scanner_remote_log_read_concurrency", 2),
    "writer.acks": ("writer_acks", "all"),
    "writer.batch-size": ("writer_batch_size", 2048),
    "writer.batch-timeout-ms": ("writer_batch_timeout_ms", 5),
    "writer.bucket.no-key-assigner": ("writer_bucket_no_key_assigner", "round_robin"),
    "writer.buffer.memory-size": ("writer_buffer_memory_size", 1048576),
    "writer.buffer.wait-timeout-ms": ("writer_buffer_wait_timeout_ms", 30000),
    "writer.dynamic-batch-size-min": ("writer_dynamic_batch_size_min", 1024),
    "writer.dynamic-batch-size.enabled": ("writer_dynamic_batch_size_enabled", True),
    "writer.enable-idempotence": ("writer_enable_idempotence", True),
    "writer.kv-backpressure.max-throttle-ms": ("writer_kv_backpressure_max_throttle_ms", 100),
    "writer.max-inflight-requests-per-bucket": ("writer_max_inflight_requests_per_bucket", 2),
    "writer.request-max-size": ("writer_request_max_size", 16384),
    "writer.retries": ("writer_retries", 5),
}
"""Settings of the client: the parameter, the client's name of it, and a value other than the default."""


def setting_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_rows(writer: Any, count: int) -> None:
    for number in range(count):
        writer.append({"id": number, "name": f"name-{number}", "score": None if number % 5 else number / 2})


async def test_writes_and_reads_work_with_every_setting(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    usual = fluss.Config({})
    config = fluss.Config({name: setting_text(value) for name, (_, value) in SETTINGS.items()})
    assert {each: getattr(config, each) for each, _ in SETTINGS.values()} == dict(SETTINGS.values())
    by_word = {each for each, value in SETTINGS.values() if getattr(usual, each) != value}
    assert len(by_word) >= len(SETTINGS) - 3  # acks, idempotence and growing sizes keep their defaults
    config.bootstrap_servers = streams.address
    config.connect_timeout_ms = 20_000
    config.remote_file_download_thread_num = 1
    config.security_protocol = "sasl"
    config.security_sasl_mechanism = "PLAIN"
    config.security_sasl_username = ROOT_ACCESS_KEY
    config.security_sasl_password = ROOT_SECRET_KEY
    await make_table(connection, table_path, bucket_count=2)
    async with await fluss.FlussConnection.create(config) as made:
        table = await made.get_table(table_path)
        async with table.new_append().create_writer() as writer:
            write_rows(writer, 500)
        scanner = await table.new_scan().create_log_scanner()
        scanner.subscribe_buckets({0: fluss.EARLIEST_OFFSET, 1: fluss.EARLIEST_OFFSET})
        found: list[Any] = []
        while len(found) < 500:
            polled = await scanner.poll(5000)
            assert 0 < polled.count() <= config.scanner_log_max_poll_records
            found += list(polled)
        assert sorted(record.row["id"] for record in found) == list(range(500))


@pytest.mark.parametrize(
    ("name", "value"),
    [("scanner_log_max_poll_records", 9), ("writer_acks", "1"), ("writer_batch_size", 4096), ("writer_retries", 3)],
)
def test_each_setting_can_be_assigned(name: str, value: object) -> None:
    config = fluss.Config({})
    setattr(config, name, value)
    assert getattr(config, name) == value


def matching(row: dict[str, Any], column: str, holds: Callable[[Any], bool]) -> bool:
    return row[column] is not None and holds(row[column])


async def test_filters_keep_all_matching_rows(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        write_rows(writer, 100)
    id_, name, score = fluss.col("id"), fluss.ColumnRef("name"), fluss.col("score")
    assert (id_.name, name.name) == ("id", "name")
    filters: list[tuple[Any, Callable[[dict[str, Any]], bool]]] = [
        (id_.equal(7), lambda row: row["id"] == 7),
        (id_.not_equal(7), lambda row: row["id"] != 7),
        (id_.less_than(7), lambda row: row["id"] < 7),
        (id_.less_or_equal(7), lambda row: row["id"] <= 7),
        (id_.greater_than(7), lambda row: row["id"] > 7),
        (id_.greater_or_equal(7), lambda row: row["id"] >= 7),
        (id_.is_in([3, 99, 1000]), lambda row: row["id"] in (3, 99, 1000)),
        (id_.not_in([3, 99, 1000]), lambda row: row["id"] not in (3, 99, 1000)),
        (score.is_null(), lambda row: row["score"] is None),
        (score.is_not_null(), lambda row: row["score"] is not None),
        (name.starts_with("name-1"), lambda row: row["name"].startswith("name-1")),
        (name.ends_with("7"), lambda row: row["name"].endswith("7")),
        (name.contains("-4"), lambda row: "-4" in row["name"]),
        (id_.less_than(3).or_(score.equal(45.0)), lambda row: row["id"] < 3 or row["score"] == 45.0),
        (id_.less_than(30).and_(score > 5.0), lambda row: row["id"] < 30 and matching(row, "score", lambda x: x > 5)),
        ((id_ < 3) | (id_ >= 97), lambda row: row["id"] < 3 or row["id"] >= 97),
        ((id_ > 3) & (name != "name-5"), lambda row: row["id"] > 3 and row["name"] != "name-5"),
    ]
    for predicate, holds in filters:
        scanner = await table.new_scan().filter(predicate).create_record_batch_log_scanner()
        scanner.subscribe(0, fluss.EARLIEST_OFFSET)
        rows = (await scanner.to_arrow()).to_pylist()
        assert [row["id"] for row in rows if holds(row)] == [
            number
            for number in range(100)
            if holds({"id": number, "name": f"name-{number}", "score": None if number % 5 else number / 2})
        ], predicate


async def test_records_are_grouped_by_bucket(connection: Any, admin: Any, table_path: Any) -> None:
    schema = pa.schema([("id", pa.int32()), ("region", pa.string())])
    table = await make_table(connection, table_path, schema, partition_keys=["region"])
    for region in ("EU", "US"):
        await admin.create_partition(table_path, {"region": region})
    writer = table.new_append().create_writer()
    for number in range(10):
        writer.append({"id": number, "region": "EU" if number < 4 else "US"})
    await writer.flush()
    ids = {each.partition_name: each.partition_id for each in await admin.list_partition_infos(table_path)}
    table_id = table.get_table_info().table_id
    for region, wanted in (("EU", range(4)), ("US", range(4, 10))):
        scanner = await table.new_scan().create_log_scanner()
        scanner.subscribe_partition(ids[region], 0, fluss.EARLIEST_OFFSET)
        polled = await scanner.poll(10_000)
        bucket = fluss.TableBucket.with_partition(table_id, ids[region], 0)
        assert (bucket.table_id, bucket.partition_id, bucket.bucket_id) == (table_id, ids[region], 0)
        assert bucket != fluss.TableBucket(table_id, 0)
        assert polled.buckets() == polled.keys() == [bucket]
        assert bucket in polled
        assert polled.count() == len(polled) == len(wanted)
        rows = [record.row["id"] for record in polled.records(bucket)]
        assert rows == [record.row["id"] for record in polled] == list(wanted)
        assert [[record.offset for record in each] for each in polled.values()] == [list(range(len(wanted)))]
        assert [(each, len(records)) for each, records in polled.items()] == [(bucket, len(wanted))]
        assert polled.records(fluss.TableBucket(table_id, 9)) == []


async def test_changes_have_their_change_types(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    writer = table.new_upsert().create_writer()
    for name in ("a", "b"):
        await writer.upsert({"id": 1, "name": name, "score": None}).wait()
    await writer.delete({"id": 1}).wait()
    kinds = fluss.ChangeType
    assert [record.change_type for record in await read_records(table, 4)] == [
        kinds.Insert,
        kinds.UpdateBefore,
        kinds.UpdateAfter,
        kinds.Delete,
    ]
    assert int(kinds.AppendOnly) == 0


async def test_scanner_is_iterable(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        write_rows(writer, 20)
    scanner = await table.new_scan().project([2, 0]).create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    found = []
    async for record in scanner:
        found.append(record.row)
        if len(found) == 20:
            break
    assert [list(row) for row in found[:1]] == [["score", "id"]]
    assert [row["id"] for row in found] == list(range(20))


async def test_bounded_scan_ends_after_its_batch(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        write_rows(writer, 50)
    bucket = fluss.TableBucket(table.get_table_info().table_id, 0)

    def scanner() -> Any:
        return table.new_scan().limit(10).create_bucket_batch_scanner(bucket)

    wanted = list(range(40, 50))
    once = scanner()
    assert once.bucket == bucket
    assert (await once.next_batch()).batch.column("id").to_pylist() == wanted
    assert await once.next_batch() is None
    (only,) = await scanner().collect_all_batches()
    assert only.batch.column("id").to_pylist() == wanted
    assert (await scanner().to_arrow()).column("id").to_pylist() == wanted
    assert (await scanner().to_pandas())["id"].tolist() == wanted


async def test_table_info_matches_the_definition(connection: Any, admin: Any, table_path: Any) -> None:
    schema = pa.schema([("name", pa.string()), ("number", pa.int64()), ("score", pa.float64())])
    columns = fluss.Schema(schema, primary_keys=["name"], auto_increment_column="number")
    descriptor = fluss.TableDescriptor(columns, bucket_count=2)
    await admin.create_table(table_path, descriptor)
    info = await admin.get_table_info(table_path)
    for said_, found in ((columns, info.get_schema()), (descriptor.get_schema(), info.get_schema())):
        assert found.get_column_names() == said_.get_column_names() == schema.names
        assert found.get_column_types() == said_.get_column_types()
        assert found.get_columns() == said_.get_columns()
        assert found.get_primary_keys() == said_.get_primary_keys() == ["name"]
        assert found.get_auto_increment_columns() == said_.get_auto_increment_columns() == ["number"]
    assert info.get_column_count() == 3
    assert info.created_time == info.modified_time > 1_700_000_000_000
    table = await connection.get_table(table_path)
    assert table.get_table_path() == table_path
    assert table.get_table_path().table_path_str() == f"{table_path.database_name}.{table_path.table_name}"
    assert table.arrow_schema.names == schema.names
    assert [field.type for field in table.arrow_schema] == [field.type for field in schema]


async def test_server_nodes_have_distinct_names(admin: Any) -> None:
    nodes = await admin.get_server_nodes()
    assert len({node.uid for node in nodes}) == len(nodes) == 2
    assert sorted(node.uid for node in nodes) == sorted(
        f"{'cs' if node.server_type == 'CoordinatorServer' else 'ts'}-{node.id}" for node in nodes
    )


async def test_old_batches_have_their_schema_or_that_of_the_scanner(
    streams: StreamServer, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        write_rows(writer, 3)

    def grow() -> None:
        raw = StreamConnection("127.0.0.1", streams.port, ROOT_ACCESS_KEY, Secret(ROOT_SECRET_KEY))
        path = write_fields({1: table_path.database_name, 2: table_path.table_name})
        column = write_fields({1: "later", 2: b'{"type":"STRING"}', 4: 0})
        raw.call(1044, write_fields({1: path, 2: False, 4: column}))
        raw.close()

    await asyncio.to_thread(grow)
    # A connection that loaded the table before keeps its schema.
    async with connected(streams) as other:
        later = await other.get_table(table_path)
        async with later.new_append().create_writer() as writer:
            writer.append({"id": 3, "name": "n", "score": 0.0, "later": "here"})
        for fixed, widths in ((True, [4, 4]), (False, [3, 4])):
            scanner = await later.new_scan().with_fixed_schema(fixed).create_record_batch_log_scanner()
            scanner.subscribe(0, fluss.EARLIEST_OFFSET)
            batches: list[Any] = []
            while sum(each.batch.num_rows for each in batches) < 4:
                batches += await scanner.poll_record_batch(5000)
            assert [each.batch.num_columns for each in batches] == widths
        scanner = await later.new_scan().with_fixed_schema(True).create_log_scanner()
        scanner.subscribe(0, fluss.EARLIEST_OFFSET)
        assert [record.row["later"] for record in await drain(scanner, 4)] == [None, None, None, "here"]


async def test_lake_snapshot_has_the_committed_offsets(
    streams: StreamServer, connection: Any, admin: Any, table_path: Any
) -> None:
    await make_table(connection, table_path, bucket_count=2, properties={"table.datalake.enabled": "true"})
    with pytest.raises(fluss.FlussError) as raised:
        await admin.get_latest_lake_snapshot(table_path)
    assert error_code(raised) == 53
    database, name = table_path.database_name, table_path.table_name

    def commit() -> int:
        with StreamClient(streams.address, ROOT_ACCESS_KEY, ROOT_SECRET_KEY) as client:
            lake, table = LakeTieringClient(client), describe(client, database, name)
            lake.commit(table.id, 4711, lake.prepare(table.id, database, name, {(None, 0): 5, (None, 1): 7}))
            return table.id

    table_id = await asyncio.to_thread(commit)
    found = await admin.get_latest_lake_snapshot(table_path)
    buckets = [fluss.TableBucket(table_id, number) for number in (0, 1)]
    assert found.snapshot_id == 4711
    assert sorted(found.get_table_buckets(), key=lambda each: each.bucket_id) == buckets
    assert found.table_buckets_offset == {buckets[0]: 5, buckets[1]: 7}
    assert [found.get_bucket_offset(each) for each in buckets] == [5, 7]
    assert found.get_bucket_offset(fluss.TableBucket(table_id, 2)) is None


async def test_errors_have_a_reason(admin: Any, database: str) -> None:
    with pytest.raises(fluss.FlussError) as raised:
        await admin.get_table_info(fluss.TablePath(database, "absent"))
    assert raised.value.error_code == fluss.ErrorCode.TABLE_NOT_EXIST
    assert "no such table" in raised.value.message
    assert not raised.value.is_retriable


@pytest.mark.parametrize("reason", ErrorCode)
def test_client_retries_exactly_the_retriable_errors(reason: ErrorCode) -> None:
    failure = FlussError(reason)
    number = number_of(failure)
    named = {value for name, value in vars(fluss.ErrorCode).items() if name.isupper()}
    if number in named:
        assert fluss.FlussError("message", number).is_retriable == failure.is_retriable
    else:
        # This client does not know newer error codes, and retries none of them.
        assert number >= number_of(FlussError(ErrorCode.SERVER_NOT_EXIST))
        assert not failure.is_retriable
