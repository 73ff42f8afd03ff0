"""Scan responses, in the format of the REST specification and as parsed by PyIceberg."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pyiceberg.catalog.rest.scan_planning import PlanCompleted
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import FileScanTask as PyFileScanTask

from lakebed.catalog.scans import open_scan
from lakebed.catalog.scans.documents import render_tasks
from lakebed.iceberg.manifests import FileContent
from tests.catalog.scans.files import file_of
from tests.catalog.scans.lakes import a_lake, a_request, by_text, planned
from tests.catalog.validation.lake import Lake
from tests.iceberg.expressions.columns import COLUMNS
from tests.iceberg.expressions.filters import Row
from tests.iceberg.manifests.avro_files import an_entry

A, B = "s3://lake/t/data/a", "s3://lake/t/data/b"
ROW: Row = {
    "i": 5, "l": 2**40, "s": "ab", "f": float("inf"), "d": 1.5, "b": True, "dt": 17_486, "ts": 1_510_871_468_000_001,
    "tz": 1_510_871_468_000_001, "tns": 1_510_871_468_000_001_001, "dec": -1420, "u": bytes(15) + b"\x01",
    "bin": b"\x00\xff", "fx": b"\x0a\x0b", "tm": 1,
}  # fmt: skip
WRITTEN = {
    1: 5, 2: 2**40, 3: "ab", 4: "Infinity", 5: 1.5, 6: True, 7: "2017-11-16", 8: "2017-11-16T22:31:08.000001",
    9: "2017-11-16T22:31:08.000001+00:00", 10: "2017-11-16T22:31:08.000001001", 11: "-14.20",
    12: "00000000-0000-0000-0000-000000000001", 13: "00FF", 14: "0A0B", 15: "00:00:00.000001",
}  # fmt: skip


async def rendered(lake: Lake, **request: Any) -> dict[str, Any]:
    scan = open_scan(lake.table, a_request(**request))
    document = render_tasks(scan, await planned(lake, **request), ["more"])
    assert msgspec.json.decode(msgspec.json.encode(document)) == document
    return document


def a_map(values: dict[int, Any]) -> dict[str, Any]:
    return {"keys": list(values), "values": list(values.values())}


async def test_data_file_is_rendered_with_its_fields() -> None:
    lake = a_lake()
    lake.append(lake.data_file("a", record_count=7, file_size_in_bytes=99))
    assert await rendered(lake) == {
        "plan-tasks": ["more"],
        "file-scan-tasks": [
            {
                "data-file": {
                    "content": "data",
                    "file-path": A,
                    "file-format": "parquet",
                    "spec-id": 0,
                    "partition": [],
                    "file-size-in-bytes": 99,
                    "record-count": 7,
                },
                "residual-filter": True,
            }
        ],
        "delete-files": [],
    }


async def test_optional_fields_are_rendered_if_present() -> None:
    lake = a_lake(3)
    facts = {"key_metadata": b"\xab\x01", "split_offsets": (4, 100), "sort_order_id": 0}
    lake.append(lake.data_file("a", **facts))
    (task,) = (await rendered(lake))["file-scan-tasks"]
    written = {name: task["data-file"][name] for name in list(task["data-file"])[7:]}
    assert written == {
        "key-metadata": "AB01",
        "split-offsets": [4, 100],
        "sort-order-id": 0,
        "first-row-id": 0,
        "data-sequence-number": 1,
    }


async def test_partitions_are_lists_in_the_order_of_their_spec() -> None:
    lake = a_lake()
    files = [lake.data_file("a", partition=("x",)), lake.data_file("b", partition=(None,))]
    lake.snapshot([by_text(lake, files)])
    tasks = (await rendered(lake))["file-scan-tasks"]
    assert [task["data-file"]["partition"] for task in tasks] == [["x"], [None]]
    assert [task["data-file"]["spec-id"] for task in tasks] == [1, 1]


async def test_statistics_are_limited_to_the_requested_columns() -> None:
    lake = a_lake(3)
    file = file_of([ROW], column_sizes={1: 50, 2: 60}, file_path=A)
    lake.files.put(A, 1)
    lake.append(file)
    (task,) = (await rendered(lake, stats_fields=["l", "i", "f"]))["file-scan-tasks"]
    written = {name: task["data-file"][name] for name in list(task["data-file"])[9:]}
    assert written == {
        "column-sizes": a_map({1: 50, 2: 60}),
        "value-counts": a_map({1: 1, 2: 1, 4: 1}),
        "null-value-counts": a_map({1: 0, 2: 0, 4: 0}),
        "nan-value-counts": a_map({4: 0}),
        "lower-bounds": a_map({1: 5, 2: 2**40, 4: "Infinity"}),
        "upper-bounds": a_map({1: 5, 2: 2**40, 4: "Infinity"}),
    }
    for request in ({}, {"filter": {"type": "eq", "term": "i", "value": 5}}, {"stats_fields": ["nothing"]}):
        (task,) = (await rendered(lake, **request))["file-scan-tasks"]
        assert "value-counts" not in task["data-file"]


async def test_bounds_of_every_type_are_single_values() -> None:
    lake = a_lake(3)
    lake.append(file_of([ROW], file_path=A))
    (task,) = (await rendered(lake, stats_fields=[column.name for column in COLUMNS]))["file-scan-tasks"]
    assert task["data-file"]["lower-bounds"] == a_map(WRITTEN)


async def test_invalid_bounds_are_omitted() -> None:
    lake = a_lake()
    lake.append(lake.data_file("a", lower_bounds={1: b"?", 2: bytes(8)}, upper_bounds=None))
    (task,) = (await rendered(lake, stats_fields=["i", "l"]))["file-scan-tasks"]
    assert task["data-file"]["lower-bounds"] == a_map({2: 0})
    assert "upper-bounds" not in task["data-file"]


async def test_delete_files_are_listed_once_and_referenced_by_index() -> None:
    lake = a_lake(3)
    lake.append(lake.data_file("a"), lake.data_file("b"))
    everywhere = lake.data_file("v", content=FileContent.EQUALITY_DELETES.value, equality_ids=(1, 2))
    made = [everywhere, lake.vector(A, 4), lake.vector(B, 44)]
    lake.snapshot([lake.manifest([an_entry(one) for one in made], content=1), *lake.lines], "delete")
    document = await rendered(lake)
    assert [task["delete-file-references"] for task in document["file-scan-tasks"]] == [[0, 1], [0, 2]]
    values, first, second = document["delete-files"]
    assert (values["content"], values["equality-ids"]) == ("equality-deletes", [1, 2])
    assert first == {
        "content": "position-deletes",
        "file-path": "s3://lake/t/data/v.puffin",
        "file-format": "puffin",
        "spec-id": 0,
        "partition": [],
        "file-size-in-bytes": 1000,
        "record-count": 10,
        "referenced-data-file": A,
        "content-offset": 4,
        "content-size-in-bytes": 40,
    }
    assert second["content-offset"] == 44


async def test_pyiceberg_parses_rendered_tasks() -> None:
    lake = a_lake(3)
    lake.append(lake.data_file("a"), file_of([ROW], file_path=B))
    lake.snapshot([lake.manifest([an_entry(lake.vector(A))], content=1), *lake.lines], "delete")
    stats = [column.name for column in COLUMNS]
    condition = {"type": "gt", "term": "dt", "value": "2017-01-01"}
    answer = PlanCompleted.model_validate({"status": "completed", **await rendered(lake, stats_fields=stats)})
    filtered = PlanCompleted.model_validate({"status": "completed", **await rendered(lake, filter=condition)})
    tasks = [PyFileScanTask.from_rest_response(task, answer.delete_files) for task in answer.file_scan_tasks]
    assert [task.file.file_path for task in tasks] == [A, B]
    assert [task.residual for task in tasks] == [AlwaysTrue(), AlwaysTrue()]
    (vector,) = tasks[0].delete_files
    assert vector.content.name == "POSITION_DELETES"
    assert answer.plan_tasks == ["more"]
    assert str(filtered.file_scan_tasks[1].residual_filter).startswith("GreaterThan(term=Reference(name='dt')")


@pytest.mark.parametrize("empty", [a_lake(), a_lake(1)])
async def test_empty_table_has_empty_lists(empty: Lake) -> None:
    assert await rendered(empty) == {"plan-tasks": ["more"], "file-scan-tasks": [], "delete-files": []}
