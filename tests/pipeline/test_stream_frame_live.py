"""Spans of a log on Spark: each is read once, by one task."""

from __future__ import annotations

from lakebed.client.streams.access import stream_access
from lakebed.client.streams.tables import describe
from lakebed.pipeline.streams.offsets import ReadSpan
from lakebed.pipeline.streams.records import RecordReader, frame_of
from tests.pipeline.bench import SPARK_MARKS
from tests.pipeline.stream_tables import DATABASE, StreamBench, order

pytestmark = SPARK_MARKS


def test_each_task_reads_exactly_its_span(stream_bench: StreamBench) -> None:
    stream = stream_bench.make()
    for first in range(0, 12, 4):
        stream_bench.append(stream, *(order(number) for number in range(first, first + 4)))
    access = stream_access(stream_bench.bench.access, stream_bench.streams.address)
    with access.connect() as client:
        reader = RecordReader(describe(client, DATABASE, stream), ("id",), has_origin=True)
    spans = [ReadSpan((None, 0), 1, 6), ReadSpan((None, 0), 6, 7), ReadSpan((None, 0), 9, 12)]
    frame = frame_of(stream_bench.bench.spark, access, reader, spans)
    assert frame.rdd.getNumPartitions() == 3
    found = sorted((row["__offset"], row.id) for row in frame.collect())
    assert found == [(offset, offset) for offset in (1, 2, 3, 4, 5, 6, 9, 10, 11)]


def test_kv_table_changes_are_read(stream_bench: StreamBench) -> None:
    stream = stream_bench.make(primary_key=["id"])
    stream_bench.upsert(stream, order(1, "a"))
    stream_bench.upsert(stream, order(1, "b"))
    access = stream_access(stream_bench.bench.access, stream_bench.streams.address)
    with access.connect() as client:
        reader = RecordReader(describe(client, DATABASE, stream), ("name",), has_change=True)
    frame = frame_of(stream_bench.bench.spark, access, reader, [ReadSpan((None, 0), 0, 3)])
    assert [tuple(row) for row in frame.collect()] == [("a", "+I"), ("a", "-U"), ("b", "+U")]
