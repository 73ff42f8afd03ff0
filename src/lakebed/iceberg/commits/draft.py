"""Mutable table metadata during a commit, with a record of the changes."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final
from weakref import ref

from lakebed.core.errors import CommitConflict, InvalidInput

from ..metadata.encryption import EncryptedKey
from ..metadata.references import SnapshotReference
from ..metadata.snapshots import LogEntry, MetadataLogEntry, Snapshot, metadata_log_entry
from ..metadata.statistics import PartitionStatisticsFile, StatisticsFile
from ..metadata.table import Growth, TableMetadata
from ..partitioning import FIRST_FIELD_ID, PartitionSpec, check_spec
from ..schema import Schema
from ..sorting import SortOrder, check_order
from .properties import previous_versions_max

__all__ = ["TableDraft"]

_FIRST_ID: Final = 0
"""The id of the first schema and spec. It is the current one until another is set, so a new table need not set it."""


class TableDraft:
    """Starts as a table, or empty for a new one.

    The mappings are copies; their values are shared with the table and never modified.
    """

    def __init__(self, base: TableMetadata | None, format_version: int) -> None:
        self.base = base
        self.format_version = format_version
        self.uuid = base.uuid if base else None
        self.location = base.location if base else None
        self.last_sequence_number = base.last_sequence_number if base else 0
        self.last_column_id = base.last_column_id if base else 0
        self.schemas: dict[int, Schema] = dict(base.schemas) if base else {}
        self.current_schema_id = base.current_schema_id if base else _FIRST_ID
        self.specs: dict[int, PartitionSpec] = dict(base.specs) if base else {}
        self.default_spec_id = base.default_spec_id if base else _FIRST_ID
        self.last_partition_id = base.last_partition_id if base else FIRST_FIELD_ID - 1
        self.sort_orders: dict[int, SortOrder] = dict(base.sort_orders) if base else {}
        self.default_sort_order_id = base.default_sort_order_id if base else _FIRST_ID
        self.properties: dict[str, str] = dict(base.properties) if base else {}
        self.snapshots: dict[int, Snapshot] = dict(base.snapshots) if base else {}
        self.current_snapshot_id = base.current_snapshot_id if base else None
        self.next_row_id = base.next_row_id if base else 0
        self.refs: dict[str, SnapshotReference] = dict(base.refs) if base else {}
        self.snapshot_log: list[LogEntry] = list(base.snapshot_log) if base else []
        self.statistics: list[StatisticsFile] = list(base.statistics) if base else []
        self.partition_statistics: list[PartitionStatisticsFile] = list(base.partition_statistics) if base else []
        self.encryption_keys: dict[str, EncryptedKey] = dict(base.encryption_keys) if base else {}

        self.added_schema_id: int | None = None
        self.added_spec_id: int | None = None
        self.added_order_id: int | None = None
        """What the id `-1` refers to: the last one added, or the equal one that already existed."""
        self.added_snapshot_ids: set[int] = set()
        self.passed_snapshot_ids: set[int] = set()
        """Snapshots of this commit that were current at some point in it."""
        self.has_removed_snapshots = False
        self.has_rewritten_snapshots = False
        self.removed_schema_ids: set[int] = set()
        self.removed_spec_ids: set[int] = set()
        """Ids removed in this commit, which are not assigned again in it: an id must keep its meaning."""
        self.removed_key_ids: set[str] = set()

    def current_schema(self) -> Schema:
        """The schema that specs and orders are bound to. Raises InvalidInput without one."""
        schema = self.schemas.get(self.current_schema_id)
        if schema is None:
            raise InvalidInput("a schema must be added and set as the current one first", argument="updates")
        return schema

    def finish(self, *, now_ms: int, new_uuid: str, previous_location: str | None) -> TableMetadata:
        """The metadata after the commit; the same object as before if nothing changed.

        Raises InvalidInput if the metadata is incomplete, CommitConflict if a removed part is in use.
        """
        self._check_whole()
        self._check_removed()
        base = self.base
        log = self._settled_log()
        metadata = TableMetadata(
            format_version=self.format_version,
            uuid=self.uuid,
            location=self.location or "",
            last_updated_ms=base.last_updated_ms if base else now_ms,
            last_sequence_number=self.last_sequence_number,
            last_column_id=self.last_column_id,
            schemas=self.schemas,
            current_schema_id=self.current_schema_id,
            specs=self.specs,
            default_spec_id=self.default_spec_id,
            last_partition_id=self.last_partition_id,
            sort_orders=self.sort_orders,
            default_sort_order_id=self.default_sort_order_id,
            properties=self.properties,
            snapshots=self.snapshots,
            current_snapshot_id=self.current_snapshot_id,
            next_row_id=self.next_row_id,
            refs=self.refs,
            snapshot_log=log,
            metadata_log=base.metadata_log if base else (),
            statistics=tuple(self.statistics),
            partition_statistics=tuple(self.partition_statistics),
            encryption_keys=self.encryption_keys,
            unknown=base.unknown if base else {},
        )
        if metadata == base:
            return base
        # The writer's clock may be ahead: the time must not be before the latest snapshot or the last update.
        latest = log[-1].timestamp_ms if log else 0
        finished = replace(
            metadata,
            uuid=self.uuid or new_uuid,
            last_updated_ms=max(now_ms, metadata.last_updated_ms, latest),
            metadata_log=self._metadata_log(previous_location),
        )
        if base is not None and self._only_grew():
            # Set once, before the value is shared: copies with other fields must not inherit it.
            object.__setattr__(finished, "growth", self._growth(base, log))
        return finished

    def _check_whole(self) -> None:
        for what, chosen, among in (
            ("schema", self.current_schema_id, self.schemas),
            ("partition spec", self.default_spec_id, self.specs),
            ("sort order", self.default_sort_order_id, self.sort_orders),
        ):
            if chosen not in among:
                raise InvalidInput(f"the table would have no {what}: one must be added and set", argument="updates")
        if not self.location:
            raise InvalidInput("the table would have no location: it must be set", argument="updates")
        base = self.base
        schema, spec, order = (
            self.schemas[self.current_schema_id],
            self.specs[self.default_spec_id],
            self.sort_orders[self.default_sort_order_id],
        )
        # Only checks what this commit changes: existing inconsistencies, for example of a registered table, stay
        # usable.
        if base is None or schema is not base.schema or spec is not base.spec:
            check_spec(spec, schema)
        if base is None or schema is not base.schema or order is not base.sort_order:
            check_order(order, schema)

    def _check_removed(self) -> None:
        # The client checked for uses before it removed these; a use now comes from a concurrent commit.
        if self.removed_schema_ids:
            for snapshot in self.snapshots.values():
                if snapshot.schema_id in self.removed_schema_ids:
                    raise CommitConflict(
                        f"schema is used by a snapshot. schema={snapshot.schema_id} snapshot={snapshot.snapshot_id}",
                        condition="remove-schemas",
                        found=snapshot.schema_id,
                    )
        if self.removed_key_ids:
            users = [snapshot.key_id for snapshot in self.snapshots.values()]
            users += [key.encrypted_by_id for key in self.encryption_keys.values()]
            for key_id in users:
                if key_id in self.removed_key_ids:
                    raise CommitConflict(
                        f"encryption key is used by a snapshot or another key. key={key_id}",
                        condition="remove-encryption-key",
                        found=key_id,
                    )

    def _settled_log(self) -> tuple[LogEntry, ...]:
        """The snapshot log, without intermediate snapshots of this commit and entries before a removed snapshot."""
        passed = self.passed_snapshot_ids - {self.current_snapshot_id}
        if not passed and not self.has_removed_snapshots:
            return tuple(self.snapshot_log)
        kept: list[LogEntry] = []
        for entry in self.snapshot_log:
            if entry.snapshot_id in passed:
                continue
            if entry.snapshot_id in self.snapshots:
                kept.append(entry)
            else:
                # Across a gap, the earlier snapshot would seem to have been current until the later one.
                kept.clear()
        return tuple(kept)

    def _only_grew(self) -> bool:
        """Whether the commit only appended to the snapshots and the snapshot log."""
        passed = self.passed_snapshot_ids - {self.current_snapshot_id}
        return not (passed or self.has_removed_snapshots or self.has_rewritten_snapshots)

    def _growth(self, base: TableMetadata, log: tuple[LogEntry, ...]) -> Growth:
        count = len(self.snapshots) - len(base.snapshots)
        added = list(islice(reversed(self.snapshots.values()), count))
        return Growth(ref(base), tuple(reversed(added)), log[len(base.snapshot_log) :])

    def _metadata_log(self, previous_location: str | None) -> tuple[MetadataLogEntry, ...]:
        if self.base is None:
            return ()
        if previous_location is None:
            return self.base.metadata_log
        kept = previous_versions_max(self.properties) - 1
        older = self.base.metadata_log[-kept:] if kept else ()
        return (*older, metadata_log_entry(previous_location, self.base.last_updated_ms))
