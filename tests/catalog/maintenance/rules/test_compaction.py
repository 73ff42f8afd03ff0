from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.reachability.files import ObjectKind, Reason
from lakebed.catalog.maintenance.reachability.walking import LiveFiles, ReachabilityProblem
from lakebed.catalog.maintenance.rules.compaction import (
    CompactionRequest,
    CompactionStatus,
    check_compaction,
    plan_compaction,
)
from lakebed.core.errors import InvalidInput
from lakebed.iceberg.manifests import DataFile
from tests.iceberg.manifests.avro_files import a_file

REQUEST = CompactionRequest(
    target_file_size_bytes=1000, small_file_threshold_bytes=100, min_input_files=2, max_rewrite_bytes_per_job=1000
)


def files(*sizes: int, **facts: Any) -> list[DataFile]:
    return [
        a_file(f"s3://lake/t/data/{number}.parquet", file_size_in_bytes=size, **facts)
        for number, size in enumerate(sizes)
    ]


def live(data: list[DataFile], deletes: list[DataFile] | None = None) -> LiveFiles:
    return LiveFiles(data, deletes or [], [])


def test_small_files_of_one_partition_form_a_group() -> None:
    report = plan_compaction(7, live(files(10, 20, 101, 100)), REQUEST)
    assert report.status is CompactionStatus.REWRITE_CANDIDATES
    (group,) = report.groups
    assert (group.input_files, group.input_bytes) == (3, 130)
    assert (report.candidate_files, report.candidate_bytes, report.group_count, report.snapshot_id) == (3, 130, 1, 7)


def test_groups_do_not_mix_partitions_specs_orders_or_formats() -> None:
    alike = files(10, 10)
    others = [
        a_file("s3://lake/t/data/p.parquet", file_size_in_bytes=10, partition=("eu",)),
        a_file("s3://lake/t/data/s.parquet", file_size_in_bytes=10, spec_id=1),
        a_file("s3://lake/t/data/o.parquet", file_size_in_bytes=10, sort_order_id=3),
        a_file("s3://lake/t/data/f.orc", file_size_in_bytes=10, file_format="ORC"),
    ]
    report = plan_compaction(1, live([*alike, *others]), REQUEST)
    (group,) = report.groups
    assert group.input_locations == tuple(file.file_path for file in alike)


def test_large_groups_are_split_and_small_ones_dropped() -> None:
    request = msgspec.structs.replace(REQUEST, max_rewrite_bytes_per_job=1000, small_file_threshold_bytes=400)
    report = plan_compaction(1, live(files(400, 400, 400, 400, 400)), request)
    assert [group.input_files for group in report.groups] == [2, 2]
    assert plan_compaction(1, live(files(10)), REQUEST).status is CompactionStatus.NO_CANDIDATES
    assert plan_compaction(None, live([]), REQUEST).status is CompactionStatus.NO_CANDIDATES


def test_delete_files_are_reported_and_do_not_prevent_compaction() -> None:
    deletes = [
        a_file("s3://lake/t/data/p.parquet", content=1),
        a_file("s3://lake/t/data/e.parquet", content=2, equality_ids=(1,)),
        a_file("s3://lake/t/data/v.puffin", content=1, content_offset=4, content_size_in_bytes=9),
        a_file("s3://lake/t/data/v.puffin", content=1, content_offset=40, content_size_in_bytes=9),
    ]
    report = plan_compaction(1, live(files(10, 10), deletes), REQUEST)
    assert report.status is CompactionStatus.REWRITE_CANDIDATES
    row_level = report.row_level
    assert (row_level.position_delete_files, row_level.equality_delete_files, row_level.deletion_vectors) == (1, 1, 2)
    assert row_level.delete_files == 4
    assert len(row_level.delete_locations) == 3


def test_unreadable_files_require_manual_review() -> None:
    problem = ReachabilityProblem("s3://lake/t/metadata/m.avro", ObjectKind.MANIFEST_FILE, Reason.MISSING_OBJECT)
    report = plan_compaction(1, LiveFiles(files(10, 10), [], [problem]), REQUEST)
    assert report.status is CompactionStatus.MANUAL_REVIEW_REQUIRED
    assert report.reasons == (Reason.MISSING_OBJECT,)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"target_file_size_bytes": 0}, "target-file-size-bytes"),
        ({"small_file_threshold_bytes": 0}, "small-file-threshold-bytes"),
        ({"small_file_threshold_bytes": 1001}, "small-file-threshold-bytes"),
        ({"min_input_files": 1}, "min-input-files"),
        ({"max_rewrite_bytes_per_job": 0}, "max-rewrite-bytes-per-job"),
        ({"max_rewrite_bytes_per_job": 999}, "max-rewrite-bytes-per-job"),
    ],
)
def test_error_names_the_invalid_field(change: dict[str, int], argument: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_compaction(msgspec.structs.replace(REQUEST, **change))
    assert refused.value.argument == argument
    assert check_compaction(REQUEST) is REQUEST


@given(
    st.lists(
        st.tuples(st.integers(1, 150), st.sampled_from([("eu",), ("us",)]), st.sampled_from([None, 1])), max_size=30
    ),
    st.integers(2, 5),
    st.integers(1000, 3000),
)
def test_groups_are_disjoint_uniform_and_bounded(
    drawn: list[tuple[int, tuple[str], int | None]], least: int, most: int
) -> None:
    request = msgspec.structs.replace(REQUEST, min_input_files=least, max_rewrite_bytes_per_job=most)
    data = [
        a_file(f"s3://lake/t/data/{number}.parquet", file_size_in_bytes=size, partition=partition, sort_order_id=order)
        for number, (size, partition, order) in enumerate(drawn)
    ]
    by_path = {file.file_path: file for file in data}
    report = plan_compaction(1, live(data), request)
    seen: set[str] = set()
    for group in report.groups:
        members = [by_path[path] for path in group.input_locations]
        assert len(members) == group.input_files >= least
        assert group.input_bytes == sum(file.file_size_in_bytes for file in members) <= most
        assert all(file.file_size_in_bytes <= request.small_file_threshold_bytes for file in members)
        assert len({(file.partition, file.sort_order_id) for file in members}) == 1
        assert seen.isdisjoint(group.input_locations)
        seen.update(group.input_locations)
    assert (report.status is CompactionStatus.REWRITE_CANDIDATES) == bool(report.groups)
