"""Partitions of written rows, against a server that records requests."""

from __future__ import annotations

import datetime
from collections import defaultdict
from typing import Any, Final

import pyarrow as pa
import pytest

from lakebed.client.streams.messages import Fields, messages, number, read_fields, text, write_fields
from lakebed.client.streams.tables import PartitionInfo, TableInfo
from lakebed.client.streams.writer import StreamWriter
from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

COLUMNS: Final = [
    ("id", DataType(TypeRoot.INT)),
    ("region", DataType(TypeRoot.STRING)),
    ("day", DataType(TypeRoot.DATE)),
]
LOG: Final = Schema.of(COLUMNS)
KEYED: Final = Schema.of(COLUMNS, primary_key=["id", "region", "day"])
DAY: Final = datetime.date(2024, 1, 2)
NOON: Final = datetime.datetime(2024, 1, 2, 12, tzinfo=datetime.UTC).timestamp()


class Server:
    """Keeps partitions by name, and counts writes."""

    def __init__(self, *partitions: str) -> None:
        self.partitions = {name: at for at, name in enumerate(partitions, 1)}
        self.created: list[str] = []
        self.written: dict[int | None, int] = defaultdict(int)
        self.puts = 0

    def call(self, key: int, message: bytes) -> Fields:
        fields = read_fields(message)
        if key == 1026:
            return read_fields(write_fields({1: 9}))
        if key == 1012:
            name = text(read_fields(text(fields, 2)), 3).decode()
            if name not in self.partitions:
                raise FlussError(ErrorCode.PARTITION_NOT_EXISTS)
            return read_fields(write_fields({4: write_fields({2: name, 3: self.partitions[name]})}))
        if key == 1036:
            assert number(fields, 3) == 1
            name = "$".join(text(pair, 2).decode() for pair in messages(read_fields(text(fields, 2)), 1))
            self.partitions[name] = len(self.partitions) + 1
            self.created.append(name)
            return {}
        bucket = read_fields(text(fields, {1014: 4, 1016: 5}[key]))
        if 1 in bucket and number(bucket, 1) not in self.partitions.values():
            return read_fields(write_fields({1: write_fields({2: number(bucket, 2), 3: 21, 4: "unknown partition"})}))
        self.written[number(bucket, 1) if 1 in bucket else None] += 1
        self.puts += key == 1016
        return read_fields(write_fields({1: write_fields({2: number(bucket, 2), 5: 0})}))

    def refresh_leader(self) -> None:
        raise AssertionError


def table(schema: Schema, *keys: str, partitions: tuple[PartitionInfo, ...] = (), **options: str) -> TableInfo:
    properties = {f"table.{name.replace('__', '.').replace('_', '-')}": value for name, value in options.items()}
    return TableInfo("fluss", "t", 1, 1, schema, 1, partition_keys=keys, partitions=partitions, properties=properties)


def rows(*regions: str, day: datetime.date = DAY) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"id": at, "region": region, "day": day} for at, region in enumerate(regions)], arrow_schema(LOG)
    )


def error_of(writer: StreamWriter, batch: pa.RecordBatch) -> ErrorCode:
    with pytest.raises(FlussError) as failed:
        writer.write(batch)
    return failed.value.code


@pytest.mark.parametrize("schema", [LOG, KEYED])
def test_rows_are_written_to_the_partition_of_their_columns(schema: Schema) -> None:
    server = Server("EU", "US")
    writer = StreamWriter(server, table(schema, "region"))
    writer.write(rows("EU", "US", "EU"))
    writer.write(rows("US"))
    assert server.written == {1: 1, 2: 2}
    assert server.created == []


@pytest.mark.parametrize("schema", [LOG, KEYED])
def test_missing_partition_is_created(schema: Schema) -> None:
    server = Server("EU$2024-01-02")
    writer = StreamWriter(server, table(schema, "region", "day"))
    writer.write(rows("EU", "US", "AS"))
    writer.write(rows("US"))
    assert server.created == ["US$2024-01-02", "AS$2024-01-02"]
    assert server.written == {1: 1, 2: 2, 3: 1}


def test_all_partitions_exist_before_the_first_row_is_sent() -> None:
    server = Server("EU")
    writer = StreamWriter(server, table(LOG, "region"), dynamic_create_partition=False)
    assert error_of(writer, rows("EU", "US")) is ErrorCode.PARTITION_NOT_EXISTS
    assert (server.written, server.created) == ({}, [])


