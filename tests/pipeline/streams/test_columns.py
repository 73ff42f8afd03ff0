from __future__ import annotations

from datetime import UTC, datetime, time

import pyarrow as pa

from lakebed.pipeline.streams.columns import ORIGIN, fitted, spark_schema, with_origin


def test_unsupported_types_are_mapped_to_spark_types() -> None:
    found = pa.schema(
        [
            ("s", pa.timestamp("s")),
            ("ns", pa.timestamp("ns", "UTC")),
            ("t", pa.time32("s")),
            ("b", pa.binary(2)),
            ("l", pa.list_(pa.timestamp("ms"))),
            ("m", pa.map_(pa.string(), pa.binary(1))),
            ("r", pa.struct([("x", pa.time64("us")), ("y", pa.int8())])),
            pa.field("k", pa.int64(), nullable=False),
        ]
    )
    made = spark_schema(found)
    assert made.field("s").type == pa.timestamp("us")
    assert made.field("ns").type == pa.timestamp("us", "UTC")
    assert made.field("t").type == pa.string()
    assert made.field("b").type == pa.binary()
    assert made.field("l").type.value_type == pa.timestamp("us")
    assert made.field("m").type.item_type == pa.binary()
    assert made.field("r").type.field("x").type == pa.string()
    assert not made.field("k").nullable


def test_values_are_preserved() -> None:
    moment = datetime(2026, 11, 16, 8, 30, tzinfo=UTC)
    schema = pa.schema([("s", pa.timestamp("s", "UTC")), ("t", pa.time32("s")), ("b", pa.binary(2)), ("n", pa.int8())])
    rows = pa.RecordBatch.from_pylist(
        [{"s": moment, "t": time(1, 2, 3), "b": b"ab", "n": 4}, dict.fromkeys("stbn")], schema
    )
    columns = fitted(rows, spark_schema(schema))
    assert [column.to_pylist() for column in columns] == [[moment, None], ["01:02:03", None], [b"ab", None], [4, None]]


def test_records_get_origin_columns() -> None:
    columns = with_origin([pa.array(["a", "b"])], 2, 3, 40, 1_700_000_000_123)
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema([pa.field("x", pa.string()), *ORIGIN]))
    stamp = datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [("a", 3, 40, stamp), ("b", 3, 41, stamp)]
