"""Compaction with every strategy and every kind of delete."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind, Option
from lakebed.pipeline.files.table_shape import TableShape
from lakebed.pipeline.jobs.compaction import JOB, RowOrder, action_options, read_arrangement
from lakebed.pipeline.spark.iceberg_jvm import load_table
from lakebed.pipeline.table_ref import CatalogTable
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing


def with_spark(function: Any) -> Any:  # Any: a test
    """Marks a test that needs Spark."""
    for mark in (*SPARK_MARKS, pytest.mark.heavy):
        function = mark(function)
    return function


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, RowOrder("binpack", None)),
        ({"strategy": "sort"}, RowOrder("sort", None)),
        ({"sort-order": "a DESC"}, RowOrder("sort", "a DESC")),
        ({"zorder-columns": ["a", "odd`name"]}, RowOrder("sort", "zorder(`a`, `odd``name`)")),
    ],
)
def test_strategy_follows_from_the_options(options: dict[str, Option], expected: RowOrder) -> None:
    assert read_arrangement(JOB.check(options)) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "binpack", "sort-order": "a"},
        {"strategy": "sort", "zorder-columns": ["a"]},
        {"strategy": "zorder"},
        {"strategy": "hilbert"},
        {"min-input-files": 0},
        {"delete-ratio-threshold": 2},
    ],
)
def test_contradicting_options_are_rejected(options: dict[str, Option]) -> None:
    with pytest.raises(InvalidInput):
        read_arrangement(JOB.check(options))


def test_table_delete_ratio_is_used_without_per_file_counts() -> None:
    few, many = TableShape(rows=100, deleted_rows=9), TableShape(rows=100, deleted_rows=10)
    assert "delete-file-threshold" not in action_options(JOB.check({}), few)
    assert action_options(JOB.check({}), many)["delete-file-threshold"] == "1"
    assert action_options(JOB.check({"delete-file-threshold": 7}), many)["delete-file-threshold"] == "7"
    assert "delete-file-threshold" not in action_options(JOB.check({"delete-ratio-threshold": 0.5}), many)


# -- with Spark -------------------------------------------------------------------------------------------------------


@pytest.fixture
def scattered(bench: Bench, namespace: str) -> CatalogTable:
    """A table of two partitions with six files each."""
    table = bench.table(namespace)
    bench.sql(f"CREATE TABLE {table.sql} (id BIGINT, name STRING, part INT) USING iceberg PARTITIONED BY (part)")
    for number in range(6):
        bench.sql(
            f"INSERT INTO {table.sql} SELECT id, concat('name-', 100 - id), CAST(id % 2 AS INT)"
            f" FROM range({number * 10}, {number * 10 + 10}, 1, 1)"
        )
    return table


@with_spark
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sort-order": "name DESC NULLS LAST"},
        {"zorder-columns": ["id", "name"]},
        {"partial-progress": True, "partial-progress-max-commits": 2},
    ],
    ids=["binpack", "sort", "zorder", "partial-progress"],
)
def test_small_files_become_one_per_partition(
    bench: Bench, scattered: CatalogTable, options: dict[str, Option]
) -> None:
    before, checksum = bench.rows(scattered), bench.checksum(scattered)
    report = bench.do(JobKind.COMPACT, scattered, options)
    assert (report.read.files, report.wrote.files, report.saved.files) == (12, 2, 10)
    assert report.wrote.bytes > 0
    assert report.wrote.rows == 60
    assert len(report.snapshots) == (2 if "partial-progress" in options else 1)
    assert len(bench.files(scattered)) == 2
    assert bench.rows(scattered) == before
    assert bench.checksum(scattered) == checksum
    if "sort-order" in options:
        names = [row[0] for row in bench.sql(f"SELECT name FROM {scattered.sql} WHERE part = 0")]
        assert names == sorted(names, reverse=True)
    again = bench.do(JobKind.COMPACT, scattered, options)
    assert changed_nothing(again, "none of 2 files qualifies")
    assert again.snapshots == ()


@with_spark
def test_where_and_sizes_select_files(bench: Bench, scattered: CatalogTable) -> None:
    planned = bench.do(JobKind.COMPACT, scattered, {"where": "part = 1"}, dry_run=True)
    assert (planned.read.files, planned.wrote.files, planned.changed) == (6, 1, False)
    assert changed_nothing(bench.do(JobKind.COMPACT, scattered, {"min-input-files": 7}), "fewer than 7 per partition")
    report = bench.do(JobKind.COMPACT, scattered, {"where": "part = 1"})
    assert (report.read.files, report.wrote.files) == (6, 1)
    assert len(bench.files(scattered)) == 7
    everything = bench.do(JobKind.COMPACT, scattered, {"rewrite-all": True, "target-file-size-bytes": "64MiB"})
    assert (everything.read.files, everything.wrote.files) == (7, 2)
    for wrong in ({"where": "nonsense = 1"}, {"where": "part ="}, {"sort-order": "nonsense"}):
        with pytest.raises(InvalidInput):
            bench.do(JobKind.COMPACT, scattered, {**wrong, "rewrite-all": True})


@with_spark
def test_position_deletes_are_applied_and_remaining_ones_compacted(bench: Bench, namespace: str) -> None:
    table = bench.table(namespace)
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '2',"
        " 'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition')"
    )
    bench.sql(f"INSERT INTO {table.sql} SELECT id FROM range(0, 1000, 1, 1)")
    for number in range(3):
        bench.sql(f"DELETE FROM {table.sql} WHERE id = {number}")
    checksum = bench.checksum(table)
    # Three deleted rows of a thousand: below the threshold for data files, but delete files are compacted.
    report = bench.do(JobKind.COMPACT, table, {"rewrite-deletes": True})
    assert report.after is not None
    assert (report.read.files, report.wrote.files, report.after.position_deletes) == (3, 1, 1)
    assert bench.checksum(table) == checksum
    assert changed_nothing(bench.do(JobKind.COMPACT, table, {"rewrite-deletes": True}), "the table has 1;")
    bench.sql(f"DELETE FROM {table.sql} WHERE id < 100")
    left, checksum = bench.rows(table), bench.checksum(table)
    report = bench.do(JobKind.COMPACT, table)
    assert report.after is not None
    assert (report.after.data_files, report.after.delete_files, report.after.rows) == (1, 0, 900)
    assert bench.rows(table) == left
    assert bench.checksum(table) == checksum


@with_spark
@pytest.mark.parametrize("partitioned", [False, True])
def test_equality_deletes_are_applied_and_removed(bench: Bench, s3: Any, namespace: str, partitioned: bool) -> None:
    table = bench.table(namespace)
    divided = "PARTITIONED BY (part)" if partitioned else ""
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT, part INT) USING iceberg {divided} TBLPROPERTIES ('format-version' = '2')"
    )
    bench.sql(f"INSERT INTO {table.sql} SELECT id, CAST(1 AS INT) FROM range(0, 10, 1, 1)")
    delete_equal(bench, s3, table, [2, 3], part=1 if partitioned else None)
    bench.sql(f"INSERT INTO {table.sql} VALUES (3, 1)")  # after the delete: not deleted
    left = [(id_, 1) for id_ in range(10) if id_ not in (2,)]
    assert bench.rows(table) == left
    checksum = bench.checksum(table)
    report = bench.do(JobKind.COMPACT, table)
    assert report.before is not None
    assert report.after is not None
    assert (report.before.equality_deletes, report.after.equality_deletes) == (1, 0)
    assert bench.rows(table) == left
    assert bench.checksum(table) == checksum
    assert changed_nothing(bench.do(JobKind.COMPACT, table), "0% of the rows are deleted")


def delete_equal(bench: Bench, s3: Any, table: CatalogTable, ids: list[int], part: int | None) -> None:
    """Commit an equality delete file, as streaming writers do. Spark itself writes none."""
    field = pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ids}, schema=pa.schema([field])), sink)
    body = sink.getvalue().to_pybytes()
    loaded = load_table(bench.spark, table, "a test")
    path = f"{loaded.location()}/data/equality-{table.ref.table}.parquet"
    bucket, _, key = path.removeprefix("s3://").partition("/")
    s3.put_object(Bucket=bucket, Key=key, Body=body)
    java: Any = bench.spark._jvm
    builder = (
        java.org.apache.iceberg.FileMetadata.deleteFileBuilder(loaded.spec())
        .ofEqualityDeletes(_ints(bench, 1))
        .withPath(path)
        .withFormat("parquet")
        .withFileSizeInBytes(len(body))
        .withRecordCount(len(ids))
    )
    if part is not None:
        builder = builder.withPartitionPath(f"part={part}")
    loaded.newRowDelta().addDeletes(builder.build()).commit()


def _ints(bench: Bench, *values: int) -> Any:  # Any: a Java array
    gateway: Any = bench.spark.sparkContext._gateway
    made = gateway.new_array(gateway.jvm.int, len(values))
    for index, value in enumerate(values):
        made[index] = value
    return made


@with_spark
def test_deletion_vectors_are_applied_and_row_ids_kept(bench: Bench, namespace: str) -> None:
    table = bench.table(namespace)
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT, state STRING) USING iceberg TBLPROPERTIES ('format-version' = '3',"
        " 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')"
    )
    bench.sql(f"INSERT INTO {table.sql} SELECT id, 'old' FROM range(0, 20, 1, 1)")
    bench.sql(f"DELETE FROM {table.sql} WHERE id < 3")
    bench.sql(f"UPDATE {table.sql} SET state = 'new' WHERE id = 10")
    query = f"SELECT id, state, _row_id, _last_updated_sequence_number FROM {table.sql} ORDER BY id"
    lineage, checksum = bench.sql(query), bench.checksum(table)
    assert bench.files(table, "delete_files") != []
    report = bench.do(JobKind.COMPACT, table, {"rewrite-deletes": True})
    assert report.after is not None
    assert (report.after.deletion_vectors, report.after.rows) == (0, 17)
    assert bench.sql(query) == lineage
    assert bench.checksum(table) == checksum


@with_spark
def test_compaction_works_with_remote_signing(bench: Bench, signed_bench: Bench, scattered: CatalogTable) -> None:
    before = bench.rows(scattered)
    same = signed_bench.table(scattered.ref.namespace[0])
    assert signed_bench.do(JobKind.COMPACT, same).wrote.files == 2
    assert bench.rows(scattered) == before


@with_spark
def test_concurrent_appends_lose_no_rows(bench: Bench, scattered: CatalogTable) -> None:
    """Appends during the compaction do not fail, and no row is lost or duplicated."""
    over = threading.Event()

    def write() -> int:
        number = 1000
        while not over.is_set():
            bench.sql(f"INSERT INTO {scattered.sql} VALUES ({number}, 'late', 1)")
            number += 1
        return number

    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(write)
        try:
            for _ in range(3):
                bench.do(JobKind.COMPACT, scattered, {"min-input-files": 2, "partial-progress": True})
        finally:
            over.set()
        last = writer.result()
    assert last > 1000
    assert [row[0] for row in bench.rows(scattered)] == [*range(60), *range(1000, last)]
    bench.checksum(scattered)


@with_spark
def test_empty_table_is_skipped(bench: Bench, namespace: str) -> None:
    table = bench.table(namespace)
    bench.sql(f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg")
    for kind in (JobKind.COMPACT, JobKind.REWRITE_MANIFESTS, JobKind.COMPUTE_STATISTICS):
        assert changed_nothing(bench.do(kind, table), "the table is empty")
