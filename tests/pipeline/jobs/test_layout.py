"""Rewriting files of older partition specs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakebed.core.jobs import JobKind
from lakebed.pipeline.files import rewriting
from lakebed.pipeline.files.staged_scans import read_staged
from lakebed.pipeline.table_ref import CatalogTable
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


@pytest.fixture(params=[2, 3])
def evolved(request: pytest.FixtureRequest, bench: Bench, namespace: str) -> CatalogTable:
    """Files of three specs, with deletes. The current spec is by part, sorted by name."""
    table = bench.table(namespace)
    bench.sql(
        f"CREATE TABLE {table.sql} (id BIGINT, name STRING, part INT) USING iceberg"
        f" TBLPROPERTIES ('format-version' = '{request.param}', 'write.delete.mode' = 'merge-on-read')"
    )

    def write(start: int) -> None:
        bench.sql(
            f"INSERT INTO {table.sql} SELECT id, concat('n', 1000 - id), CAST(id % 3 AS INT)"
            f" FROM range({start}, {start + 30}, 1, 1)"
        )

    write(0)
    write(30)
    bench.sql(f"ALTER TABLE {table.sql} ADD PARTITION FIELD bucket(2, id)")
    write(60)
    bench.sql(f"DELETE FROM {table.sql} WHERE id IN (3, 33, 63)")
    bench.sql(f"ALTER TABLE {table.sql} REPLACE PARTITION FIELD id_bucket_2 WITH part")
    bench.sql(f"ALTER TABLE {table.sql} WRITE ORDERED BY name")
    write(90)
    return table


def test_only_files_of_older_specs_are_rewritten(bench: Bench, evolved: CatalogTable) -> None:
    current = bench.value(f"SELECT max(spec_id) FROM {evolved.inside('data_files')}")
    before, checksum = bench.rows(evolved), bench.checksum(evolved)
    kept = {
        row[0] for row in bench.sql(f"SELECT file_path FROM {evolved.inside('data_files')} WHERE spec_id = {current}")
    }
    planned = bench.do(JobKind.REWRITE_LAYOUT, evolved, dry_run=True)
    assert (planned.read.rows, planned.changed) == (90, False)
    report = bench.do(JobKind.REWRITE_LAYOUT, evolved)
    assert report.after is not None
    assert (report.changed, report.read.rows, report.wrote.rows) == (True, 90, 87)
    assert (report.after.specs_in_use, len(report.snapshots)) == (1, 1)
    assert kept <= set(bench.files(evolved, "data_files"))
    assert bench.rows(evolved) == before
    assert bench.checksum(evolved) == checksum
    for path, lower, upper in bench.sql(
        f"SELECT file_path, readable_metrics.part.lower_bound, readable_metrics.part.upper_bound"
        f" FROM {evolved.inside('data_files')}"
    ):
        assert lower == upper, path
    assert changed_nothing(bench.do(JobKind.REWRITE_LAYOUT, evolved), "current partition spec")


def test_groups_are_committed_separately(bench: Bench, evolved: CatalogTable) -> None:
    before, checksum = bench.rows(evolved), bench.checksum(evolved)
    report = bench.do(JobKind.REWRITE_LAYOUT, evolved, {"max-file-group-size-bytes": 1})
    assert len(report.snapshots) == report.read.files == 4
    assert bench.rows(evolved) == before
    assert bench.checksum(evolved) == checksum


@pytest.mark.parametrize("evolved", [3], indirect=True)  # earlier versions have no row ids
def test_layout_rewrite_keeps_row_ids(bench: Bench, evolved: CatalogTable) -> None:
    query = f"SELECT id, _row_id, _last_updated_sequence_number FROM {evolved.sql} ORDER BY id"
    before = bench.sql(query)
    bench.do(JobKind.REWRITE_LAYOUT, evolved)
    assert bench.sql(query) == before


def test_rewrite_is_planned_again_after_a_commit_conflict(
    bench: Bench, evolved: CatalogTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete in the rewritten files between plan and commit is kept, and the job retries."""
    attempts: list[str] = []

    def read_late(spark: SparkSession, name: str) -> DataFrame:
        found = read_staged(spark, name)
        if not attempts:
            bench.sql(f"DELETE FROM {evolved.sql} WHERE id < 30")
        attempts.append(name)
        return found

    monkeypatch.setattr(rewriting, "read_staged", read_late)
    expected = [row for row in bench.rows(evolved) if row[0] >= 30]
    report = bench.do(JobKind.REWRITE_LAYOUT, evolved)
    assert len(attempts) == 2
    assert report.after is not None
    assert report.after.specs_in_use == 1
    assert bench.rows(evolved) == expected
    bench.checksum(evolved)
