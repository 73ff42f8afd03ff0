"""Statistics of columns and partitions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.table_ref import CatalogTable
from tests.clients.boto import body_of
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


def metadata(bench: Bench, s3: Any, table: CatalogTable) -> Any:  # Any: JSON
    newest = bench.value(f"SELECT file FROM {table.inside('metadata_log_entries')} ORDER BY timestamp DESC LIMIT 1")
    return json.loads(body_of(s3, bench.lake.warehouse, newest.removeprefix(f"s3://{bench.lake.warehouse}/")))


def test_statistics_are_computed_once_per_snapshot(bench: Bench, s3: Any, namespace: str) -> None:
    table = bench.table(namespace)
    bench.sql(
        f"CREATE TABLE {table.sql} USING iceberg PARTITIONED BY (part) AS SELECT id, id % 2 AS part FROM range(90)"
    )
    assert bench.do(JobKind.COMPUTE_STATISTICS, table, dry_run=True).wrote.files == 2
    report = bench.do(JobKind.COMPUTE_STATISTICS, table, {"columns": ["id"]})
    assert (report.changed, report.wrote.files) == (True, 2)
    (kept,) = metadata(bench, s3, table)["statistics"]
    assert kept["statistics-path"] == report.details["statistics-file"]
    assert [blob["properties"] for blob in kept["blob-metadata"]] == [{"ndv": "90"}]
    assert len(metadata(bench, s3, table)["partition-statistics"]) == 1
    assert changed_nothing(bench.do(JobKind.COMPUTE_STATISTICS, table, {"columns": ["id"]}), "has them")
    more = bench.do(JobKind.COMPUTE_STATISTICS, table, {"columns": ["id", "part"]})
    assert (more.changed, more.wrote.files) == (True, 1)
    bench.sql(f"INSERT INTO {table.sql} VALUES (100, 0)")
    assert bench.do(JobKind.COMPUTE_STATISTICS, table, {"partition-statistics": False}).wrote.files == 1
    bench.checksum(table)


def test_unknown_column_is_rejected(bench: Bench, namespace: str) -> None:
    table = bench.table(namespace)
    bench.sql(f"CREATE TABLE {table.sql} USING iceberg AS SELECT id FROM range(3)")
    with pytest.raises(InvalidInput, match="nonsense"):
        bench.do(JobKind.COMPUTE_STATISTICS, table, {"columns": ["nonsense"]})
