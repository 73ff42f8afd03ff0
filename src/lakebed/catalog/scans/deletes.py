"""Matches delete files with the data files that they apply to.

A position delete applies to data files of its own commit and before, an equality delete only to data files before. A
deletion vector replaces all position deletes of its data file. Statistics exclude delete files whose rows cannot be in
the data file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.expressions.partitions import BoundSpec, PartitionValues, partition_key
from lakebed.iceberg.expressions.ranges import decode_range, may_overlap
from lakebed.iceberg.manifests import DataFile, FileContent, ManifestEntry
from lakebed.iceberg.schema import Schema
from lakebed.iceberg.types import PrimitiveType, parse_primitive
from lakebed.iceberg.values import FLOATING

__all__ = ["DELETED_PATH_ID", "DeleteIndex"]

DELETED_PATH_ID: Final = 2147483546
"""The column of position delete files with the data file's path."""

_PUFFIN: Final = "puffin"
_STRING: Final = parse_primitive("string")


class _ByAge:
    """Delete files of one scope, sorted by the newest data that they apply to."""

    __slots__ = ("_files", "_is_sorted")

    def __init__(self) -> None:
        self._files: list[tuple[int, DataFile]] = []
        self._is_sorted = True

    def add(self, applies_to: int, file: DataFile) -> None:
        self._files.append((applies_to, file))
        self._is_sorted = False

    def since(self, sequence_number: int) -> Iterable[DataFile]:
        """Delete files that apply to data of this sequence number."""
        if not self._is_sorted:
            self._files.sort(key=_age)
            self._is_sorted = True
        start = bisect_left(self._files, sequence_number, key=_age)
        return (file for _, file in self._files[start:])


def _age(dated: tuple[int, DataFile]) -> int:
    return dated[0]


class DeleteIndex:
    """The delete files of a snapshot, indexed by scope and sequence number."""

    def __init__(self, layouts: Mapping[int, BoundSpec], schemas: Iterable[Schema]) -> None:
        """The types of compared columns are looked up in the schemas, in order."""
        self._layouts = layouts
        self._schemas = tuple(schemas)
        self._everywhere = _ByAge()
        self._values: dict[object, _ByAge] = {}
        self._positions: dict[object, _ByAge] = {}
        self._positions_by_path: dict[str, _ByAge] = {}
        self._vectors: dict[str, tuple[int, DataFile]] = {}
        self._columns: dict[int, tuple[PrimitiveType, bool] | None] = {}
        self.compared_columns: set[int] = set()
        """Equality columns of all delete files: matching needs the data files' statistics of these."""

    def add(self, entry: ManifestEntry, partition: PartitionValues) -> None:
        """Add a live delete file. Raises InvalidInput for a second deletion vector of one data file."""
        file, number = entry.data_file, entry.sequence_number
        scope = file.spec_id, partition_key(partition)
        if file.content == FileContent.EQUALITY_DELETES:
            self.compared_columns.update(file.equality_ids or ())
            if self._layouts[file.spec_id].is_partitioned:
                self._values.setdefault(scope, _ByAge()).add(number - 1, file)
            else:
                self._everywhere.add(number - 1, file)
            return
        path = _only_path(file)
        if file.content_offset is not None or file.file_format.lower() == _PUFFIN:
            if path is None:
                raise InvalidInput(f"deletion vector has no referenced data file. vector={file.file_path}")
            if path in self._vectors:
                raise InvalidInput(f"data file has two deletion vectors. data_file={path}")
            self._vectors[path] = number, file
        elif path is not None:
            # The path is more selective than the partition, which is not compared then.
            self._positions_by_path.setdefault(path, _ByAge()).add(number, file)
        else:
            self._positions.setdefault(scope, _ByAge()).add(number, file)

    def matching(self, entry: ManifestEntry, partition: PartitionValues) -> list[DataFile]:
        """The delete files that apply to this data file."""
        file, number = entry.data_file, entry.sequence_number
        scope = file.spec_id, partition_key(partition)
        found = [deletes for deletes in self._everywhere.since(number) if self._may_delete_from(deletes, file)]
        if (values := self._values.get(scope)) is not None:
            found += (deletes for deletes in values.since(number) if self._may_delete_from(deletes, file))
        vector = self._vectors.get(file.file_path)
        if vector is not None and vector[0] >= number:
            return [*found, vector[1]]
        if (positions := self._positions_by_path.get(file.file_path)) is not None:
            found += positions.since(number)
        if (positions := self._positions.get(scope)) is not None:
            found += (deletes for deletes in positions.since(number) if _may_name(deletes, file.file_path))
        return found

    def _column(self, column_id: int) -> tuple[PrimitiveType, bool] | None:
        """The type of a column and whether it can be null; None if no schema has it."""
        if column_id not in self._columns:
            self._columns[column_id] = None
            for schema in self._schemas:
                column = schema.columns.get(column_id)
                if column is not None and isinstance(column.type, str):
                    nullable = not column.required or any(not outer.required for outer in schema.enclosing(column))
                    self._columns[column_id] = parse_primitive(column.type), nullable
                    break
        return self._columns[column_id]

    def _may_delete_from(self, deletes: DataFile, data: DataFile) -> bool:
        """Whether a row of one may equal a row of the other in all compared columns."""
        return all(self._may_meet(column_id, deletes, data) for column_id in deletes.equality_ids or ())

    def _may_meet(self, column_id: int, deletes: DataFile, data: DataFile) -> bool:
        column = self._column(column_id)
        if column is None or column[0].name in FLOATING:
            return True  # NaN is equal to NaN here, and outside of all bounds
        kind, nullable = column
        both = (deletes, data)
        if nullable and all((file.null_value_counts or {}).get(column_id) != 0 for file in both):
            return True
        ranges = [
            decode_range(kind, (file.lower_bounds or {}).get(column_id), (file.upper_bounds or {}).get(column_id))
            for file in both
        ]
        return may_overlap(*ranges)


def _only_path(file: DataFile) -> str | None:
    """The one data file of position deletes, if there is only one."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    lower, upper = (file.lower_bounds or {}).get(DELETED_PATH_ID), (file.upper_bounds or {}).get(DELETED_PATH_ID)
    # Truncated bounds differ, because the upper one is then above all values.
    known = decode_range(_STRING, lower, upper)
    return known.lower if isinstance(known.lower, str) and known.lower == known.upper else None


def _may_name(deletes: DataFile, path: str) -> bool:
    lower, upper = deletes.lower_bounds or {}, deletes.upper_bounds or {}
    known = decode_range(_STRING, lower.get(DELETED_PATH_ID), upper.get(DELETED_PATH_ID))
    return may_overlap(known, known._replace(lower=path, upper=path))
