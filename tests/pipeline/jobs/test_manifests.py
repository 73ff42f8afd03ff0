"""Rewriting of manifests."""

from __future__ import annotations

import pytest

from lakebed.core.jobs import JobKind
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


@pytest.mark.parametrize("version", [2, 3])
def test_many_manifests_become_one(bench: Bench, namespace: str, version: int) -> None:
    table = bench.table(namespace)
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '{version}',"
        " 'write.delete.mode' = 'merge-on-read')"
    )
    for number in range(4):
        bench.sql(f"INSERT INTO {table.sql} SELECT id FROM range({number * 10}, {number * 10 + 10}, 1, 1)")
    bench.sql(f"DELETE FROM {table.sql} WHERE id = 3")
    checksum = bench.checksum(table)
    lineage = "_row_id" if version == 3 else "id"
    before = bench.sql(f"SELECT id, {lineage} FROM {table.sql} ORDER BY id")
    planned = bench.do(JobKind.REWRITE_MANIFESTS, table, dry_run=True)
    assert (planned.read.files, planned.wrote.files, planned.changed) == (5, 2, False)
    report = bench.do(JobKind.REWRITE_MANIFESTS, table)
    assert report.after is not None
    assert (report.read.files, report.wrote.files, report.saved.files, report.after.manifests) == (4, 1, 3, 2)
    assert len(report.snapshots) == 1
    assert bench.sql(f"SELECT id, {lineage} FROM {table.sql} ORDER BY id") == before
    assert bench.checksum(table) == checksum
    assert changed_nothing(
        bench.do(JobKind.REWRITE_MANIFESTS, table), "a rewrite to 8MiB would not reduce their number"
    )


def test_target_size_option_is_applied(bench: Bench, namespace: str) -> None:
    table = bench.table(namespace)
    bench.sql(f"CREATE TABLE {table.sql} (id BIGINT) USING iceberg")
    for number in range(3):
        bench.sql(f"INSERT INTO {table.sql} VALUES ({number})")
    assert bench.do(JobKind.REWRITE_MANIFESTS, table, {"target-manifest-size-bytes": "1MiB"}).changed
    properties = dict(bench.sql(f"SHOW TBLPROPERTIES {table.sql}"))
    assert properties["commit.manifest.target-size-bytes"] == str(2**20)


def test_manifests_of_every_partition_spec_are_rewritten(bench: Bench, namespace: str) -> None:
    table = bench.table(namespace)
    # Otherwise the first commit with the new spec would merge the manifests.
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT, part INT) USING iceberg"
        " TBLPROPERTIES ('commit.manifest-merge.enabled' = 'false')"
    )
    for number in range(2):
        bench.sql(f"INSERT INTO {table.sql} VALUES ({number}, 1)")
    bench.sql(f"ALTER TABLE {table.sql} ADD PARTITION FIELD part")
    for number in range(2):
        bench.sql(f"INSERT INTO {table.sql} VALUES ({number}, 2)")
    assert changed_nothing(
        bench.do(JobKind.REWRITE_MANIFESTS, table, {"spec-id": 7}), "no manifests of partition spec 7"
    )
    one = bench.do(JobKind.REWRITE_MANIFESTS, table, {"spec-id": 0})
    assert (one.read.files, one.wrote.files) == (2, 1)
    other = bench.do(JobKind.REWRITE_MANIFESTS, table)
    assert (other.read.files, other.wrote.files) == (2, 1)
    assert any("partition spec 0" in skipped.what for skipped in other.skipped)
    assert bench.value(f"SELECT count(*) FROM {table.sql}") == 4
