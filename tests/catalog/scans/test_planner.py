from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lakebed.catalog.scans import PlanningLimits, ScanPlanner, open_scan
from lakebed.core.errors import InvalidInput, NotFound, NotSupported
from lakebed.iceberg.expressions.rendering import render_filter
from lakebed.iceberg.manifests import DataFile, FileContent
from tests.catalog.scans.files import file_of
from tests.catalog.scans.lakes import BY_TEXT, a_lake, a_request, by_text, names, planned
from tests.catalog.validation.lake import Lake, deleted, existing
from tests.iceberg.expressions.columns import BY_NAME
from tests.iceberg.manifests.avro_files import an_entry

POSITIONS, VALUES = FileContent.POSITION_DELETES.value, FileContent.EQUALITY_DELETES.value
I = BY_NAME["i"]  # noqa: E741


def numbers(lake: Lake, name: str, *values: int, **facts: Any) -> DataFile:
    """A file with these values of `i` and their statistics."""
    made = file_of([{"i": value} for value in values], columns=[I])
    return lake.data_file(name, **{**made._asdict(), "file_path": "", **facts})._replace(file_path=_path(name))


def _path(name: str) -> str:
    return f"s3://lake/t/data/{name}"


def equals(value: int) -> dict[str, Any]:
    return {"type": "eq", "term": "i", "value": value}


async def test_table_without_snapshots_has_no_files() -> None:
    assert await planned(a_lake()) == []


async def test_all_live_files_are_found() -> None:
    lake = a_lake()
    a, b, c = (lake.data_file(name) for name in "abc")
    lake.append(a, b)
    lake.snapshot([lake.manifest([deleted(a, 101), existing(b), an_entry(c)])], "overwrite")
    assert await names(lake) == ["b", "c"]
    assert await names(lake, snapshot_id=100) == ["a", "b"]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_tables_of_every_version_are_planned(version: int) -> None:
    lake = a_lake(version)
    lake.append(lake.data_file("a"))
    lake.append(lake.data_file("b"))
    tasks = await planned(lake)
    assert [task.file.file_path for task in tasks] == [_path("b"), _path("a")]
    assert [task.sequence_number for task in tasks] == ([0, 0] if version == 1 else [2, 1])
    assert [task.file.first_row_id for task in tasks] == ([10, 0] if version == 3 else [None, None])


async def test_files_are_pruned_by_statistics() -> None:
    lake = a_lake()
    lake.append(numbers(lake, "low", 1, 2), numbers(lake, "high", 8, 9))
    assert await names(lake, filter=equals(9)) == ["high"]
    assert await names(lake, filter=equals(5)) == []
    assert await names(lake) == ["low", "high"]


async def test_files_are_pruned_by_partition() -> None:
    lake = a_lake()
    for text in ("a", "b"):
        files = [lake.data_file(f"{text}{at}", partition=(text,)) for at in range(2)]
        lake.snapshot([by_text(lake, files), *lake.lines])
    lake.snapshot([by_text(lake, [lake.data_file("null", partition=(None,))]), *lake.lines])
    condition = {"type": "eq", "term": "s", "value": "b"}
    lake.files.reads.clear()
    tasks = await planned(lake, filter=condition)
    assert [task.file.file_path for task in tasks] == [_path("b0"), _path("b1")]
    assert [render_filter(task.residual) for task in tasks] == [True, True]
    assert len([path for path in lake.files.reads if "/m" in path.removeprefix("s3://lake/t/metadata")]) == 1
    assert await names(lake, filter={"type": "is-null", "term": "s"}) == ["null"]
    assert await names(lake, filter={"type": "not-eq", "term": "s", "value": "b"}) == ["null", "a0", "a1"]


async def test_residual_and_statistics_prune_together() -> None:
    lake = a_lake()
    lake.snapshot([by_text(lake, [numbers(lake, "a", 1, partition=("a",)), numbers(lake, "b", 1, partition=("b",))])])

    def both(text: str, number: int) -> dict[str, Any]:
        return {"type": "and", "left": {"type": "eq", "term": "s", "value": text}, "right": equals(number)}

    # By its statistics, each file may match each alternative.
    tasks = await planned(lake, filter={"type": "or", "left": both("a", 1), "right": both("b", 2)})
    assert [(task.file.file_path, render_filter(task.residual)) for task in tasks] == [(_path("a"), equals(1))]