@pytest.mark.parametrize("schema", [LOG, KEYED])
def test_writer_of_one_partition_rejects_rows_of_others(schema: Schema) -> None:
    server = Server("EU", "US")
    writer = StreamWriter(server, table(schema, "region"), partition="EU")
    assert error_of(writer, rows("EU", "US")) is ErrorCode.PARTITION_SPEC_INVALID
    assert server.written == {}
    writer.write(rows("EU", "EU"))
    assert server.written == {1: 1}


def test_partition_of_an_unpartitioned_table_is_rejected() -> None:
    with pytest.raises(FlussError) as failed:
        StreamWriter(Server(), table(LOG), partition="EU")
    assert failed.value.code is ErrorCode.TABLE_NOT_PARTITIONED
    server = Server()
    StreamWriter(server, table(LOG)).write(rows("EU", "US"))
    assert server.written == {None: 1}


def test_deletes_create_no_partition() -> None:
    server = Server("EU")
    writer = StreamWriter(server, table(KEYED, "region"))
    writer.delete(rows("EU", "US"))
    assert (server.written, server.puts, server.created) == ({1: 1}, 1, [])
    with pytest.raises(FlussError) as failed:
        StreamWriter(server, table(LOG, "region")).delete(rows("EU"))
    assert failed.value.code is ErrorCode.NON_PRIMARY_KEY_TABLE


def test_listed_partitions_are_not_looked_up_again() -> None:
    class Forgetful(Server):
        def call(self, key: int, message: bytes) -> Fields:
            assert key != 1012
            return super().call(key, message)

    server: Any = Forgetful()
    server.partitions["EU"] = 5
    known = table(LOG, "region", partitions=(PartitionInfo(5, "EU", ("EU",)),))
    StreamWriter(server, known).write(rows("EU"))
    assert server.written == {5: 1}


@pytest.mark.parametrize(
    ("day", "is_made"), [(DAY, True), (datetime.date(2023, 12, 26), True), (datetime.date(2023, 12, 25), False)]
)
def test_expired_partition_is_not_created(day: datetime.date, is_made: bool) -> None:
    server = Server()
    known = table(KEYED, "day", auto_partition__enabled="true")
    writer = StreamWriter(server, known, now=lambda: NOON)
    if is_made:
        writer.write(rows("EU", day=day))
        assert server.created == [day.isoformat()]
    else:
        assert error_of(writer, rows("EU", day=day)) is ErrorCode.PARTITION_SPEC_INVALID
        assert (server.created, server.written) == ([], {})


def test_partition_with_an_invalid_time_is_not_created() -> None:
    known = table(LOG, "region", auto_partition__enabled="true")
    writer = StreamWriter(Server(), known, now=lambda: NOON)
    assert error_of(writer, rows("soon")) is ErrorCode.PARTITION_SPEC_INVALID
    writer.write(rows("20240102"))


def test_writer_rejects_an_unsupported_lake_format() -> None:
    with pytest.raises(FlussError) as failed:
        StreamWriter(Server(), table(KEYED, datalake__format="hudi"))
    assert failed.value.code is ErrorCode.INVALID_TABLE


@pytest.mark.parametrize("schema", [LOG, KEYED])
@pytest.mark.parametrize("exists_again", [True, False])
def test_dropped_partition_is_looked_up_again_or_created(schema: Schema, exists_again: bool) -> None:
    server = Server("EU")
    writer = StreamWriter(server, table(schema, "region"))
    writer.write(rows("EU"))
    del server.partitions["EU"]
    server.partitions["US"] = 2
    if exists_again:
        server.partitions["EU"] = 7
    writer.write(rows("EU"))
    assert dict(server.written) == {1: 1, server.partitions["EU"]: 1}
    assert server.created == ([] if exists_again else ["EU"])


def test_deletes_after_a_drop_go_to_a_new_partition_of_the_same_name() -> None:
    server = Server("EU")
    writer = StreamWriter(server, table(KEYED, "region"))
    writer.delete(rows("EU"))
    del server.partitions["EU"]
    writer.delete(rows("EU"))
    server.partitions["EU"] = 7
    writer.delete(rows("EU"))
    assert dict(server.written) == {1: 1, 7: 1}
    assert server.created == []


def test_rows_of_a_dropped_partition_are_rejected_without_dynamic_creation() -> None:
    server = Server()
    server.partitions["EU"] = 1
    writer = StreamWriter(server, table(LOG, "region"), dynamic_create_partition=False)
    writer.write(rows("EU"))
    server.partitions.clear()
    assert error_of(writer, rows("EU")) is ErrorCode.PARTITION_NOT_EXISTS
