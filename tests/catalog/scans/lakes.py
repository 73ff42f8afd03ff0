"""Tables for scan planning: real manifests in memory, with the columns of `columns`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakebed.catalog.scans import ScanRequest, open_scan, parse_request
from lakebed.catalog.scans.plan_tasks import PlanningLimits
from lakebed.catalog.scans.planner import FileScanTask, ScanPlanner
from lakebed.iceberg.manifests import DataFile, FieldSummary, ManifestFile
from tests.catalog.validation.lake import Lake
from tests.iceberg.expressions.columns import FIELDS
from tests.iceberg.expressions.specs import spec_document
from tests.iceberg.manifests.avro_files import an_entry

BY_TEXT = (("p0", ["null", "string"], 1000),)
"""The partition of spec 1 in Avro: the identity of column `s`."""


def a_lake(version: int = 2) -> Lake:
    """A table with two specs: 0 is unpartitioned, 1 is the identity of column `s`."""
    lake = Lake(version)
    lake.document["last-column-id"] = 100
    lake.document["last-partition-id"] = 1000
    lake.document["schemas"] = [{"type": "struct", "schema-id": 0, "fields": FIELDS}]
    if version < 3:
        lake.document["schemas"][0]["fields"] = [field for field in FIELDS if field["name"] != "tns"]
    lake.document["partition-specs"] = [spec_document((), 0), spec_document((("s", "identity"),), 1)]
    return lake


def by_text(lake: Lake, files: Iterable[DataFile], **line: Any) -> ManifestFile:
    """A manifest of files of spec 1, with partition summaries in its line of the list."""
    files = list(files)
    texts = [str(file.partition[0]) for file in files if file.partition[0] is not None]
    summary = FieldSummary(
        len(texts) < len(files), None, min(texts).encode() if texts else None, max(texts).encode() if texts else None
    )
    return lake.manifest(
        [an_entry(file) for file in files],
        **{"partition": BY_TEXT, "partition_spec_id": 1, "partitions": (summary,), **line},
    )


async def planned(lake: Lake, limits: PlanningLimits | None = None, **request: Any) -> list[FileScanTask]:
    """All files that a scan finds."""
    planner = ScanPlanner(lake.files, limits)
    scan = open_scan(lake.table, a_request(**request))
    return [task for work in await planner.divide(scan) for task in await planner.collect(scan, work)]


async def names(lake: Lake, limits: PlanningLimits | None = None, **request: Any) -> list[str]:
    """The names of all files that a scan finds."""
    return [task.file.file_path.rpartition("/")[2] for task in await planned(lake, limits, **request)]


def a_request(**fields: Any) -> ScanRequest:
    return parse_request({name.rstrip("_").replace("_", "-"): value for name, value in fields.items()})