async def test_delete_files_come_with_their_data_files() -> None:
    lake = a_lake()
    old, new = lake.data_file("old"), lake.data_file("new")
    lake.append(old)
    position = lake.data_file("p", content=POSITIONS)
    value = lake.data_file("v", content=VALUES, equality_ids=(1,))
    lake.snapshot(
        [lake.manifest([an_entry(position), an_entry(value)], content=1), lake.manifest([an_entry(new)]), *lake.lines],
        "overwrite",
    )
    for limits in (PlanningLimits(), PlanningLimits(manifests=1)):
        tasks = await planned(lake, limits)
        found = {task.file.file_path: [one.file_path for one in task.deletes] for task in tasks}
        assert found == {_path("new"): [_path("p")], _path("old"): [_path("v"), _path("p")]}
    before = await planned(lake, snapshot_id=100)
    assert [task.deletes for task in before] == [()]


async def test_deletion_vectors_come_with_their_offset() -> None:
    lake = a_lake(3)
    a, b = lake.data_file("a"), lake.data_file("b")
    lake.append(a, b)
    vectors = [an_entry(lake.vector(a.file_path, 4)), an_entry(lake.vector(b.file_path, 44))]
    lake.snapshot([lake.manifest(vectors, content=1), *lake.lines], "delete")
    found = {task.file.file_path: [one.content_offset for one in task.deletes] for task in await planned(lake)}
    assert found == {a.file_path: [4], b.file_path: [44]}


async def test_irrelevant_delete_manifests_are_not_read() -> None:
    lake = a_lake()
    lake.append(lake.data_file("old"))
    for name in ("x", "y"):
        file = lake.data_file(f"d{name}", content=POSITIONS, partition=(name,))
        lake.snapshot([by_text(lake, [file], name=f"deletes-{name}.avro", content=1), *lake.lines], "delete")
    lake.snapshot([by_text(lake, [lake.data_file("new", partition=("x",))]), *lake.lines])
    condition = {"type": "eq", "term": "s", "value": "x"}

    async def read(**request: Any) -> set[str]:
        lake.files.reads.clear()
        await planned(lake, **request)
        return {path.rpartition("/")[2] for path in lake.files.reads if "deletes-" in path}

    assert await read() == {"deletes-x.avro", "deletes-y.avro"}
    assert await read(filter=condition) == {"deletes-x.avro"}
    # Each manifest in its own task: earlier deletes do not apply to the new file.
    assert await read(filter=condition, limits=PlanningLimits(manifests=1)) == {"deletes-x.avro"}


async def test_equality_deletes_excluded_by_the_filter_are_pruned() -> None:
    lake = a_lake()
    lake.append(numbers(lake, "data", 1, 9))
    made = [
        numbers(lake, "few", 1, 4, content=VALUES, equality_ids=(1,)),
        # This delete does not compare the column: deleted rows may have another value.
        numbers(lake, "other", 1, 4, content=VALUES, equality_ids=(2,)),
    ]
    lake.snapshot([lake.manifest([an_entry(one) for one in made], content=1), *lake.lines], "delete")

    async def applied(**request: Any) -> list[str]:
        return [one.file_path for task in await planned(lake, **request) for one in task.deletes]

    assert await applied(filter=equals(9)) == [_path("other")]
    assert await applied(filter=equals(3)) == [_path("few"), _path("other")]


async def test_incremental_scan_finds_appended_files() -> None:
    lake = a_lake()
    lake.append(lake.data_file("a"))
    lake.append(lake.data_file("b"))
    c = lake.data_file("c")
    # A merging append: the new manifest also has the files of the old ones.
    lake.snapshot([lake.manifest([existing(lake.data_file("a")), existing(lake.data_file("b"), 2, 101), an_entry(c)])])
    lake.snapshot([lake.manifest([an_entry(lake.data_file("d"))]), *lake.lines], "overwrite")
    deletes = lake.manifest([an_entry(lake.data_file("x", content=VALUES, equality_ids=(1,)))], content=1)
    lake.snapshot([deletes, *lake.lines], "delete")
    tasks = await planned(lake, start_snapshot_id=100, end_snapshot_id=104)
    assert [task.file.file_path for task in tasks] == [_path("b"), _path("c")]
    assert [task.deletes for task in tasks] == [(), ()]
    assert await names(lake, start_snapshot_id=101, end_snapshot_id=102) == ["c"]
    assert await names(lake, start_snapshot_id=102, end_snapshot_id=102) == []


