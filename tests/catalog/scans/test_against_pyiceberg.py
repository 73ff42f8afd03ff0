"""Tables written by PyIceberg, planned by it and by us."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

from lakebed.catalog.scans import PlanningLimits, ScanPlanner, open_scan, parse_request
from lakebed.iceberg.metadata import TableMetadata, parse_table
from tests.catalog.validation.test_real_writers import LOCATION, LocalFiles, LocalIO, Recorder
from tests.iceberg.expressions.columns import BY_NAME, EPOCH, ColumnSample
from tests.iceberg.expressions.filters import RandomFilter, document, matches, random_filters, to_pyiceberg

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning:pyiceberg")]

SCHEMA = Schema(
    NestedField(1, "l", LongType(), required=False),
    NestedField(2, "s", StringType(), required=False),
    NestedField(3, "ts", TimestampType(), required=False),
    NestedField(4, "d", DoubleType(), required=False),
)
BY_DAY = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "s"), PartitionField(3, 1001, DayTransform(), "ts_day")
)
HOUR = timedelta(hours=1)


COLUMNS: list[ColumnSample] = [
    replace(BY_NAME["l"], values=st.integers(0, 60)),
    replace(BY_NAME["s"], values=st.sampled_from(["", "a", "eu", "eux", "us", "zz"])),
    replace(BY_NAME["ts"], values=st.integers(0, 80).map(lambda hours: hours * 3_600_000_000)),
    replace(BY_NAME["d"], values=st.sampled_from([-1.5, 0.0, 0.5, 7.0])),
]


class Warehouse(Recorder):
    """A table with several specs, several commits and deleted rows."""

    def __init__(self, root: Path, version: int) -> None:
        super().__init__(root, version, PartitionSpec())
        self.io = LocalIO({"root": str(root)})
        metadata = new_table_metadata(SCHEMA, BY_DAY, UNSORTED_SORT_ORDER, LOCATION, {"format-version": str(version)})
        self.table = Table(("ns", "t"), metadata, f"{LOCATION}/metadata/0.json", self.io, self)
        self.files = LocalFiles(root)
        for start in (0, 7, 14):
            self.table.append(some_rows(start, start + 7))
        if version > 1:  # in version 1, PyIceberg keeps dropped fields as void and then fails on them
            with self.table.update_spec() as spec:
                spec.remove_field("s")
                spec.remove_field("ts_day")
                spec.add_field("l", BucketTransform(4), "l_bucket")
                spec.add_field("s", TruncateTransform(1), "s_first")
        self.table.append(some_rows(21, 35))
        self.table.delete("l = 3 or l = 23")
        if version > 1:
            with self.table.update_spec() as spec:
                spec.remove_field("l_bucket")
                spec.remove_field("s_first")
        self.table.append(some_rows(35, 50))
        self.rows = self.table.scan().to_arrow().to_pylist()

    @property
    def ours(self) -> TableMetadata:
        return parse_table(self.table.metadata.model_dump_json().encode())

    def read(self, path: str) -> list[dict[str, Any]]:
        return [in_planning_s_form(row) for row in pq.read_table(self.files.path(path)).to_pylist()]


def some_rows(start: int, stop: int) -> pa.Table:
    """Rows with non-null partitions: PyIceberg's residuals fail on null."""
    regions = ["eu", "us", "zz", "eux", ""]
    numbers = range(start, stop)
    return pa.table(
        {
            "l": pa.array(numbers, pa.int64()),
            "s": pa.array([regions[at % 5] for at in numbers], pa.string()),
            "ts": pa.array([EPOCH + at * HOUR for at in numbers], pa.timestamp("us")),
            "d": pa.array([None if at % 4 == 0 else at / 2 - 5 for at in numbers], pa.float64()),
        }
    )


def in_planning_s_form(row: dict[str, Any]) -> dict[str, Any]:
    moment = row["ts"]
    return {**row, "ts": None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)}


@pytest.fixture(scope="module", params=[1, 2])
def warehouse(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(tmp_path_factory.mktemp("warehouse"), request.param)


async def plan(warehouse: Warehouse, drawn: RandomFilter, limits: PlanningLimits) -> set[str]:
    planner, scan = (
        ScanPlanner(warehouse.files, limits),
        open_scan(warehouse.ours, parse_request({"filter": document(drawn)})),
    )
    return {task.file.file_path for work in await planner.divide(scan) for task in await planner.collect(scan, work)}


def plan_of_pyiceberg(warehouse: Warehouse, drawn: RandomFilter) -> set[str]:
    return {task.file.file_path for task in warehouse.table.scan(row_filter=to_pyiceberg(drawn)).plan_files()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(random_filters(COLUMNS), st.sampled_from([1, 3, 1000]))
def test_plans_match_pyiceberg(warehouse: Warehouse, drawn: RandomFilter, files: int) -> None:
    ours = asyncio.run(plan(warehouse, drawn, PlanningLimits(files=files, manifests=2)))
    theirs = plan_of_pyiceberg(warehouse, drawn)
    # Ours may be fewer, because we also check the residual against a file's statistics.
    assert ours <= theirs
    found = [row for path in ours for row in warehouse.read(path) if matches(drawn, row)]
    expected = [row for row in map(in_planning_s_form, warehouse.rows) if matches(drawn, row)]
    assert sorted(row["l"] for row in found) == sorted(row["l"] for row in expected)
    assert not {path for path in theirs - ours if any(matches(drawn, row) for row in warehouse.read(path))}


def test_filter_prunes_files(warehouse: Warehouse) -> None:
    everything = asyncio.run(plan(warehouse, (True,), PlanningLimits()))
    for drawn in (("eq", "s", "eu"), ("eq", "l", 7), ("lt", "ts", 3 * 3_600_000_000), ("gt", "d", 15.0)):
        some = asyncio.run(plan(warehouse, drawn, PlanningLimits()))
        assert some < everything
        assert some == {
            task.file.file_path for task in warehouse.table.scan(row_filter=to_pyiceberg(drawn)).plan_files()
        }
