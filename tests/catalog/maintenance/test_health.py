from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.maintenance.health import (
    Measured,
    health_from_files,
    health_from_summary,
    small_below_bytes,
    target_file_bytes,
)
from lakebed.catalog.maintenance.reachability.walking import Walker
from lakebed.iceberg.manifests import FileContent
from tests.catalog.validation.lake import Lake
from tests.iceberg.manifests.avro_files import a_file, an_entry

from .subjects import MIB, NOW_MS, a_table, known, lines, live, totals


def added(files: int, size: int, **more: int) -> dict[str, str]:
    return {"added-data-files": str(files), "added-files-size": str(size)} | {
        key.replace("_", "-"): str(one) for key, one in more.items()
    }


def test_health_follows_from_the_snapshot_summary() -> None:
    table = a_table(
        totals(1, 1),
        totals(40, 400, total_delete_files=3, total_position_deletes=300, total_equality_deletes=100),
        ages_ms=(9_000, 1_000),
        properties={"write.target-file-size-bytes": "100"},
        metadata_log=[{"metadata-file": "s3://lake/t/metadata/0.json", "timestamp-ms": NOW_MS - 9_000}],
    )
    health = health_from_summary(known(), table, last_maintained={"compact-table": 5})
    assert (health.warehouse, health.namespace, health.table, health.entry) == ("lake", ("ns",), "t", "e")
    assert (health.snapshots, health.metadata_files, health.format_version) == (2, 2, 2)
    assert (health.oldest_snapshot_ms, health.current_snapshot_ms) == (NOW_MS - 9_000, NOW_MS - 1_000)
    assert (health.data_files, health.data_bytes, health.average_file_bytes) == (40, 400, 10.0)
    assert (health.small_files, health.small_below_bytes) == (40, 75)
    assert (health.delete_files, health.delete_ratio) == (3, 0.1)
    assert (health.manifests, health.specs_in_use, health.deletion_vectors) == (None, None, None)
    assert (health.last_maintained, health.measured) == ({"compact-table": 5}, Measured.SUMMARY)


def test_unknown_numbers_are_none() -> None:
    shown = msgspec.to_builtins(health_from_summary(known(), a_table({})))
    assert shown["measured"] == "summary"
    assert shown["small-below-bytes"] == 384 * MIB
    assert {"data-files", "small-files", "delete-ratio", "manifests", "specs-in-use"}.isdisjoint(shown)


def test_table_without_a_snapshot_has_exact_zeros() -> None:
    health = health_from_summary(known(), a_table())
    assert (health.data_files, health.small_files, health.manifests, health.specs_in_use) == (0, 0, 0, ())
    assert (health.oldest_snapshot_ms, health.current_snapshot_ms, health.delete_ratio) == (None, None, 0.0)


@pytest.mark.parametrize(
    ("summaries", "small"),
    [
        # Large files do not hide small ones in the average.
        ([totals(10, 10_000) | added(10, 10_000), totals(18, 10_008) | added(8, 8)], 8),
        # Large files do not make earlier files small.
        ([totals(10, 10_000) | added(10, 10_000), totals(11, 11_000) | added(1, 1_000)], 0),
        # Files removed by a rewrite no longer count as added.
        (
            [
                totals(50, 50) | added(50, 50),
                totals(1, 1_000) | added(1, 1_000, deleted_data_files=50) | {"operation": "replace"},
            ],
            0,
        ),
        # Files that it kept count by their average.
        (
            [
                totals(50, 50) | added(50, 50),
                totals(21, 1_020) | added(1, 1_000, deleted_data_files=30) | {"operation": "replace"},
            ],
            20,
        ),
        # An expired history leaves only the average.
        ([totals(30, 300)], 30),
        ([totals(30, 30_000)], 0),
    ],
)
def test_small_files_are_estimated_from_added_files(summaries: list[dict[str, str]], small: int) -> None:
    assert health_from_summary(known(), a_table(*summaries), small_below=100).small_files == small


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "9" * 30, "１"])
def test_invalid_summary_numbers_are_unknown(text: str) -> None:
    health = health_from_summary(known(), a_table(totals(1, 1) | {"total-data-files": text}))
    assert (health.data_files, health.small_files) == (None, None)