async def test_planning_ends_with_the_required_rows() -> None:
    lake = a_lake()
    for at in range(10):
        lake.append(lake.data_file(f"{at}", record_count=10))
    assert len(await names(lake, PlanningLimits(), min_rows_requested=25)) == 3
    assert len(await names(lake, min_rows_requested=100)) == 10
    assert len(await names(lake, min_rows_requested=1000)) == 10
    # Rows that are filtered later do not count.
    assert len(await names(lake, min_rows_requested=10, filter={"type": "gt", "term": "i", "value": 3})) == 10


async def test_division_into_tasks_does_not_change_the_result() -> None:
    lake = a_lake()
    for start in range(0, 12, 3):
        lake.append(*(lake.data_file(f"{start + at:02}") for at in range(3)))
    expected = sorted(await names(lake))
    for files in (1, 2, 4, 100):
        for manifests in (1, 3):
            limits = PlanningLimits(files=files, manifests=manifests)
            assert sorted(await names(lake, limits)) == expected


async def test_manifest_list_length_is_checked() -> None:
    lake = a_lake()
    lake.append(lake.data_file("a"))
    scan = open_scan(lake.table, a_request())
    assert not await ScanPlanner(lake.files).is_long(scan)
    assert await ScanPlanner(lake.files, PlanningLimits(inline_list_bytes=10)).is_long(scan)


async def test_snapshot_without_a_manifest_list_is_rejected() -> None:
    lake = a_lake(1)
    lake.snapshot([], manifest_list=None)
    lake.document["snapshots"][0]["manifests"] = ["s3://lake/t/metadata/m.avro"]
    with pytest.raises(NotSupported, match="manifest list"):
        await planned(lake)


async def test_missing_files_are_reported() -> None:
    lake = a_lake()
    lake.append(*(lake.data_file(name) for name in "ab"))
    for _ in range(3):
        lake.append(lake.data_file("c"))
    lake.files.remove(lake.lines[1].path)
    with pytest.raises(NotFound, match="no such file"):
        await planned(lake)


async def test_encrypted_manifests_are_distinguished_from_corrupt_ones() -> None:
    lake = a_lake(3)
    lake.append(lake.data_file("a"))
    lake.files.contents[lake.lines[0].path] = b"AGS1" + bytes(100)
    with pytest.raises(NotSupported, match="encrypted"):
        await planned(lake)
    lake.files.contents[lake.lines[0].path] = b"Obj?" + bytes(100)
    with pytest.raises(InvalidInput, match="avro"):
        await planned(lake)


async def test_manifest_of_an_unknown_spec_is_rejected() -> None:
    lake = a_lake()
    lake.snapshot([lake.manifest([an_entry(lake.data_file("a"))], partition_spec_id=9)])
    with pytest.raises(InvalidInput, match="partition spec"):
        await planned(lake)


async def test_shortened_manifest_list_is_reported() -> None:
    lake = a_lake()
    lake.append(lake.data_file("a"))
    planner, scan = ScanPlanner(lake.files), open_scan(lake.table, a_request())
    (work,) = await planner.divide(scan)
    shorter = a_lake()
    shorter.snapshot([])
    lake.files.contents.update(shorter.files.contents)
    with pytest.raises(InvalidInput, match="shorter than when"):
        await planner.collect(scan, work)


async def test_partition_values_are_matched_by_field_id() -> None:
    lake = a_lake()
    spec = {"spec-id": 2, "fields": [
        {"source-id": 3, "field-id": 1000, "name": "p0", "transform": "identity"},
        {"source-id": 1, "field-id": 1001, "name": "p1", "transform": "bucket[4]"},
    ]}  # fmt: skip
    lake.document["partition-specs"].append(spec)
    lake.document["last-partition-id"] = 1001
    turned = (("p1", ["null", "int"], 1001), *BY_TEXT)
    file = lake.data_file("a", partition=(3, "x"))
    lake.snapshot([lake.manifest([an_entry(file)], partition=turned, partition_spec_id=2)])
    (task,) = await planned(lake)
    assert task.partition == ("x", 3)


async def test_unneeded_reads_are_cancelled() -> None:
    lake = a_lake()
    for _ in range(4):
        lake.append(lake.data_file())
    scan = open_scan(lake.table, a_request())
    (work,) = await ScanPlanner(lake.files).divide(scan)
    cancelled: list[str] = []
    broken = lake.lines[0].path

    class Stuck:
        async def read(self, location: str, limit: int) -> bytes:
            if "/snap-" in location:
                return await lake.files.read(location, limit)
            if location == broken:
                raise NotFound(location)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(location)
                raise
            return b""

        stat = lake.files.stat

    with pytest.raises(NotFound):
        await ScanPlanner(Stuck()).collect(scan, work)
    await asyncio.sleep(0)
    assert len(cancelled) == 3
