"""Log tables, written and read with pyfluss."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

import fluss
from tests.clients.streams.serving import ROWS, StreamServer, connected, drain, make_table, read_records

pytestmark = pytest.mark.integration


def rows(count: int, start: int = 0) -> pyarrow.RecordBatch:
    """Distinct rows."""
    numbers = range(start, start + count)
    columns = [list(numbers), [f"name-{n}" for n in numbers], [n / 2 for n in numbers]]
    arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)]
    return pyarrow.record_batch(arrays, schema=ROWS)


async def test_rows_are_read_in_order_with_their_offsets(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    writer = table.new_append().create_writer()
    handles = [writer.append({"id": n, "name": f"n{n}", "score": n * 1.5}) for n in range(100)]
    writer.append([100, "by position", None])
    await writer.flush()
    for handle in handles:
        await handle.wait()
    found = await read_records(table, 101)
    assert [record.offset for record in found] == list(range(101))
    assert [record.row["id"] for record in found] == list(range(101))
    assert found[100].row == {"id": 100, "name": "by position", "score": None}
    assert {record.change_type.short_string() for record in found} == {"+A"}
    times = [record.timestamp for record in found]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000_000


@pytest.mark.parametrize("compression", ["ZSTD", "LZ4_FRAME", "NONE"])
async def test_arrow_batches_are_written_and_read(connection: Any, table_path: Any, compression: str) -> None:
    table = await make_table(
        connection, table_path, properties={"table.log.arrow.compression.type": compression}, bucket_count=3
    )
    async with table.new_append().create_writer() as writer:
        for number in range(4):
            writer.write_arrow_batch(rows(500, number * 500))
        writer.write_arrow(pyarrow.Table.from_batches([rows(500, 2000)]))
        writer.write_pandas(rows(500, 2500).to_pandas())
    scanner = await table.new_scan().create_record_batch_log_scanner()
    scanner.subscribe_buckets(dict.fromkeys(range(3), fluss.EARLIEST_OFFSET))
    found = (await scanner.to_arrow()).sort_by("id")
    assert found.to_pydict() == pyarrow.Table.from_batches([rows(3000)]).to_pydict()


async def test_every_batch_api_returns_the_same_rows(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        for number in range(5):
            writer.write_arrow_batch(rows(200, number * 200))
            await writer.flush()

    async def scanner() -> Any:
        made = await table.new_scan().create_record_batch_log_scanner()
        made.subscribe(0, fluss.EARLIEST_OFFSET)
        return made

    wanted = pyarrow.Table.from_batches([rows(1000)]).to_pydict()
    assert (await (await scanner()).to_arrow()).to_pydict() == wanted
    assert (await (await scanner()).to_pandas())["id"].tolist() == wanted["id"]
    reader = (await scanner()).to_arrow_batch_reader()
    assert reader.read_all().to_pydict() == wanted

    polled = await scanner()
    tables: list[pyarrow.Table] = []
    while sum(each.num_rows for each in tables) < 1000:
        tables.append(await polled.poll_arrow(5000))
    assert pyarrow.concat_tables(tables).to_pydict() == wanted

    polled = await scanner()
    batches: list[Any] = []
    while sum(each.batch.num_rows for each in batches) < 1000:
        batches += await polled.poll_record_batch(5000)
    assert batches[0].base_offset == 0
    assert batches[-1].last_offset == 999
    assert {each.bucket.bucket_id for each in batches} == {0}


@pytest.mark.parametrize("names", [["score"], ["id", "score"], ["score", "id"], ["name", "id", "score"]])
async def test_projection_returns_only_the_requested_columns(
    connection: Any, table_path: Any, names: list[str]
) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        writer.write_arrow_batch(rows(1000))
    scanner = await table.new_scan().project_by_name(names).create_record_batch_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    found = await scanner.to_arrow()
    assert found.to_pydict() == pyarrow.Table.from_batches([rows(1000)]).select(names).to_pydict()


async def test_reading_starts_at_the_requested_offset(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        writer.write_arrow_batch(rows(100))
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, 60)
    assert [record.offset for record in await drain(scanner, 40)] == list(range(60, 100))


async def test_waiting_reader_receives_new_rows(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    assert (await scanner.poll(100)).is_empty()
    writer = table.new_append().create_writer()
    for number in range(5):
        writer.append({"id": number, "name": None, "score": None})
        await writer.flush()
        assert [record.row["id"] for record in await drain(scanner, 1)] == [number]
    scanner.unsubscribe(0)


async def test_filter_keeps_all_matching_rows(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        writer.write_arrow_batch(rows(100))
    scanner = await table.new_scan().filter(fluss.col("id") >= 50).create_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    found = [record.row["id"] for record in await drain(scanner, 50)]
    assert set(range(50, 100)) <= set(found)


async def test_limit_scan_returns_the_last_rows_of_a_bucket(connection: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        for number in range(10):
            writer.write_arrow_batch(rows(10, number * 10))
            await writer.flush()
    bucket = fluss.TableBucket(table.get_table_info().table_id, 0)
    found = await table.new_scan().limit(15).create_bucket_batch_scanner(bucket).to_arrow()
    assert found.column("id").to_pylist() == list(range(85, 100))


@pytest.mark.parametrize("acks", ["all", "1", "0"])
async def test_every_acks_setting_works(streams: StreamServer, admin: Any, table_path: Any, acks: str) -> None:
    others = {"writer.acks": acks, "writer.enable-idempotence": "true" if acks == "all" else "false"}
    async with connected(streams, **others) as connection:
        table = await make_table(connection, table_path)
        async with table.new_append().create_writer() as writer:
            writer.write_arrow_batch(rows(1000))
        assert len(await read_records(table, 1000)) == 1000


async def test_every_type_round_trips_through_a_log(connection: Any, table_path: Any) -> None:
    schema = pyarrow.schema(
        [
            ("a_bool", pyarrow.bool_()),
            ("a_tiny", pyarrow.int8()),
            ("a_small", pyarrow.int16()),
            ("an_int", pyarrow.int32()),
            ("a_big", pyarrow.int64()),
            ("a_float", pyarrow.float32()),
            ("a_double", pyarrow.float64()),
            ("a_text", pyarrow.string()),
            ("some_bytes", pyarrow.binary()),
            ("a_decimal", pyarrow.decimal128(20, 4)),
            ("a_date", pyarrow.date32()),
            ("a_time", pyarrow.time32("ms")),
            ("a_moment", pyarrow.timestamp("us")),
            ("a_moment_utc", pyarrow.timestamp("us", tz="UTC")),
            ("a_list", pyarrow.list_(pyarrow.int32())),
        ]
    )
    row = {
        "a_bool": True,
        "a_tiny": -128,
        "a_small": 32767,
        "an_int": -(2**31),
        "a_big": 2**63 - 1,
        "a_float": 1.5,
        "a_double": -2.25,
        "a_text": "grüße\N{SNOWMAN}",
        "some_bytes": b"\x00\xff",
        "a_decimal": Decimal("-123456.7890"),
        "a_date": datetime.date(1969, 12, 31),
        "a_time": datetime.time(23, 59, 59, 999000),
        "a_moment": datetime.datetime(2026, 11, 16, 1, 2, 3, 456789),
        "a_moment_utc": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
        "a_list": [1, None, 3],
    }
    table = await make_table(connection, table_path, schema)
    writer = table.new_append().create_writer()
    writer.append(row)
    writer.append(dict.fromkeys(row))
    await writer.flush()
    first, second = await read_records(table, 2)
    assert first.row == row
    assert second.row == dict.fromkeys(row)


async def test_partitions_have_separate_buckets(connection: Any, admin: Any, table_path: Any) -> None:
    schema = pyarrow.schema([("id", pyarrow.int32()), ("region", pyarrow.string())])
    table = await make_table(connection, table_path, schema, partition_keys=["region"], bucket_count=2)
    for region in ("EU", "US"):
        await admin.create_partition(table_path, {"region": region})
    writer = table.new_append().create_writer()
    for number in range(20):
        writer.append({"id": number, "region": "EU" if number % 2 else "US"})
    await writer.flush()
    infos = {each.partition_name: each.partition_id for each in await admin.list_partition_infos(table_path)}
    assert set(infos) == {"EU", "US"}
    scanner = await table.new_scan().create_log_scanner()
    scanner.subscribe_partition(infos["EU"], 0, fluss.EARLIEST_OFFSET)
    scanner.subscribe_partition_buckets(
        {(infos["EU"], 1): fluss.EARLIEST_OFFSET, (infos["US"], 0): 0, (infos["US"], 1): 0}
    )
    found = await drain(scanner, 20)
    assert sorted(record.row["id"] for record in found) == list(range(20))
    offsets = await admin.list_partition_offsets(table_path, "EU", [0, 1], fluss.OffsetSpec.latest())
    assert sum(offsets.values()) == 10
    scanner.unsubscribe_partition(infos["EU"], 0)


async def test_recreated_table_is_empty(connection: Any, admin: Any, table_path: Any) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        writer.write_arrow_batch(rows(10))
    await admin.drop_table(table_path)
    await make_table(connection, table_path)
    assert await admin.list_offsets(table_path, [0], fluss.OffsetSpec.latest()) == {0: 0}
