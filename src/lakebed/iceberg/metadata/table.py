"""Table metadata as one immutable value.

Everything that has an id is in a mapping by that id, in the order of the document. A commit derives a new value that
shares all parts it did not change with the one before: its cost is a copy of pointers, however long the history is.
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
    """What a commit put behind the history of a table, where it took nothing from it and changed nothing in it."""

    before: ref[TableMetadata]
    """The table as it was. Not kept by this: what was once is not to stay as long as what comes of it."""
    snapshots: Sequence[Snapshot]
    log: Sequence[LogEntry]


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
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
    growth: Growth | None = field(default=None, init=False, repr=False, compare=False)
    """How it came from the one before, if that is known; of the commit that made it, and lost to any other copy."""

    def grown_from(self, base: TableMetadata | None) -> Growth | None:
        """What was put behind the history of `base`, if it is that very value that this came of."""
        growth = self.growth
        return growth if growth is not None and base is not None and growth.before() is base else None

    def snapshots_since(self, base: TableMetadata | None) -> Sequence[Snapshot]:
        """The snapshots that `base` does not have, in the order of the document. Costs a look at all unless it grew."""
        growth = self.grown_from(base)
        if growth is not None:
            return growth.snapshots
        old = {} if base is None else base.snapshots
        return [snapshot for key, snapshot in self.snapshots.items() if key not in old]

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
