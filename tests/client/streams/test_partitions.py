from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from lakebed.client.streams.kv_scans import PhysicalTable
from lakebed.client.streams.partitions import check_partition, partition_values
from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.fields import RowFormat
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot

MOMENT = datetime.datetime(2025, 5, 31, 3, 42, 35)


def rows(schema: Schema, *values: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, each, strict=True)) for each in values], arrow_schema(schema)
    )


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (DataType(TypeRoot.STRING), "EU", "EU"),
        (DataType(TypeRoot.CHAR, length=2), "EU", "EU"),
        (DataType(TypeRoot.BOOLEAN), True, "true"),
        (DataType(TypeRoot.TINYINT), -7, "-7"),
        (DataType(TypeRoot.BIGINT), 2**40, "1099511627776"),
        (DataType(TypeRoot.DATE), datetime.date(1969, 12, 31), "1969-12-31"),
        (DataType(TypeRoot.BYTES), b"\0\xff", "00ff"),
        (DataType(TypeRoot.BINARY, length=2), b"\x10a", "1061"),
        (DataType(TypeRoot.TIME, precision=3), datetime.time(22, 31, 8, 123000), "22-31-08_123"),
        (DataType(TypeRoot.TIME), datetime.time(1, 2, 3), "01-02-03_000"),
        (DataType(TypeRoot.TIMESTAMP), MOMENT, "2025-05-31-03-42-35_"),
        (DataType(TypeRoot.TIMESTAMP, precision=3), MOMENT.replace(microsecond=428000), "2025-05-31-03-42-35_428"),
        (DataType(TypeRoot.TIMESTAMP), MOMENT.replace(microsecond=456), "2025-05-31-03-42-35_000456000"),
        (DataType(TypeRoot.TIMESTAMP), datetime.datetime(1969, 12, 31, 23, 59, 59), "1969-12-31-23-59-59_"),
        (DataType(TypeRoot.TIMESTAMP_LTZ), MOMENT.replace(tzinfo=datetime.UTC), "2025-05-31-03-42-35_"),
    ],
)
def test_partition_names_are_their_values(type_: DataType, value: Any, text: str) -> None:
    schema = Schema.of([("p", type_)])
    assert partition_values(schema, ["p"], rows(schema, (value,), (value,))) == [(text,), (text,)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [(DataType(TypeRoot.STRING), None), (DataType(TypeRoot.DOUBLE), 1.0), (DataType(TypeRoot.FLOAT), 1.0)],
)
def test_types_without_partition_names_are_rejected(type_: DataType, value: Any) -> None:
    schema = Schema.of([("p", type_)])
    with pytest.raises(FlussError) as failed:
        partition_values(schema, ["p"], rows(schema, (value,)))
    assert failed.value.code is ErrorCode.PARTITION_SPEC_INVALID


def test_rows_of_a_different_partition_are_rejected() -> None:
    schema = Schema.of(
        [("id", DataType(TypeRoot.INT)), ("day", DataType(TypeRoot.DATE)), ("region", DataType(TypeRoot.STRING))]
    )
    table = PhysicalTable(
        "fluss", "t", 1, 1, schema, RowFormat.COMPACTED, 1, "EU$2024-01-02", 7, partition_keys=("region", "day")
    )
    day = datetime.date(2024, 1, 2)
    check_partition(table, rows(schema, (1, day, "EU"), (2, day, "EU")))
    for other in ((2, day, "US"), (2, datetime.date(2024, 1, 3), "EU")):
        with pytest.raises(FlussError) as failed:
            check_partition(table, rows(schema, (1, day, "EU"), other))
        assert failed.value.code is ErrorCode.PARTITION_SPEC_INVALID
