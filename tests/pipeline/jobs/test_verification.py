"""Verification finds missing, truncated and damaged files, and reports intact tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.core.jobs import JobKind
from lakebed.pipeline.table_ref import CatalogTable
from tests.clients.boto import body_of
from tests.pipeline.bench import SPARK_MARKS, Bench

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


@pytest.fixture
def table(bench: Bench, namespace: str) -> CatalogTable:
    """Four files, one with a deleted row, with columns of every kind."""
    table = bench.table(namespace)
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT, name STRING, odd MAP<STRING, INT>, deep STRUCT<a: ARRAY<INT>>)"
        " USING iceberg TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    for number in range(4):
        bench.sql(
            f"INSERT INTO {table.sql} SELECT id, repeat(uuid(), 20), map('a', CAST(id AS INT)),"
            f" named_struct('a', array(1, 2)) FROM range({number * 100}, {number * 100 + 100}, 1, 1)"
        )
    bench.sql(f"DELETE FROM {table.sql} WHERE id = 5")
    return table


def key_of(bench: Bench, path: str) -> str:
    return path.removeprefix(f"s3://{bench.lake.warehouse}/")


def test_intact_table_has_no_problems(bench: Bench, table: CatalogTable) -> None:
    report = bench.do(JobKind.VERIFY, table)
    assert report.is_well
    # Metadata, a manifest list, five manifests, four data files, a delete file.
    assert report.read.files == 12
    assert (report.read.rows, report.details["live-rows"]) == (400, 399)
    assert "checksum" not in report.details
    everything = bench.do(JobKind.VERIFY, table, {"all-snapshots": True, "rows": False})
    assert everything.read.files == 16
    assert any("not requested" in one.reason for one in everything.skipped)


def test_checksum_depends_on_rows_not_on_files(bench: Bench, table: CatalogTable) -> None:
    checksum = bench.checksum(table)
    bench.do(JobKind.COMPACT, table, {"rewrite-all": True, "sort-order": "name"})
    assert bench.checksum(table) == checksum
    bench.sql(f"UPDATE {table.sql} SET odd = map('b', 1) WHERE id = 7")
    assert bench.checksum(table) != checksum


def test_missing_and_truncated_files_are_reported(bench: Bench, s3: Any, table: CatalogTable) -> None:
    bucket = bench.lake.warehouse
    gone, cut, *_ = bench.files(table, "data_files")
    body = body_of(s3, bucket, key_of(bench, cut))
    s3.delete_object(Bucket=bucket, Key=key_of(bench, gone))
    s3.put_object(Bucket=bucket, Key=key_of(bench, cut), Body=body[:-100])
    report = bench.do(JobKind.VERIFY, table)
    assert {(one.what, one.problem) for one in report.problems} == {(gone, "missing"), (cut, "size")}
    assert any("restore them" in one.reason for one in report.skipped)


def test_missing_and_damaged_manifests_are_reported(bench: Bench, s3: Any, table: CatalogTable) -> None:
    bucket = bench.lake.warehouse
    manifest = bench.value(f"SELECT path FROM {table.inside('manifests')} LIMIT 1")
    listed = bench.value(f"SELECT manifest_list FROM {table.inside('snapshots')} ORDER BY committed_at LIMIT 1")
    body = body_of(s3, bucket, key_of(bench, manifest))
    s3.put_object(Bucket=bucket, Key=key_of(bench, manifest), Body=bytes(len(body)))
    (damaged,) = bench.do(JobKind.VERIFY, table).problems
    assert (damaged.what, damaged.problem) == (str(table), "unreadable")
    s3.delete_object(Bucket=bucket, Key=key_of(bench, manifest))
    (missing,) = bench.do(JobKind.VERIFY, table).problems
    assert (missing.what, missing.problem) == (manifest, "missing")
    s3.delete_object(Bucket=bucket, Key=key_of(bench, listed))
    (lost,) = bench.do(JobKind.VERIFY, table, {"all-snapshots": True}).problems
    assert (lost.what, lost.problem) == (listed, "missing")


def test_damaged_data_file_is_found(bench: Bench, s3: Any, table: CatalogTable) -> None:
    bucket = bench.lake.warehouse
    victim = bench.files(table, "data_files")[2]
    body = body_of(s3, bucket, key_of(bench, victim))
    s3.put_object(Bucket=bucket, Key=key_of(bench, victim), Body=_damaged(body))
    # The footer with the row count is intact.
    assert bench.do(JobKind.VERIFY, table).is_well
    report = bench.do(JobKind.VERIFY, table, {"checksums": True})
    assert [(one.what, one.problem) for one in report.problems] == [(victim, "unreadable")]


def test_file_whose_row_count_differs_from_its_manifest_is_found(bench: Bench, s3: Any, table: CatalogTable) -> None:
    bucket = bench.lake.warehouse
    first, second, *_ = bench.files(table, "data_files")
    bench.sql(f"INSERT INTO {table.sql} SELECT 1, 'x', NULL, NULL FROM range(0, 3, 1, 1)")
    small = bench.value(f"SELECT file_path FROM {table.inside('data_files')} ORDER BY file_size_in_bytes LIMIT 1")
    body, size = body_of(s3, bucket, key_of(bench, small)), len(body_of(s3, bucket, key_of(bench, first)))
    # The same size: otherwise the size check would find it.
    s3.put_object(Bucket=bucket, Key=key_of(bench, first), Body=_grown(body, size))
    report = bench.do(JobKind.VERIFY, table)
    assert [(one.what, one.problem) for one in report.problems] == [(first, "rows")]
    assert "has 3 rows; manifest count is 100" in report.problems[0].detail
    assert second not in {one.what for one in report.problems}


def _damaged(body: bytes) -> bytes:
    """A Parquet file whose compressed data is damaged."""
    chunk = pq.ParquetFile(pa.BufferReader(body)).metadata.row_group(0).column(1)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    end = start + chunk.total_compressed_size
    middle = (start + end) // 2
    return body[:middle] + bytes(one ^ 0xFF for one in body[middle:end]) + body[end:]


def _grown(body: bytes, size: int) -> bytes:
    """A Parquet file with garbage between columns and footer, which readers skip by the footer's offsets."""
    footer = int.from_bytes(body[-8:-4], "little") + 8
    return body[:-footer] + bytes(size - len(body)) + body[-footer:]
