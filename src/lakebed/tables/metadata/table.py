"""The metadata of a table, as one immutable value.

Everything that has an id is in a mapping by that id, in the order of the document. A commit derives a new value that
shares all parts it did not change with the one before: its cost is a copy of pointers, however long the history is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import Raw

from .encryption import EncryptedKey
from .partitioning import PartitionSpec
from .references import SnapshotReference
from .schema import Schema
from .snapshots import LogEntry, MetadataLogEntry, Snapshot
from .sorting import SortOrder
from .statistics import PartitionStatisticsFile, StatisticsFile

__all__ = ["DEFAULT_FORMAT_VERSION", "FORMAT_VERSIONS", "TableMetadata"]

FORMAT_VERSIONS: Final = (1, 2, 3)
DEFAULT_FORMAT_VERSION: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """A table at one moment. It exists only if it keeps the rules: every id named in it is there."""

    format_version: int
    uuid: str | None
    """None in some tables of version 1 only; the next commit gives them one."""
    location: str
    last_updated_ms: int
    last_sequence_number: int
    last_column_id: int
    schemas: Mapping[int, Schema]
    current_schema_id: int
    specs: Mapping[int, PartitionSpec]
    default_spec_id: int
    last_partition_id: int
    sort_orders: Mapping[int, SortOrder]
    default_sort_order_id: int
    properties: Mapping[str, str]
    snapshots: Mapping[int, Snapshot]
    current_snapshot_id: int | None
    next_row_id: int
    """0 in tables before version 3, which do not number rows."""
    refs: Mapping[str, SnapshotReference]
    snapshot_log: tuple[LogEntry, ...]
    metadata_log: tuple[MetadataLogEntry, ...]
    statistics: tuple[StatisticsFile, ...]
    partition_statistics: tuple[PartitionStatisticsFile, ...]
    encryption_keys: Mapping[str, EncryptedKey]
    unknown: Mapping[str, Raw]
    """Fields of the document that this build does not know."""

    @property
    def schema(self) -> Schema:
        """The current one."""
        return self.schemas[self.current_schema_id]

    @property
    def spec(self) -> PartitionSpec:
        """The default one."""
        return self.specs[self.default_spec_id]

    @property
    def sort_order(self) -> SortOrder:
        """The default one."""
        return self.sort_orders[self.default_sort_order_id]

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot of the main branch; None before the first commit of data."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]
