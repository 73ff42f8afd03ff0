"""Removal of orphan files."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind, Option
from lakebed.pipeline.files.listing import directories_of
from lakebed.pipeline.jobs.orphans import JOB, window
from lakebed.pipeline.table_ref import CatalogTable
from tests.clients.boto import all_keys
from tests.pipeline.bench import SPARK_MARKS, Bench, changed_nothing


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 3 * 86_400_000),
        ({"older-than-ms": "24h"}, 86_400_000),
        ({"older-than-ms": "7d"}, 7 * 86_400_000),
        ({"older-than-ms": 5, "allow-young": True}, 5),
    ],
)
def test_window_follows_the_option(options: dict[str, Option], expected: int) -> None:
    assert window(JOB.check(options)) == expected


@pytest.mark.parametrize("options", [{"older-than-ms": 0}, {"older-than-ms": "23h"}])
def test_window_below_a_day_is_rejected_unless_allowed(options: dict[str, Option]) -> None:
    with pytest.raises(InvalidInput, match="younger than a day"):
        window(JOB.check(options))


class TestWithSpark:
    pytestmark: ClassVar = [*SPARK_MARKS, pytest.mark.heavy]

    @pytest.fixture
    def table(self, bench: Bench, namespace: str) -> CatalogTable:
        table = bench.table(namespace)
        bench.sql(f"CREATE TABLE {table.sql} USING iceberg AS SELECT id FROM range(5)")
        bench.sql(f"INSERT INTO {table.sql} VALUES (5)")
        return table

    @staticmethod
    def prefix(bench: Bench, table: CatalogTable) -> str:
        (location,) = directories_of(bench.spark, table)
        return location.removeprefix(f"s3://{bench.lake.warehouse}/") + "/"

    def test_only_orphans_are_removed(self, bench: Bench, s3: Any, table: CatalogTable) -> None:
        bucket, prefix = bench.lake.warehouse, self.prefix(bench, table)
        checksum, known = bench.checksum(table), set(all_keys(s3, bucket, prefix))
        lost = {f"{prefix}data/lost-{number}.parquet" for number in range(3)}
        for key in lost:
            s3.put_object(Bucket=bucket, Key=key, Body=b"lost")
        assert changed_nothing(bench.do(JobKind.REMOVE_ORPHANS, table), "younger than 3d")
        young: dict[str, Option] = {"older-than-ms": 0, "allow-young": True}
        planned = bench.do(JobKind.REMOVE_ORPHANS, table, young, dry_run=True)
        assert (planned.removed.files, planned.removed.bytes, planned.changed) == (3, 12, False)
        refused = bench.do(JobKind.REMOVE_ORPHANS, table, {**young, "max-delete": 2})
        assert changed_nothing(refused, "more than max-delete=2")
        assert set(all_keys(s3, bucket, prefix)) == known | lost
        report = bench.do(JobKind.REMOVE_ORPHANS, table, {**young, "max-delete": 3})
        assert (report.removed.files, report.removed.bytes, report.changed) == (3, 12, True)
        assert report.details["orphans"] == sorted(f"s3://{bucket}/{key}" for key in lost)
        assert set(all_keys(s3, bucket, prefix)) == known
        assert bench.checksum(table) == checksum
        assert changed_nothing(bench.do(JobKind.REMOVE_ORPHANS, table, young), "all are referred to")

    def test_only_the_given_directories_are_listed(self, bench: Bench, s3: Any, table: CatalogTable) -> None:
        bucket, prefix = bench.lake.warehouse, self.prefix(bench, table)
        for folder in ("data", "metadata"):
            s3.put_object(Bucket=bucket, Key=f"{prefix}{folder}/lost.parquet", Body=b"lost")
        young: dict[str, Option] = {"older-than-ms": 0, "allow-young": True}
        report = bench.do(JobKind.REMOVE_ORPHANS, table, {**young, "locations": [f"s3://{bucket}/{prefix}metadata"]})
        assert report.details["orphans"] == [f"s3://{bucket}/{prefix}metadata/lost.parquet"]
        for elsewhere in (f"s3://{bucket}", f"s3://{bucket}/{prefix[:-2]}", "s3://other/x"):
            with pytest.raises(InvalidInput, match="not a directory of the table"):
                bench.do(JobKind.REMOVE_ORPHANS, table, {"locations": [elsewhere]})
        assert bench.do(JobKind.REMOVE_ORPHANS, table, young).removed.files == 1
