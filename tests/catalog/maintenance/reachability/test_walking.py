from __future__ import annotations

from typing import Any

import pytest

from lakebed.catalog.maintenance.reachability.files import ObjectKind, Reason
from lakebed.catalog.maintenance.reachability.walking import ReachabilityProblem, Walker, WalkLimits, walk_root
from lakebed.iceberg.manifests import EntryStatus
from tests.catalog.validation.lake import Lake, deleted, existing
from tests.iceberg.manifests.avro_files import an_entry


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_data_and_delete_manifests_are_followed(version: int) -> None:
    lake = Lake(version)
    first, second = lake.data_file("a.parquet"), lake.data_file("b.parquet")
    lake.append(first)
    lines = [lake.manifest([an_entry(second)])]
    if version > 1:
        content = {1: 0, 2: 1, 3: 1}[version]
        gone: Any = lake.vector(first.file_path) if version == 3 else lake.data_file("d.parquet", content=1)
        lines.append(lake.manifest([an_entry(gone)], content=content))
    lake.snapshot([*lines, *lake.lines], "overwrite")
    reached = await Walker(lake.files).walk([walk_root(lake.table)])
    assert reached.problems == []
    assert reached.data_files == {first.file_path, second.file_path}
    assert len(reached.delete_files) == (0 if version == 1 else 1)
    assert reached.snapshots == {100, 101}
    assert len(reached.manifest_lists) == 2
    assert len(reached.manifests) == (2 if version == 1 else 3)


async def test_deleted_entries_are_not_references() -> None:
    lake = Lake()
    first, second = lake.data_file("a.parquet"), lake.data_file("b.parquet")
    lake.append(first, second)
    lake.snapshot([lake.manifest([existing(second), deleted(first, lake.next_id)])], "delete")
    (current,) = [one for one in lake.table.snapshots.values() if one.snapshot_id == lake.current]
    reached = await Walker(lake.files).walk([walk_root(lake.table)._replace(snapshots=(current,))])
    assert reached.data_files == {second.file_path}


async def test_each_file_is_read_once_and_data_files_never() -> None:
    lake = Lake()
    for _ in range(5):
        lake.append(lake.data_file())
    await Walker(lake.files).walk([walk_root(lake.table), walk_root(lake.table)])
    assert len(lake.files.reads) == len(set(lake.files.reads)) == 10
    assert all(location.endswith(".avro") for location in lake.files.reads)
    assert lake.files.stats == []


async def test_locations_with_other_schemes_name_the_same_files() -> None:
    lake = Lake()
    lake.append(lake.data_file("a.parquet"))
    lake.document["snapshots"][0]["manifest-list"] = f"s3a://lake/t/metadata/snap-{lake.current}.avro"
    reached = await Walker(lake.files).walk([walk_root(lake.table)])
    assert reached.manifest_lists == {f"s3://lake/t/metadata/snap-{lake.current}.avro"}


async def test_inline_manifests_are_followed() -> None:
    lake = Lake(1)
    file = lake.data_file("a.parquet")
    line = lake.manifest([an_entry(file, EntryStatus.ADDED)])
    lake.snapshot([line])
    del lake.document["snapshots"][0]["manifest-list"]
    lake.document["snapshots"][0]["manifests"] = [line.path]
    reached = await Walker(lake.files).walk([walk_root(lake.table)])
    assert reached.problems == []
    assert (reached.manifests, reached.data_files) == ({line.path}, {file.file_path})
    assert [one.file_path for one in (await Walker(lake.files).live_files(lake.table.snapshots[100])).data] == [
        file.file_path
    ]


async def test_encrypted_manifests_cannot_be_followed() -> None:
    lake = Lake(3)
    file = lake.data_file("a.parquet")
    lake.snapshot([lake.manifest([an_entry(file._replace(first_row_id=0))], key_metadata=b"secret")])
    reached = await Walker(lake.files).walk([walk_root(lake.table)])
    (problem,) = reached.problems
    assert (problem.kind, problem.reason) == (ObjectKind.MANIFEST_FILE, Reason.UNSUPPORTED_MANIFEST_AVRO)
    lake.document["snapshots"][0]["key-id"] = "k"
    lake.files.reads.clear()
    reached = await Walker(lake.files).walk([walk_root(lake.table)])
    (problem,) = reached.problems
    assert problem.kind is ObjectKind.MANIFEST_LIST
    assert lake.files.reads == []


async def test_exceeded_limits_are_reported_as_a_problem() -> None:
    lake = Lake()
    for _ in range(3):
        lake.append(lake.data_file(), lake.data_file())
    too_many = ReachabilityProblem("", ObjectKind.MANIFEST_FILE, Reason.TOO_MANY_FILES)
    few_manifests = Walker(lake.files, WalkLimits(manifests=2))
    assert (await few_manifests.walk([walk_root(lake.table)])).problems == [too_many]
    snapshot = lake.table.current_snapshot
    assert snapshot is not None
    assert (await few_manifests.live_files(snapshot)).problems == [too_many]
    few_files = Walker(lake.files, WalkLimits(files=5))
    (problem,) = (await few_files.walk([walk_root(lake.table)])).problems
    assert (problem.kind, problem.reason) == (ObjectKind.DATA_FILE, Reason.TOO_MANY_FILES)
    assert (await Walker(lake.files, WalkLimits(manifests=3, files=6)).walk([walk_root(lake.table)])).problems == []
    # The limit applies to the counts in the manifest list: no manifest is read.
    lake.files.reads.clear()
    live = await few_files.live_files(snapshot)
    assert (live.data, live.problems, len(live.manifests)) == ([], [problem], 3)
    assert len(lake.files.reads) == 1


async def test_manifests_are_known_from_the_manifest_list() -> None:
    lake = Lake()
    lake.append(lake.data_file())
    lake.append(lake.data_file())
    snapshot = lake.table.current_snapshot
    assert snapshot is not None
    lake.files.reads.clear()
    manifests, problems = await Walker(lake.files).manifests(snapshot)
    assert (list(manifests), problems) == (lake.lines, [])
    assert lake.files.reads == [snapshot.manifest_list]
    assert (await Walker(lake.files).live_files(snapshot)).manifests == manifests
    lake.files.remove(snapshot.manifest_list or "")
    manifests, (problem,) = await Walker(lake.files).manifests(snapshot)
    assert (manifests, problem.reason) == ((), Reason.MISSING_OBJECT)
