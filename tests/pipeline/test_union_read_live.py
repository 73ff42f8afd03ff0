"""Union reads on Spark with the data source, also during writes and tiering."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lakebed.core.jobs import JobKind
from tests.pipeline.bench import SPARK_MARKS
from tests.pipeline.stream_tables import DATABASE, StreamBench, order
from tests.pipeline.union_run import new_run

pytestmark = SPARK_MARKS


def tier(bench: StreamBench, stream: str) -> None:
    table = bench.bench.table(DATABASE, stream)
    bench.bench.do(JobKind.TIER_STREAM, table, {"streams": bench.streams.address})


def union(bench: StreamBench, stream: str, **more: str) -> list[Any]:  # Any: rows of Spark
    options = {"mode": "union", "warehouse": bench.bench.lake.warehouse, "endpoint": bench.bench.access.endpoint}
    return list(bench.read(stream, **options, **more).collect())


def test_union_read_has_tiered_and_later_records(stream_bench: StreamBench) -> None:
    stream = stream_bench.make(bucket_count=2, bucket_keys=["id"])
    stream_bench.append(stream, *(order(number) for number in range(10)))
    tier(stream_bench, stream)
    stream_bench.append(stream, *(order(number, "late") for number in range(10, 14)))
    found = union(stream_bench, stream, origin="true")
    assert sorted((row.id, row.name, row.at) for row in found) == [
        order(number, "n" if number < 10 else "late") for number in range(14)
    ]
    assert len({(row["__bucket"], row["__offset"]) for row in found}) == 14
    nowhere = stream_bench.read(stream, mode="union", endpoint=stream_bench.bench.access.endpoint)
    with pytest.raises(Exception, match="name its warehouse"):
        nowhere.collect()


@pytest.mark.parametrize("seconds", [0, pytest.param(120, marks=pytest.mark.heavy)], ids=["short", "two minutes"])
def test_union_reads_are_consistent_during_writes_and_tiering(stream_bench: StreamBench, seconds: int) -> None:
    """Reads during writes with two clients and tiering are compared with the expected content."""
    run, until = new_run(stream_bench), time.monotonic() + seconds
    readers = {"spark": run.with_spark, "select": run.with_select}
    with run.running() as started:
        while (time.monotonic() < until or min(run.rounds.values(), default=0) < 2) and not run.over.is_set():
            for how, read in readers.items():
                run.read_log(f"log by {how}", read)
                run.read_keys(f"keys by {how}", read)
        assert not any(each.done() for each in started)
    for how, read in readers.items():
        run.read_log(f"log by {how}", read)
        run.read_keys(f"keys by {how}", read)
    assert min(run.rounds.values()) >= 2
    print(
        f"\nrounds of tiering: {run.rounds[run.log]} of the log, {run.rounds[run.keyed]} of keys;"
        f" reads compared: {run.reads}, {run.rows} rows; written: {run.by_pyfluss.sent + run.by_lakebed.sent} records,"
        f" {sum(run.keys.sent)} changes of {len(run.keys.history)} keys"
    )
