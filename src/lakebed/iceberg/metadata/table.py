"""Table metadata as one immutable value.

Parts with an id are in a mapping by id, in the order of the document. A commit derives a new value that shares all
unchanged parts: its cost is a copy of pointers, however long the history is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import ref

from msgspec import Raw

from ..partitioning import PartitionSpec
from ..schema import Schema
from ..sorting import SortOrder
from .encryption import EncryptedKey
from .references import SnapshotReference
from .snapshots import LogEntry, MetadataLogEntry, Snapshot
from .statistics import PartitionStatisticsFile, StatisticsFile

__all__ = ["DEFAULT_FORMAT_VERSION", "FORMAT_VERSIONS", "Growth", "TableMetadata"]

FORMAT_VERSIONS: Final = (1, 2, 3)
DEFAULT_FORMAT_VERSION: Final = 2


class Growth(NamedTuple):
    """What a commit appended to the history, if it changed nothing else in it."""

    before: ref[TableMetadata]
    """A weak reference to the previous metadata, so that earlier versions are not kept in memory."""
    snapshots: Sequence[Snapshot]
    log: Sequence[LogEntry]


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class TableMetadata:
    """The metadata of a table at one version. Validated: every id in it exists."""

    format_version: int
    uuid: str | None
    """None in some tables of version 1 only; the next commit assigns one."""
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
    """0 before version 3, which introduced row ids."""
    refs: Mapping[str, SnapshotReference]
    snapshot_log: tuple[LogEntry, ...]
    metadata_log: tuple[MetadataLogEntry, ...]
    statistics: tuple[StatisticsFile, ...]
    partition_statistics: tuple[PartitionStatisticsFile, ...]
    encryption_keys: Mapping[str, EncryptedKey]
    unknown: Mapping[str, Raw]
    """Unknown fields of the document."""
    growth: Growth | None = field(default=None, init=False, repr=False, compare=False)
    """The growth since the previous version, if known. Not copied to derived values."""

    def grown_from(self, base: TableMetadata | None) -> Growth | None:
        """What was appended to the history of `base`, if this was derived from that very object."""
        growth = self.growth
        return growth if growth is not None and base is not None and growth.before() is base else None

    def snapshots_since(self, base: TableMetadata | None) -> Sequence[Snapshot]:
        """The snapshots that `base` does not have, in order. Compares all snapshots unless the growth is known."""
        growth = self.grown_from(base)
        if growth is not None:
            return growth.snapshots
        old = {} if base is None else base.snapshots
        return [snapshot for key, snapshot in self.snapshots.items() if key not in old]

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return self.specs[self.default_spec_id]

    @property
    def sort_order(self) -> SortOrder:
        """The default sort order."""
        return self.sort_orders[self.default_sort_order_id]

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot of the main branch; None without one."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]
