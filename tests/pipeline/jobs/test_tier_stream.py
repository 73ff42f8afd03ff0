"""Lake tiering on Spark: every record of a stream is in its Iceberg table exactly once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.lake import LakeTieringClient
from lakebed.client.streams.tables import describe
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.jobs import tier_stream
from lakebed.pipeline.report import JobReport
from lakebed.pipeline.spark.procedures import TimestampArgument, call
from lakebed.pipeline.table_ref import CatalogTable
from tests.pipeline.bench import SPARK_MARKS, changed_nothing
from tests.pipeline.stream_tables import DATABASE, StreamBench, order

pytestmark = SPARK_MARKS


def tier(stream_bench: StreamBench, stream: str) -> tuple[CatalogTable, JobReport]:
    table = stream_bench.bench.table(DATABASE, stream)
    return table, stream_bench.bench.do(JobKind.TIER_STREAM, table, {"streams": stream_bench.streams.address})


def tiered(stream_bench: StreamBench, stream: str) -> list[tuple[Any, ...]]:
    table = stream_bench.bench.table(DATABASE, stream)
    return stream_bench.bench.sql(f"SELECT id, name FROM {table.sql} ORDER BY id, name")


def known_to_server(stream_bench: StreamBench, stream: str) -> Any:
    server = stream_bench.streams.server
    with StreamClient(stream_bench.streams.address, server.access_key, server.secret_key) as client:
        return LakeTieringClient(client).latest(DATABASE, stream)


def test_records_of_a_log_are_appended_once(stream_bench: StreamBench) -> None:
    stream = stream_bench.make(bucket_count=2, bucket_keys=["id"])
    stream_bench.append(stream, *(order(number) for number in range(10)))
    table, first = tier(stream_bench, stream)
    assert (first.read.rows, first.wrote.rows, len(first.snapshots)) == (10, 10, 1)
    assert changed_nothing(tier(stream_bench, stream)[1], "all of its records are tiered")
    stream_bench.append(stream, order(10))
    _, second = tier(stream_bench, stream)
    assert second.wrote.rows == 1
    assert tiered(stream_bench, stream) == [(number, "n") for number in range(11)]
    columns = [field.name for field in stream_bench.bench.spark.table(table.sql).schema.fields]
    assert columns == ["id", "name", "at", "__bucket", "__offset", "__timestamp"]
    current = stream_bench.bench.value(f"SELECT snapshot_id FROM {table.inside('refs')} WHERE name = 'main'")
    state = known_to_server(stream_bench, stream)
    assert state.snapshot_id == second.snapshots[0] == current
    assert sum(state.offsets.values()) == 11
    assert stream_bench.bench.sql(f"SELECT name FROM {table.inside('refs')}") == [("main",)]


def test_last_change_of_each_key_is_applied(stream_bench: StreamBench) -> None:
    stream = stream_bench.make(primary_key=["id"], bucket_count=2)
    stream_bench.upsert(stream, order(1, "a"), order(2, "b"), order(3, "c"))
    tier(stream_bench, stream)
    stream_bench.upsert(stream, order(1, "A"), order(4, "d"), order(5, "e"), delete=(2, 5))
    tier(stream_bench, stream)
    assert tiered(stream_bench, stream) == [(1, "A"), (3, "c"), (4, "d")]
    stream_bench.upsert(stream, order(2, "again"), delete=(3,))
    tier(stream_bench, stream)
    assert tiered(stream_bench, stream) == [(1, "A"), (2, "again"), (4, "d")]
    assert sorted((row.id, row.name) for row in stream_bench.read(stream).collect()) == tiered(stream_bench, stream)


@pytest.mark.parametrize("keyed", [False, True], ids=["log", "keys"])
@pytest.mark.parametrize("step", ["prepare", "create branch", "write", "fast forward", "commit"])
def test_interrupted_round_commits_all_or_nothing(
    stream_bench: StreamBench, monkeypatch: pytest.MonkeyPatch, keyed: bool, step: str
) -> None:
    """The job dies before a step, and another job starts over."""
    stream = stream_bench.make(primary_key=["id"]) if keyed else stream_bench.make()
    write = stream_bench.upsert if keyed else stream_bench.append
    write(stream, order(1), order(2))
    tier(stream_bench, stream)
    write(stream, order(3))

    class Died(BaseException):
        pass

    def die(*_: Any, **__: Any) -> Any:
        raise Died

    with monkeypatch.context() as patched:
        if step == "prepare":
            patched.setattr(LakeTieringClient, "prepare", die)
        elif step == "create branch":
            patched.setattr(tier_stream._Tiering, "_branch", die)
        elif step == "write":
            patched.setattr(tier_stream._Tiering, "_write", die)
        elif step == "fast forward":
            patched.setattr(tier_stream, "call", die)
        else:
            patched.setattr(LakeTieringClient, "commit", die)
        with pytest.raises(Died):
            tier(stream_bench, stream)
    is_in = step == "commit"
    assert [row[0] for row in tiered(stream_bench, stream)] == ([1, 2, 3] if is_in else [1, 2])
    write(stream, order(4))
    tier(stream_bench, stream)
    assert [row[0] for row in tiered(stream_bench, stream)] == [1, 2, 3, 4]
    table = stream_bench.bench.table(DATABASE, stream)
    current = stream_bench.bench.value(f"SELECT snapshot_id FROM {table.inside('refs')} WHERE name = 'main'")
    assert known_to_server(stream_bench, stream).snapshot_id == current


def test_late_job_yields_to_the_first_commit(stream_bench: StreamBench, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_bench.make()
    stream_bench.append(stream, order(1))
    tier(stream_bench, stream)
    stream_bench.append(stream, order(2))
    original = tier_stream._Tiering._write
    others: list[JobReport] = []

    def write(tiering: Any, branch: str, frame: Any) -> None:
        original(tiering, branch, frame)
        if not others:
            others.append(JobReport(job=JobKind.TIER_STREAM, table="", dry_run=False, changed=False))
            stream_bench.append(stream, order(3))
            others.append(tier(stream_bench, stream)[1])

    monkeypatch.setattr(tier_stream._Tiering, "_write", write)
    stream_bench.append(stream, order(4))
    _, late = tier(stream_bench, stream)
    assert others[1].wrote.rows == 3
    assert changed_nothing(late, "all of its records are tiered")
    assert [row[0] for row in tiered(stream_bench, stream)] == [1, 2, 3, 4]


def test_partitions_are_tiered_each_from_its_own_offsets(stream_bench: StreamBench) -> None:
    schema = pa.schema([("id", pa.int32()), ("day", pa.string())])
    stream = stream_bench.make(schema, partition_keys=["day"])
    stream_bench.partition(stream, day="mon")
    stream_bench.append(stream, (1, "mon"), (2, "mon"), schema=schema)
    tier(stream_bench, stream)
    stream_bench.partition(stream, day="tue")
    stream_bench.append(stream, (3, "tue"), (4, "mon"), schema=schema)
    table, report = tier(stream_bench, stream)
    assert report.wrote.rows == 2
    assert stream_bench.bench.sql(f"SELECT id, day FROM {table.sql} ORDER BY id") == [
        (1, "mon"),
        (2, "mon"),
        (3, "tue"),
        (4, "mon"),
    ]
    server = stream_bench.streams.server
    with StreamClient(stream_bench.streams.address, server.access_key, server.secret_key) as client:
        partitions = describe(client, DATABASE, stream).partitions
    assert {bucket[0] for bucket in known_to_server(stream_bench, stream).offsets} == {part.id for part in partitions}


@pytest.mark.parametrize(
    "kind", ["log", *(pytest.param(each, marks=pytest.mark.heavy) for each in ("partitions", "keys"))]
)
def test_unreported_round_counts_after_its_snapshot_expired(
    stream_bench: StreamBench, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    options: dict[str, Any] = {"log": {}, "keys": {"primary_key": ["id"]}, "partitions": {"partition_keys": ["name"]}}[
        kind
    ]
    stream = stream_bench.make(**options)
    write = stream_bench.upsert if kind == "keys" else stream_bench.append
    if kind == "partitions":
        stream_bench.partition(stream, name="n")
    write(stream, order(1))
    table, _ = tier(stream_bench, stream)
    write(stream, order(2))

    def die(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LakeTieringClient, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            tier(stream_bench, stream)
    # Maintenance rewrites the table and expires all earlier snapshots.
    bench = stream_bench.bench
    call(bench.spark, table, "rewrite_data_files", options={"rewrite-all": "true"})
    call(bench.spark, table, "expire_snapshots", older_than=TimestampArgument(32_503_680_000_000), retain_last=1)
    assert bench.value(f"SELECT count(*) FROM {table.inside('snapshots')}") == 1
    write(stream, order(3))
    tier(stream_bench, stream)
    assert [row[0] for row in tiered(stream_bench, stream)] == [1, 2, 3]


def test_unreadable_log_is_rejected_before_the_table_is_created(stream_bench: StreamBench) -> None:
    stream = stream_bench.make(properties={"table.log.format": "INDEXED"})
    with pytest.raises(InvalidInput, match="only logs in Arrow format"):
        tier(stream_bench, stream)
    assert not stream_bench.bench.spark.catalog.tableExists(stream_bench.bench.table(DATABASE, stream).sql)
