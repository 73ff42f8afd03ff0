"""Entries of manifest lists and manifests as plain values, with inherited fields filled in.

Partition values have Iceberg's units: dates are days since 1970-01-01, times microseconds of the day, timestamps micro-
or nanoseconds since 1970-01-01; decimals are `Decimal`, uuids `UUID`, other types Python's.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import IntEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

__all__ = [
    "DataFile",
    "EntryStatus",
    "FieldSummary",
    "FileContent",
    "ManifestContent",
    "ManifestEntry",
    "ManifestFile",
    "PartitionValue",
]

PartitionValue: TypeAlias = bool | int | float | str | bytes | Decimal | UUID | None


class ManifestContent(IntEnum):
    """The content of a manifest."""

    DATA = 0
    DELETES = 1


class EntryStatus(IntEnum):
    """The status of a manifest entry."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class FileContent(IntEnum):
    """The content of a file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class FieldSummary(NamedTuple):
    """The summary of one partition field over all files of a manifest. Bounds are single-value serialized."""

    contains_null: bool
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


class ManifestFile(NamedTuple):
    """One line of a manifest list. Lists of format 1 have no content and no sequence numbers: both default to 0."""

    path: str
    length: int
    partition_spec_id: int
    content: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int | None
    added_files_count: int | None
    existing_files_count: int | None
    deleted_files_count: int | None
    added_rows_count: int | None
    existing_rows_count: int | None
    deleted_rows_count: int | None
    partitions: tuple[FieldSummary, ...] | None
    key_metadata: bytes | None
    first_row_id: int | None


class DataFile(NamedTuple):
    """A data file, a delete file or a deletion vector. A map that the manifest omits is None."""

    content: int
    file_path: str
    file_format: str
    spec_id: int
    partition: tuple[PartitionValue, ...]
    record_count: int
    file_size_in_bytes: int
    column_sizes: Mapping[int, int] | None
    value_counts: Mapping[int, int] | None
    null_value_counts: Mapping[int, int] | None
    nan_value_counts: Mapping[int, int] | None
    lower_bounds: Mapping[int, bytes] | None
    upper_bounds: Mapping[int, bytes] | None
    key_metadata: bytes | None
    split_offsets: tuple[int, ...] | None
    equality_ids: tuple[int, ...] | None
    sort_order_id: int | None
    first_row_id: int | None
    referenced_data_file: str | None
    content_offset: int | None
    content_size_in_bytes: int | None


class ManifestEntry(NamedTuple):
    """A manifest entry: a file and its status."""

    status: int
    snapshot_id: int | None
    sequence_number: int
    file_sequence_number: int | None
    """None only for existing files of writers older than this field."""
    data_file: DataFile
