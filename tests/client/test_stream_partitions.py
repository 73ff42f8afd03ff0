from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from lakebed.client.stream_partitions import check_partition, partition_values
from lakebed.client.stream_scans import ScannedTable
from lakebed.streams.arrow_types import arrow_schema
from lakebed.streams.failures import Reason, StreamFailure
from lakebed.streams.keys.fields import RowFormat
from lakebed.streams.schema import Schema
from lakebed.streams.types import DataType, Root

MOMENT = datetime.datetime(2025, 5, 31, 3, 42, 35)


def rows(schema: Schema, *values: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, each, strict=True)) for each in values], arrow_schema(schema)
    )


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (DataType(Root.STRING), "EU", "EU"),
        (DataType(Root.CHAR, length=2), "EU", "EU"),
        (DataType(Root.BOOLEAN), True, "true"),
        (DataType(Root.TINYINT), -7, "-7"),
        (DataType(Root.BIGINT), 2**40, "1099511627776"),
        (DataType(Root.DATE), datetime.date(1969, 12, 31), "1969-12-31"),
        (DataType(Root.BYTES), b"\0\xff", "00ff"),
        (DataType(Root.BINARY, length=2), b"\x10a", "1061"),
        (DataType(Root.TIME, precision=3), datetime.time(22, 31, 8, 123000), "22-31-08_123"),
        (DataType(Root.TIME), datetime.time(1, 2, 3), "01-02-03_000"),
        (DataType(Root.TIMESTAMP), MOMENT, "2025-05-31-03-42-35_"),
        (DataType(Root.TIMESTAMP, precision=3), MOMENT.replace(microsecond=428000), "2025-05-31-03-42-35_428"),
        (DataType(Root.TIMESTAMP), MOMENT.replace(microsecond=456), "2025-05-31-03-42-35_000456000"),
        (DataType(Root.TIMESTAMP), datetime.datetime(1969, 12, 31, 23, 59, 59), "1969-12-31-23-59-59_"),
        (DataType(Root.TIMESTAMP_LTZ), MOMENT.replace(tzinfo=datetime.UTC), "2025-05-31-03-42-35_"),
    ],
)
def test_partitions_are_called_by_their_values(type_: DataType, value: Any, text: str) -> None:
    schema = Schema.of([("p", type_)])
    assert partition_values(schema, ["p"], rows(schema, (value,), (value,))) == [(text,), (text,)]


@pytest.mark.parametrize(
    ("type_", "value"), [(DataType(Root.STRING), None), (DataType(Root.DOUBLE), 1.0), (DataType(Root.FLOAT), 1.0)]
)
def test_what_no_partition_is_called_by_is_refused(type_: DataType, value: Any) -> None:
    schema = Schema.of([("p", type_)])
    with pytest.raises(StreamFailure) as failed:
        partition_values(schema, ["p"], rows(schema, (value,)))
    assert failed.value.reason is Reason.INVALID_PARTITION


def test_rows_of_another_partition_are_refused() -> None:
    schema = Schema.of([("id", DataType(Root.INT)), ("day", DataType(Root.DATE)), ("region", DataType(Root.STRING))])
    table = ScannedTable(
        "fluss", "t", 1, 1, schema, RowFormat.COMPACTED, 1, "EU$2024-01-02", 7, partition_keys=("region", "day")
    )
    day = datetime.date(2024, 1, 2)
    check_partition(table, rows(schema, (1, day, "EU"), (2, day, "EU")))
    for other in ((2, day, "US"), (2, datetime.date(2024, 1, 3), "EU")):
        with pytest.raises(StreamFailure) as failed:
            check_partition(table, rows(schema, (1, day, "EU"), other))
        assert failed.value.reason is Reason.INVALID_PARTITION