def test_health_from_files_is_exact() -> None:
    deletes = [
        a_file("s3://lake/t/d.parquet", content=FileContent.POSITION_DELETES.value, record_count=30),
        a_file("s3://lake/t/e.parquet", content=FileContent.EQUALITY_DELETES.value, record_count=5, equality_ids=(1,)),
        a_file("s3://lake/t/v.puffin", content=1, record_count=5, content_offset=4, content_size_in_bytes=9),
    ]
    found = live(10, 20, 100, 1000, deletes=deletes, manifests=3)
    health = health_from_files(known(), a_table({}), found, small_below=100)
    assert (health.data_files, health.data_bytes, health.small_files, health.small_bytes) == (4, 1130, 3, 130)
    assert (health.delete_files, health.position_deletes, health.equality_deletes) == (3, 35, 5)
    assert (health.deletion_vectors, health.records, health.delete_ratio) == (1, 400, 0.1)
    assert (health.manifests, health.manifest_bytes, health.specs_in_use) == (3, 30_000, (0,))
    assert health.measured is Measured.MANIFESTS


def test_manifest_list_gives_manifests_and_specs() -> None:
    manifests = (
        *lines(2),
        *lines(1, partition_spec_id=1, length=5),
        *lines(1, partition_spec_id=2, added_files_count=0, existing_files_count=0),
        *lines(1, partition_spec_id=3, added_files_count=None),
    )
    health = health_from_summary(known(), a_table({}), manifests=manifests)
    assert (health.manifests, health.manifest_bytes, health.specs_in_use) == (5, 40_005, (0, 1, 3))


def test_statistics_are_of_the_newest_retained_snapshot() -> None:
    def file(snapshot: int) -> dict[str, object]:
        return {
            "snapshot-id": snapshot,
            "statistics-path": f"s3://lake/t/{snapshot}.puffin",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }

    table = a_table({}, {}, {}, ages_ms=(3, 2, 1), statistics=[file(101), file(100), file(7)])
    assert health_from_summary(known(), table).statistics_snapshot == 101


def test_target_size_is_the_table_property_or_the_default() -> None:
    assert target_file_bytes(a_table()) == 512 * MIB
    assert target_file_bytes(a_table(properties={"write.target-file-size-bytes": "1000"})) == 1000
    assert target_file_bytes(a_table(properties={"write.target-file-size-bytes": "large"})) == 512 * MIB
    assert small_below_bytes(1000) == 750


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5_000), st.integers(0, 20)), min_size=1, max_size=20))
def test_estimate_never_exceeds_the_totals(commits: list[tuple[int, int, int]]) -> None:
    files = size = 0
    summaries = []
    for added_files, added_bytes, removed in commits:
        removed = min(removed, files)
        files, size = files + added_files - removed, max(0, size + added_bytes - removed)
        summaries.append(totals(files, size) | added(added_files, added_bytes, deleted_data_files=removed))
    health = health_from_summary(known(), a_table(*summaries), small_below=100)
    assert health.small_files is not None
    assert health.small_bytes is not None
    assert 0 <= health.small_files <= files
    assert 0 <= health.small_bytes <= size


async def test_summary_and_files_agree_on_a_real_table() -> None:
    lake = Lake()
    sizes = [50, 60, 7_000]
    for number, size in enumerate(sizes):
        file = lake.data_file(file_size_in_bytes=size, record_count=10)
        total = {"total-data-files": str(number + 1), "total-files-size": str(sum(sizes[: number + 1]))}
        summary = {"operation": "append", "added-data-files": "1", "added-files-size": str(size), **total}
        lake.snapshot([lake.manifest([an_entry(file)]), *lake.lines], summary=summary)
    table = lake.table
    assert table.current_snapshot is not None
    exact = health_from_files(known(), table, await Walker(lake.files).live_files(table.current_snapshot))
    rough = health_from_summary(known(), table)
    for field in ("data_files", "data_bytes", "small_files", "small_bytes", "average_file_bytes", "snapshots"):
        assert getattr(exact, field) == getattr(rough, field)
