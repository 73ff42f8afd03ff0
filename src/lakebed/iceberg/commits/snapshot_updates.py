"""Updates of snapshots, branches, tags and statistics files."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from lakebed.core.errors import CommitConflict, InvalidInput

from ..documents import encode, read, same_meaning, split
from ..metadata.references import MAIN, SnapshotReference, check_reference
from ..metadata.snapshots import ROW_LINEAGE_SINCE_VERSION, Snapshot, check_new_snapshot, log_entry, parse_snapshot
from ..metadata.statistics import PartitionStatisticsFile, StatisticsFile, set_file, without_snapshots
from .draft import TableDraft
from .updates import (
    AddSnapshot,
    RemovePartitionStatistics,
    RemoveSnapshots,
    RemoveStatistics,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
)

__all__ = [
    "add_snapshot",
    "remove_partition_statistics",
    "remove_snapshot_ref",
    "remove_snapshots",
    "remove_statistics",
    "set_partition_statistics",
    "set_snapshot_ref",
    "set_statistics",
]

_NULL: Final = Raw(b"null")


def add_snapshot(draft: TableDraft, update: AddSnapshot) -> None:
    """Add a snapshot. Raises CommitConflict if its parent state is outdated."""
    snapshot = parse_snapshot(update.snapshot, "add-snapshot: snapshot")
    if not draft.schemas or not draft.specs or not draft.sort_orders:
        raise InvalidInput("a schema, a partition spec and a sort order must be added before a snapshot")
    check_new_snapshot(snapshot, draft.format_version)
    _check_origin(draft, snapshot)
    if draft.format_version > 1:
        _advance_sequence(draft, snapshot)
    elif snapshot.sequence_number:
        raise InvalidInput("a snapshot of a table of format version 1 has no sequence number", argument="snapshot")
    if draft.format_version >= ROW_LINEAGE_SINCE_VERSION:
        _advance_rows(draft, snapshot)
    draft.snapshots[snapshot.snapshot_id] = snapshot
    draft.added_snapshot_ids.add(snapshot.snapshot_id)


def set_snapshot_ref(draft: TableDraft, update: SetSnapshotRef, now_ms: int) -> None:
    """Create or move a branch or tag. The snapshot of `main` is the current one."""
    name = update.ref_name
    snapshot = draft.snapshots.get(update.snapshot_id)
    if snapshot is None:
        raise InvalidInput(
            f"{update.type} {name} cannot be set: the table has no such snapshot. snapshot={update.snapshot_id}",
            argument="snapshot-id",
        )
    fields = split(update.written, "set-snapshot-ref")
    rest = {key: text for key, text in fields.items() if key not in ("action", "ref-name") and text != _NULL}
    reference = read(SnapshotReference, encode(rest), "set-snapshot-ref")
    check_reference(name, reference)
    before = draft.refs.get(name)
    if before is not None and same_meaning(before.written, reference.written):
        return
    draft.refs[name] = reference
    if name == MAIN:
        _make_current(draft, snapshot, now_ms)


def remove_snapshot_ref(draft: TableDraft, name: str) -> None:
    """Remove a branch or tag, if it exists. Without `main` there is no current snapshot."""
    draft.refs.pop(name, None)
    if name == MAIN:
        draft.current_snapshot_id = None


def remove_snapshots(draft: TableDraft, update: RemoveSnapshots) -> None:
    """Remove existing snapshots, with their statistics and the branches and tags that refer to them."""
    removed = frozenset(update.snapshot_ids) & draft.snapshots.keys()
    if not removed:
        return
    draft.has_removed_snapshots = True
    for snapshot_id in removed:
        del draft.snapshots[snapshot_id]
    draft.statistics = without_snapshots(draft.statistics, removed)
    draft.partition_statistics = without_snapshots(draft.partition_statistics, removed)
    for name in [name for name, reference in draft.refs.items() if reference.snapshot_id in removed]:
        remove_snapshot_ref(draft, name)


def set_statistics(draft: TableDraft, update: SetStatistics) -> None:
    """Set the statistics file of a snapshot, replacing an earlier one."""
    file = read(StatisticsFile, update.statistics, "set-statistics: statistics")
    if update.snapshot_id is not None and update.snapshot_id != file.snapshot_id:
        raise InvalidInput(
            f"set-statistics has two different snapshot ids. outside={update.snapshot_id} inside={file.snapshot_id}",
            argument="snapshot-id",
        )
    _check_described(draft, file.snapshot_id)
    draft.statistics = set_file(draft.statistics, file)


def set_partition_statistics(draft: TableDraft, update: SetPartitionStatistics) -> None:
    """Set the partition statistics file of a snapshot, replacing an earlier one."""
    where = "set-partition-statistics: partition-statistics"
    file = read(PartitionStatisticsFile, update.partition_statistics, where)
    _check_described(draft, file.snapshot_id)
    draft.partition_statistics = set_file(draft.partition_statistics, file)


def remove_statistics(draft: TableDraft, update: RemoveStatistics) -> None:
    """Remove the statistics file of a snapshot, if it has one."""
    draft.statistics = without_snapshots(draft.statistics, frozenset({update.snapshot_id}))


def remove_partition_statistics(draft: TableDraft, update: RemovePartitionStatistics) -> None:
    """Remove the partition statistics file of a snapshot, if it has one."""
    draft.partition_statistics = without_snapshots(draft.partition_statistics, frozenset({update.snapshot_id}))


def _check_origin(draft: TableDraft, snapshot: Snapshot) -> None:
    if snapshot.snapshot_id in draft.snapshots:
        raise CommitConflict(
            f"the snapshot id exists already. snapshot={snapshot.snapshot_id}",
            condition="snapshot-id",
            found=snapshot.snapshot_id,
        )
    parent = snapshot.parent_snapshot_id
    if parent is not None and parent not in draft.snapshots:
        # It was expired concurrently: inherited files of the new snapshot may be deleted.
        raise CommitConflict(
            f"the table no longer has the parent snapshot. parent={parent}",
            condition="parent-snapshot-id",
            expected=parent,
        )
    if snapshot.schema_id is not None and snapshot.schema_id not in draft.schemas:
        raise CommitConflict(
            f"the table no longer has the schema of the snapshot. schema={snapshot.schema_id}",
            condition="schema-id",
            expected=snapshot.schema_id,
        )


def _advance_sequence(draft: TableDraft, snapshot: Snapshot) -> None:
    number, last = snapshot.sequence_number, draft.last_sequence_number
    if number <= last and snapshot.parent_snapshot_id is not None:
        raise CommitConflict(
            "concurrent commit: the snapshot's sequence number is not above the table's last."
            f" sequence_number={number} last={last}",
            condition="sequence-number",
            expected=number,
            found=last,
        )
    draft.last_sequence_number = max(last, number)


def _advance_rows(draft: TableDraft, snapshot: Snapshot) -> None:
    first, added = snapshot.first_row_id or 0, snapshot.added_rows or 0
    if first < draft.next_row_id:
        raise CommitConflict(
            "concurrent commit: the snapshot's first row id is below the table's next."
            f" first_row_id={first} next={draft.next_row_id}",
            condition="first-row-id",
            expected=first,
            found=draft.next_row_id,
        )
    # The snapshot's first row id may be above the table's next one: continue after its rows.
    draft.next_row_id = first + added


def _make_current(draft: TableDraft, snapshot: Snapshot, now_ms: int) -> None:
    draft.current_snapshot_id = snapshot.snapshot_id
    when = now_ms
    if snapshot.snapshot_id in draft.added_snapshot_ids:
        # Engines look up snapshots by their own timestamp.
        when = snapshot.timestamp_ms
        draft.passed_snapshot_ids.add(snapshot.snapshot_id)
    if draft.snapshot_log:
        # Readers reject a log with decreasing times; clocks of writers differ.
        when = max(when, draft.snapshot_log[-1].timestamp_ms)
    draft.snapshot_log.append(log_entry(snapshot.snapshot_id, when))


def _check_described(draft: TableDraft, snapshot_id: int) -> None:
    if snapshot_id not in draft.snapshots:
        raise InvalidInput(
            f"statistics refer to an unknown snapshot. snapshot={snapshot_id}",
            argument="snapshot-id",
        )
