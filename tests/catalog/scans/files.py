"""Data files of rows, with the statistics that a writer would have written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyiceberg.manifest import DataFile as PyDataFile
from pyiceberg.manifest import DataFileContent, FileFormat, PartitionFieldSummary
from pyiceberg.typedef import Record

from lakebed.iceberg.manifests import DataFile, FieldSummary
from tests.iceberg.expressions.columns import COLUMNS, ColumnSample, Value
from tests.iceberg.expressions.filters import Row, is_nan
from tests.iceberg.manifests.avro_files import a_file


def file_of(
    rows: Sequence[Row],
    *,
    columns: Sequence[ColumnSample] = COLUMNS,
    without: Iterable[str] = (),
    width: int | None = None,
    **facts: Any,
) -> DataFile:
    """A file of these rows, without the statistics named in `without`; text bounds are truncated to `width`."""
    counts: dict[str, dict[int, Any]] = {
        name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    for column in columns:
        values = [row[column.name] for row in rows]
        known = [value for value in values if value is not None and not is_nan(value)]
        counts["value_counts"][column.id] = len(values)
        counts["null_value_counts"][column.id] = values.count(None)
        if column.type in ("float", "double"):
            counts["nan_value_counts"][column.id] = sum(map(is_nan, values))
        if known:
            counts["lower_bounds"][column.id] = column.bound(shortened(min(known), width, up=False))
            upper = shortened(max(known), width, up=True)
            if upper is not None:
                counts["upper_bounds"][column.id] = column.bound(upper)
    for name in without:
        counts.pop(name)
    return a_file(record_count=len(rows), **{**counts, **facts})


def shortened(value: Value, width: int | None, *, up: bool) -> Value:
    """A bound with at most this many characters; None if no such upper bound exists."""
    if width is None or not isinstance(value, str) or len(value) <= width:
        return value
    if not up:
        return value[:width]
    for last in range(width - 1, -1, -1):
        above = ord(value[last]) + 1
        if above <= 0x10FFFF and not 0xD800 <= above <= 0xDFFF:
            return value[:last] + chr(above)
    return None


def summary_of(values: Sequence[Value], encode: Any, *, floating: bool = False) -> FieldSummary:
    """The partition field summary of a manifest with these values."""
    known = [value for value in values if value is not None and not is_nan(value)]
    return FieldSummary(
        contains_null=None in values,
        contains_nan=any(map(is_nan, values)) if floating else None,
        lower_bound=encode(min(known)) if known else None,
        upper_bound=encode(max(known)) if known else None,
    )


def py_summary(summary: FieldSummary) -> PartitionFieldSummary:
    return PartitionFieldSummary(*summary)


def py_file(file: DataFile) -> PyDataFile:
    """The same file as an object of PyIceberg."""
    return PyDataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        value_counts=file.value_counts or {},
        null_value_counts=file.null_value_counts or {},
        nan_value_counts=file.nan_value_counts or {},
        lower_bounds=file.lower_bounds or {},
        upper_bounds=file.upper_bounds or {},
    )
