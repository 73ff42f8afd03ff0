"""`spark.read.format("lakebed-stream")` on Spark: batch and streaming reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.pipeline.bench import SPARK_MARKS
from tests.pipeline.stream_tables import NOON, StreamBench, order

pytestmark = SPARK_MARKS


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_log_is_read_by_a_task_per_bucket_with_origin_columns(stream_bench: StreamBench) -> None:
    table = stream_bench.make(bucket_count=2, bucket_keys=["id"])
    stream_bench.append(table, *(order(number) for number in range(20)))
    frame = stream_bench.read(table, origin="true")
    assert frame.rdd.getNumPartitions() == 2
    rows = frame.collect()
    assert sorted(row.id for row in rows) == list(range(20))
    assert {row.at for row in rows} == {NOON}
    for bucket in (0, 1):
        offsets = [row["__offset"] for row in rows if row["__bucket"] == bucket]
        assert sorted(offsets) == list(range(len(offsets)))
    assert ids(stream_bench.read(table, columns="id")) == list(range(20))


def test_kv_table_is_read_as_rows_and_as_changes(stream_bench: StreamBench) -> None:
    table = stream_bench.make(primary_key=["id"])
    stream_bench.upsert(table, order(1, "a"), order(2, "b"))
    stream_bench.upsert(table, order(1, "c"), delete=(2,))
    assert [(row.id, row.name) for row in stream_bench.read(table).collect()] == [(1, "c")]
    changes = stream_bench.read(table, mode="changelog", origin="true").orderBy("__offset").collect()
    assert [(row["_change_type"], row.id, row.name) for row in changes] == [
        ("+I", 1, "a"),
        ("+I", 2, "b"),
        ("-U", 1, "a"),
        ("+U", 1, "c"),
        ("-D", 2, "b"),
    ]


def test_streaming_query_resumes_at_its_checkpoint(stream_bench: StreamBench, tmp_path: Path) -> None:
    spark = stream_bench.bench.spark
    table = stream_bench.make()
    found = f"found_{table}"

    def follow() -> list[int]:
        source = spark.readStream.format("lakebed-stream").options(**stream_bench.options(table)).load()
        out = source.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        out.trigger(availableNow=True).start(str(tmp_path / found)).awaitTermination()
        return ids(spark.read.schema("id INT").parquet(str(tmp_path / found)))

    stream_bench.append(table, order(1), order(2))
    assert follow() == [1, 2]
    stream_bench.append(table, order(3))
    assert follow() == [1, 2, 3]
    assert follow() == [1, 2, 3]
