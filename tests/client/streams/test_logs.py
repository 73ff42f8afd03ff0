"""Writing and reading logs in every format, against a server that stores the batches."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pytest

from lakebed.client.streams.kv_scans import PhysicalTable
from lakebed.client.streams.logs import StreamLog, StreamLogWriter
from lakebed.client.streams.messages import Fields, content, number, read_fields, text, write_fields
from lakebed.client.streams.tables import PartitionInfo, TableInfo
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import APPEND_ONLY, iterate_batches, write_batch
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

SCHEMA: Final = Schema.of(
    [
        ("id", DataType(TypeRoot.INT)),
        ("name", DataType(TypeRoot.STRING)),
        ("tags", DataType(TypeRoot.ARRAY, element=DataType(TypeRoot.STRING))),
    ]
)
ZSTD, LZ4 = bytes.fromhex("28b52ffd"), bytes.fromhex("04224d18")
"""Magic numbers of compressed buffers."""


class Server:
    """Stores batches and returns them."""

    def __init__(self) -> None:
        self.records = b""
        self.keys: list[int] = []

    def call(self, key: int, message: bytes) -> Fields:
        self.keys.append(key)
        if key == 1026:
            return read_fields(write_fields({1: 9}))
        if key == 1014:
            self.records += bytes(content(read_fields(text(read_fields(message), 4)), 3))
            return read_fields(write_fields({1: write_fields({2: 0, 5: 0})}))
        assert key == 1015
        assert number(read_fields(message), 1) == -1
        return read_fields(write_fields({1: write_fields({2: write_fields({2: 0, 8: self.records})})}))

    def refresh_leader(self) -> None:
        raise AssertionError


def table(**properties: str) -> PhysicalTable:
    options = {f"table.log.{name.replace('_', '.')}": value for name, value in properties.items()}
    return TableInfo("fluss", "t", 1, 1, SCHEMA, 1, properties=options).physical(None)


def batch(count: int = 3) -> pa.RecordBatch:
    rows = [{"id": n, "name": f"name {n % 7}", "tags": ["x", None] * (n % 3)} for n in range(count)]
    return pa.RecordBatch.from_pylist([*rows, {"id": None, "name": None, "tags": None}], _arrow())


def _arrow() -> pa.Schema:
    return StreamLog(Server(), table()).schema


@pytest.mark.parametrize("format_", ["ARROW", "INDEXED", "COMPACTED"])
def test_rows_round_trip_in_every_log_format(format_: str) -> None:
    server, info = Server(), table(format=format_)
    writer = StreamLogWriter(server, info)
    writer.append(batch(5))
    writer.append(batch(0))
    first, second = StreamLog(server, info).read({0: 0})
    assert first.rows == batch(5)
    assert second.rows == batch(0)
    assert (first.changes, second.changes) == (bytes(6), bytes(1))
    projected, _ = StreamLog(server, info, columns=["name"]).read({0: 0})
    assert projected.rows == batch(5).select(["name"])


def test_row_formats_encode_each_row() -> None:
    server = Server()
    rows = pa.RecordBatch.from_pylist([{"id": 7, "name": "ab", "tags": None}], _arrow())
    StreamLogWriter(server, table(format="COMPACTED")).append(rows)
    (sent,) = iterate_batches(server.records)
    assert bytes(sent.body) == bytes.fromhex("06000000000407026162")
    assert sent.attributes & APPEND_ONLY
    server.records = b""
    StreamLogWriter(server, table(format="INDEXED")).append(rows)
    (sent,) = iterate_batches(server.records)
    assert bytes(sent.body) == bytes.fromhex("1000000000040200000000000000070000006162")


def test_rows_of_older_schemas_have_null_in_new_columns() -> None:
    server = Server()
    StreamLogWriter(server, table(format="INDEXED")).append(batch())
    later = SCHEMA.with_column("later", DataType(TypeRoot.BIGINT))
    known = TableInfo("fluss", "t", 1, 2, later, 1, properties={"table.log.format": "INDEXED"})
    log = StreamLog(server, known.physical(None))
    log._schemas[1] = SCHEMA
    (found,) = log.read({0: 0})
    assert found.rows.column("later").null_count == 4
    assert found.rows.select(SCHEMA.names) == batch()


@pytest.mark.parametrize(
    ("properties", "begins"),
    [({}, ZSTD), ({"arrow_compression_type": "LZ4_FRAME"}, LZ4), ({"arrow_compression_type": "NONE"}, b"")],
)
def test_compression_follows_the_table_property(properties: dict[str, str], begins: bytes) -> None:
    server, info = Server(), table(**properties)
    StreamLogWriter(server, info).append(batch(500))
    assert [mark in server.records for mark in (ZSTD, LZ4)] == [begins == ZSTD, begins == LZ4]
    (found,) = StreamLog(server, info).read({0: 0})
    assert found.rows == batch(500)


def test_zstd_level_follows_the_table_property() -> None:
    sizes = {}
    for level in ("1", "3", "19"):
        server = Server()
        StreamLogWriter(server, table(arrow_compression_zstd_level=level)).append(batch(20_000))
        sizes[level] = len(server.records)
    default = Server()
    StreamLogWriter(default, table()).append(batch(20_000))
    assert len(set(sizes.values())) == 3
    assert len(default.records) == sizes["3"]


@pytest.mark.parametrize(
    "rows",
    [
        pa.record_batch({"id": [1]}),
        pa.record_batch({"id": ["x"], "name": ["x"], "tags": [["x"]]}),
        pa.record_batch({"id": [2**40], "name": ["x"], "tags": [["x"]]}),
    ],
)
def test_rows_that_do_not_fit_the_table_are_not_sent(rows: pa.RecordBatch) -> None:
    server = Server()
    writer = StreamLogWriter(server, table())
    with pytest.raises(FlussError) as failed:
        writer.append(rows)
    assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN
    assert server.keys == [1026]


def test_rows_are_cast_to_the_table_types() -> None:
    server = Server()
    StreamLogWriter(server, table()).append(pa.record_batch({"tags": [["x"]], "id": [1], "name": ["n"]}))
    (found,) = StreamLog(server, table()).read({0: 0})
    assert found.rows.to_pylist() == [{"id": 1, "name": "n", "tags": ["x"]}]


def test_rows_of_a_different_partition_are_not_sent() -> None:
    known = TableInfo(
        "fluss", "t", 1, 1, SCHEMA, 1, partition_keys=("name",), partitions=(PartitionInfo(3, "EU", ("EU",)),)
    )
    server = Server()
    with pytest.raises(FlussError) as failed:
        StreamLogWriter(server, known.physical(None))
    assert failed.value.code is ErrorCode.PARTITION_NOT_EXISTS
    writer = StreamLogWriter(server, known.physical(3))
    with pytest.raises(FlussError) as failed:
        writer.append(pa.record_batch({"id": [1], "name": ["US"], "tags": [["x"]]}))
    assert failed.value.code is ErrorCode.PARTITION_SPEC_INVALID
    assert server.keys == [1026]


@pytest.mark.parametrize("body", ["ff00000000", "00000000", "060000000004"])
def test_truncated_records_are_corrupt(body: str) -> None:
    server = Server()
    server.records = write_batch(bytes.fromhex(body), 1, schema_id=1)
    with pytest.raises(FlussError) as failed:
        list(StreamLog(server, table(format="COMPACTED")).read({0: 0}))
    assert failed.value.code is ErrorCode.CORRUPT_RECORD


def test_change_types_are_read_from_rows() -> None:
    server = Server()
    row = bytes.fromhex("0407026162")
    body = b"".join(len(row + b"x").to_bytes(4, "little") + bytes([change]) + row for change in (1, 2, 3, 4))
    server.records = write_batch(body, 4, schema_id=1, attributes=0)
    (found,) = StreamLog(server, table(format="COMPACTED")).read({0: 0})
    assert found.changes == bytes([1, 2, 3, 4])
    assert found.rows.column("id").to_pylist() == [7] * 4
