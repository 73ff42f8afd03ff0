"""Planned files in the JSON of the REST specification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lakebed.iceberg.expressions.partitions import PartitionValues
from lakebed.iceberg.expressions.ranges import decode_range
from lakebed.iceberg.expressions.rendering import render_filter
from lakebed.iceberg.manifests import DataFile, FileContent
from lakebed.iceberg.schema import NestedField
from lakebed.iceberg.types import parse_primitive
from lakebed.iceberg.values import to_json

from .planner import FileScanTask
from .table_scan import TableScan

__all__ = ["render_tasks"]

_CONTENTS: Final = {
    FileContent.DATA: "data",
    FileContent.POSITION_DELETES: "position-deletes",
    FileContent.EQUALITY_DELETES: "equality-deletes",
}


def render_tasks(scan: TableScan, tasks: Iterable[FileScanTask], plan_tasks: Sequence[str] = ()) -> dict[str, object]:
    """The three lists of a response. Delete files are referenced by their index in this response."""
    places: dict[tuple[str, int | None], int] = {}
    delete_files: list[object] = []

    def place(file: DataFile) -> int:
        # A puffin file contains the deletion vectors of many data files: the offset identifies one.
        key = file.file_path, file.content_offset
        if key not in places:
            places[key] = len(delete_files)
            delete_files.append(_delete_file(scan, file))
        return places[key]

    file_scan_tasks: list[object] = []
    for task in tasks:
        document: dict[str, object] = {"data-file": _data_file(scan, task)}
        if task.deletes:
            document["delete-file-references"] = [place(file) for file in task.deletes]
        document["residual-filter"] = render_filter(task.residual)
        file_scan_tasks.append(document)
    return {"plan-tasks": list(plan_tasks), "file-scan-tasks": file_scan_tasks, "delete-files": delete_files}


def _content_file(scan: TableScan, file: DataFile, partition: PartitionValues) -> dict[str, object]:
    fields = scan.layout(file.spec_id).fields
    document: dict[str, object] = {
        "content": _CONTENTS[FileContent(file.content)],
        "file-path": file.file_path,
        "file-format": file.file_format.lower(),
        "spec-id": file.spec_id,
        "partition": [to_json(field.term.kind, value) for field, value in zip(fields, partition, strict=True)],
        "file-size-in-bytes": file.file_size_in_bytes,
        "record-count": file.record_count,
    }
    if file.key_metadata is not None:
        document["key-metadata"] = file.key_metadata.hex().upper()
    if file.split_offsets is not None:
        document["split-offsets"] = list(file.split_offsets)
    if file.sort_order_id is not None:
        document["sort-order-id"] = file.sort_order_id
    return document


def _data_file(scan: TableScan, task: FileScanTask) -> dict[str, object]:
    file = task.file
    document = _content_file(scan, file, task.partition)
    if file.first_row_id is not None:
        document["first-row-id"] = file.first_row_id
        # Rows without a sequence number inherit this one, wherever they inherit their row id.
        document["data-sequence-number"] = task.sequence_number
    if scan.stats_columns:
        document |= _statistics(scan, file)
    return document


def _delete_file(scan: TableScan, file: DataFile) -> dict[str, object]:
    document = _content_file(scan, file, scan.layout(file.spec_id).partition(file.partition))
    if file.equality_ids is not None:
        document["equality-ids"] = list(file.equality_ids)
    if file.referenced_data_file is not None:
        # Not in the specification; without it the Java client rejects a deletion vector.
        document["referenced-data-file"] = file.referenced_data_file
    if file.content_offset is not None:
        document["content-offset"] = file.content_offset
    if file.content_size_in_bytes is not None:
        document["content-size-in-bytes"] = file.content_size_in_bytes
    return document


def _statistics(scan: TableScan, file: DataFile) -> dict[str, object]:
    columns = {column_id: scan.schema.columns[column_id] for column_id in sorted(scan.stats_columns)}
    counts: Mapping[str, Mapping[int, int] | None] = {
        "column-sizes": file.column_sizes,
        "value-counts": file.value_counts,
        "null-value-counts": file.null_value_counts,
        "nan-value-counts": file.nan_value_counts,
    }
    document: dict[str, object] = {
        name: _map({column_id: found[column_id] for column_id in columns if column_id in found})
        for name, found in counts.items()
        if found is not None
    }
    if file.lower_bounds is not None:
        document["lower-bounds"] = _bounds(columns.values(), file.lower_bounds)
    if file.upper_bounds is not None:
        document["upper-bounds"] = _bounds(columns.values(), file.upper_bounds)
    return document


def _bounds(columns: Iterable[NestedField], bounds: Mapping[int, bytes]) -> object:
    """Bounds as values of their columns; columns without comparable values, such as variants, are omitted."""
    values: dict[int, object] = {}
    for column in columns:
        if isinstance(column.type, str):
            kind = parse_primitive(column.type)
            value = decode_range(kind, bounds.get(column.id), None).lower
            if value is not None:
                values[column.id] = to_json(kind, value)
    return _map(values)


def _map(values: Mapping[int, object]) -> dict[str, object]:
    return {"keys": list(values), "values": list(values.values())}
