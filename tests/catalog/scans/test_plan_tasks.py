from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.scans import TableScan, open_scan
from lakebed.catalog.scans.plan_tasks import ManifestSlice, PlanningLimits, Work, divide
from lakebed.iceberg.manifests import FieldSummary, ManifestFile
from tests.catalog.scans.lakes import a_lake, a_request
from tests.iceberg.manifests.avro_files import a_manifest


def a_scan(*operations: str, **request: Any) -> TableScan:
    lake = a_lake()
    for operation in operations or ("append",):
        lake.snapshot([], operation)
    return open_scan(lake.table, a_request(**request))


def line(added: int | None = 1, existing: int | None = 0, deleted: int | None = 0, **facts: Any) -> ManifestFile:
    counts = {"added_files_count": added, "existing_files_count": existing, "deleted_files_count": deleted}
    return a_manifest(**{**counts, **facts})


def divided(*manifests: ManifestFile, scan: TableScan | None = None, **limits: Any) -> tuple[Work, ...]:
    return divide(scan or a_scan(), {100: manifests}, PlanningLimits(**limits))


def test_small_plan_is_one_task() -> None:
    assert divided(line(), line(5)) == ((ManifestSlice(100, 0), ManifestSlice(100, 1)),)
    assert divided() == ()


def test_empty_manifests_are_omitted() -> None:
    nothing = line(0, 0, 3), line(content=1)
    assert divided(*nothing, line(0, 1), *nothing) == ((ManifestSlice(100, 2),),)
    assert divided(line(None, 0)) == ((ManifestSlice(100, 0),),)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"files": 4}, [[0, 1], [2], [3, 4]]),
        ({"manifests": 2}, [[0, 1], [2, 3], [4]]),
        ({"manifest_bytes": 25}, [[0, 1], [2, 3], [4]]),
        ({"manifest_bytes": 1}, [[0], [1], [2], [3], [4]]),
        ({}, [[0, 1, 2, 3, 4]]),
    ],
)
def test_large_plan_is_divided(limits: dict[str, Any], expected: list[list[int]]) -> None:
    manifests = [line(count, length=10) for count in (2, 2, 4, 1, 1)]
    assert [[one.manifest for one in unit] for unit in divided(*manifests, **limits)] == expected


def test_manifest_over_the_limit_is_read_in_slices() -> None:
    units = divided(line(3, 4, 2), files=4)
    assert units == ((ManifestSlice(100, 0, 0, 4),), (ManifestSlice(100, 0, 4, 8),), (ManifestSlice(100, 0, 8, None),))


def test_long_filter_makes_small_tasks() -> None:
    values = list(range(100))
    scan = a_scan(filter={"type": "in", "term": "i", "values": values})
    assert scan.filter_size == 101
    units = divided(line(5), line(5), scan=scan, residual_values=303)
    assert [len(range(5)[one.start : one.stop]) for unit in units for one in unit] == [3, 2, 3, 2]
    assert divided(line(2), scan=scan, residual_values=1) == (
        (ManifestSlice(100, 0, 0, 1),),
        (ManifestSlice(100, 0, 1, None),),
    )


def test_manifest_without_counts_fills_a_task() -> None:
    assert divided(line(1), line(None, None, None), line(1), files=4) == (
        (ManifestSlice(100, 0),),
        (ManifestSlice(100, 1),),
        (ManifestSlice(100, 2),),
    )


def test_manifests_of_other_partitions_are_pruned() -> None:
    scan = a_scan(filter={"type": "eq", "term": "s", "value": "b"})
    others = [
        line(partition_spec_id=1, partitions=(FieldSummary(False, None, text, text),)) for text in (b"a", b"b", b"c")
    ]
    assert divided(*others, line(), scan=scan) == ((ManifestSlice(100, 1), ManifestSlice(100, 3)),)
    assert divided(line(), scan=a_scan(filter=False)) == ()


def test_incremental_scan_reads_what_each_snapshot_added() -> None:
    scan = a_scan("append", "append", "append", start_snapshot_id=100, end_snapshot_id=102)
    lists = {
        101: [line(added_snapshot_id=101), line(added_snapshot_id=100)],
        102: [line(added_snapshot_id=102), line(added_snapshot_id=101), line(0, 5, added_snapshot_id=102)],
    }
    assert divide(scan, lists, PlanningLimits()) == ((ManifestSlice(101, 0), ManifestSlice(102, 0)),)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=8),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_every_entry_is_in_exactly_one_task(counts: list[tuple[int, int, int]], files: int, manifests: int) -> None:
    units = divided(*(line(*one) for one in counts), files=files, manifests=manifests)
    read = [
        (one.manifest, entry)
        for unit in units
        for one in unit
        for entry in range(sum(counts[one.manifest]))[one.start : one.stop]
    ]
    expected = [(at, entry) for at, one in enumerate(counts) if one[0] + one[1] for entry in range(sum(one))]
    assert read == expected
    assert all(len(unit) <= manifests for unit in units)
