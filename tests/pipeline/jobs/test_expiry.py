"""Expiration of snapshots, branches and tags."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lakebed.core.jobs import JobKind
from lakebed.pipeline.table_ref import CatalogTable
from tests.clients.boto import all_keys
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


@pytest.fixture
def written(bench: Bench, namespace: str) -> CatalogTable:
    """A table with four snapshots; the last has one file instead of the others."""
    table = bench.table(namespace)
    bench.sql(f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg")
    for number in range(3):
        bench.sql(f"INSERT INTO {table.sql} SELECT id FROM range({number * 5}, {number * 5 + 5}, 1, 1)")
    bench.do(JobKind.COMPACT, table, {"min-input-files": 2})
    time.sleep(0.01)  # so that the maximum age of 0 has passed
    return table


def snapshots(bench: Bench, table: CatalogTable) -> list[int]:
    return [row[0] for row in bench.sql(f"SELECT snapshot_id FROM {table.inside('snapshots')} ORDER BY committed_at")]


def test_files_of_expired_snapshots_only_are_deleted(bench: Bench, s3: Any, written: CatalogTable) -> None:
    ids, checksum = snapshots(bench, written), bench.checksum(written)
    assert changed_nothing(bench.do(JobKind.EXPIRE_SNAPSHOTS, written), "none has expired")
    planned = bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {"max-snapshot-age-ms": 0}, dry_run=True)
    assert planned.details["expired-snapshots"] == [str(one) for one in ids[:-1]]
    assert changed_nothing(planned, "counted only when they are removed")
    assert snapshots(bench, written) == ids
    kept = bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {"max-snapshot-age-ms": 0, "min-snapshots-to-keep": 2})
    assert snapshots(bench, written) == ids[-2:]
    assert kept.details["deleted-manifest-lists-count"] == 2
    assert kept.details["deleted-data-files-count"] == 0
    report = bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {"max-snapshot-age-ms": 0})
    assert report.details["deleted-data-files-count"] == 3
    assert report.removed.bytes > 0
    assert bench.checksum(written) == checksum
    live = bench.files(written)
    prefix = live[0].removeprefix(f"s3://{bench.lake.warehouse}/").partition("/data/")[0]
    stored = [key for key in all_keys(s3, bench.lake.warehouse, prefix + "/") if key.endswith(".parquet")]
    assert [f"s3://{bench.lake.warehouse}/{key}" for key in stored] == live
    assert changed_nothing(bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {"max-snapshot-age-ms": 0}), "none has expired")


def test_branches_and_tags_retain_snapshots_until_they_expire(bench: Bench, written: CatalogTable) -> None:
    ids = snapshots(bench, written)
    bench.sql(f"ALTER TABLE {written.sql} CREATE TAG first AS OF VERSION {ids[0]}")
    bench.sql(f"ALTER TABLE {written.sql} CREATE BRANCH second AS OF VERSION {ids[1]}")
    bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {"max-snapshot-age-ms": 0})
    assert snapshots(bench, written) == [ids[0], ids[1], ids[3]]
    assert bench.value(f"SELECT count(*) FROM {written.sql} VERSION AS OF 'first'") == 5
    options = {"max-snapshot-age-ms": 0, "max-ref-age-ms": 1}
    planned = bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {**options}, dry_run=True)
    assert planned.details["expired-refs"] == ["first", "second"]
    bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {**options})
    assert snapshots(bench, written) == [ids[3]]
    assert [row[0] for row in bench.sql(f"SELECT name FROM {written.inside('refs')}")] == ["main"]


def test_table_properties_are_minimum_limits(bench: Bench, written: CatalogTable) -> None:
    bench.sql(f"ALTER TABLE {written.sql} SET TBLPROPERTIES ('history.expire.min-snapshots-to-keep' = '3')")
    bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {"max-snapshot-age-ms": 0})
    assert len(snapshots(bench, written)) == 3
    bench.sql(f"ALTER TABLE {written.sql} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    assert changed_nothing(
        bench.do(JobKind.EXPIRE_SNAPSHOTS, written, {"max-snapshot-age-ms": 0}), "gc.enabled is false"
    )
    assert changed_nothing(bench.do(JobKind.REMOVE_ORPHANS, written), "gc.enabled is false")
