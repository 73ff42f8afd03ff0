"""Snapshots, the snapshot log and the metadata log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from lakebed.core.errors import InvalidInput

from ..documents import Count, DocumentElement, Int, Long, check_unique, make, read, read_list, rewrite, split

__all__ = [
    "ROW_LINEAGE_SINCE_VERSION",
    "LogEntry",
    "MetadataLogEntry",
    "Snapshot",
    "check_new_snapshot",
    "log_entry",
    "metadata_log_entry",
    "parse_log",
    "parse_metadata_log",
    "parse_snapshot",
    "parse_snapshots",
    "with_sequence_number",
]

ROW_LINEAGE_SINCE_VERSION: Final = 3
_SKEW_MS: Final = 60_000
"""How far entries of a log may be out of order, because clocks of machines differ."""
_OPERATIONS: Final = ("append", "replace", "overwrite", "delete")


class Snapshot(DocumentElement, frozen=True):
    """A snapshot: the state of a table at some time."""

    snapshot_id: Long
    timestamp_ms: Long
    sequence_number: Count = 0
    parent_snapshot_id: Long | None = None
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    """Instead of a manifest list, in early tables."""
    summary: dict[str, str] | None = None
    schema_id: Int | None = None
    first_row_id: Count | None = None
    added_rows: Count | None = None
    key_id: str | None = None

    @property
    def operation(self) -> str | None:
        """The operation that created it."""
        return None if self.summary is None else self.summary.get("operation")


class LogEntry(DocumentElement, frozen=True):
    """An entry of the snapshot log: when a snapshot became current."""

    snapshot_id: Long
    timestamp_ms: Long


class MetadataLogEntry(DocumentElement, frozen=True):
    """An entry of the metadata log: a previous metadata file, with its time."""

    metadata_file: str
    timestamp_ms: Long


def parse_snapshot(written: Raw | bytes, where: str) -> Snapshot:
    """Parse a snapshot. Raises InvalidInput that names the field."""
    snapshot = read(Snapshot, written, where)
    _check_manifests(snapshot, where)
    return snapshot


def parse_snapshots(
    written: Raw, where: str, last_sequence_number: int, like: Sequence[Snapshot] = ()
) -> dict[int, Snapshot]:
    """Parse a table's snapshots, by id."""
    snapshots: dict[int, Snapshot] = {}
    for index, snapshot in enumerate(read_list(Snapshot, written, where, like)):
        if snapshot.sequence_number > last_sequence_number:
            raise InvalidInput(
                f"{where}[{index}].sequence-number: must not be above last-sequence-number."
                f" found={snapshot.sequence_number} last={last_sequence_number}",
                argument=where,
            )
        if snapshot.manifest_list is None:
            _check_manifests(snapshot, f"{where}[{index}]")
        if snapshot.snapshot_id in snapshots:
            check_unique("snapshot-id", [*snapshots, snapshot.snapshot_id], where)
        snapshots[snapshot.snapshot_id] = snapshot
    return snapshots


def check_new_snapshot(snapshot: Snapshot, format_version: int) -> None:
    """Raise InvalidInput for a snapshot that lacks fields required by the table's format version."""
    if snapshot.snapshot_id < 0:
        raise InvalidInput(f"snapshot-id must not be negative. snapshot={snapshot.snapshot_id}", argument="snapshot-id")
    if format_version == 1:
        return
    if snapshot.manifest_list is None:
        raise InvalidInput(
            f"a snapshot requires a manifest-list. snapshot={snapshot.snapshot_id}", argument="manifest-list"
        )
    if snapshot.operation not in _OPERATIONS:
        raise InvalidInput(
            f"a snapshot's summary requires an operation: {', '.join(_OPERATIONS)}. found={snapshot.operation}",
            argument="summary",
        )
    if format_version >= ROW_LINEAGE_SINCE_VERSION:
        for name, value in (("first-row-id", snapshot.first_row_id), ("added-rows", snapshot.added_rows)):
            if value is None:
                raise InvalidInput(
                    f"in format version {format_version} a snapshot requires {name}. snapshot={snapshot.snapshot_id}",
                    argument=name,
                )


def with_sequence_number(snapshot: Snapshot) -> Snapshot:
    """The snapshot with its sequence number written out, as required since version 2."""
    if "sequence-number" in split(snapshot.written, "snapshot"):
        return snapshot
    return read(Snapshot, rewrite(snapshot.written, {"sequence-number": snapshot.sequence_number}), "snapshot")


def log_entry(snapshot_id: int, timestamp_ms: int) -> LogEntry:
    """A new entry of the snapshot log."""
    return make(LogEntry, {"timestamp-ms": timestamp_ms, "snapshot-id": snapshot_id}, "snapshot-log")


def metadata_log_entry(metadata_file: str, timestamp_ms: int) -> MetadataLogEntry:
    """A new entry of the metadata log."""
    return make(MetadataLogEntry, {"timestamp-ms": timestamp_ms, "metadata-file": metadata_file}, "metadata-log")


def parse_log(written: Raw, where: str, like: Sequence[LogEntry] = ()) -> tuple[LogEntry, ...]:
    """Parse a snapshot log."""
    entries = read_list(LogEntry, written, where, like)
    _check_sorted([entry.timestamp_ms for entry in entries], where)
    return tuple(entries)


def parse_metadata_log(written: Raw, where: str, like: Sequence[MetadataLogEntry] = ()) -> tuple[MetadataLogEntry, ...]:
    """Parse a metadata log."""
    entries = read_list(MetadataLogEntry, written, where, like)
    _check_sorted([entry.timestamp_ms for entry in entries], where)
    return tuple(entries)


def _check_manifests(snapshot: Snapshot, where: str) -> None:
    if snapshot.manifest_list is None and snapshot.manifests is None:
        raise InvalidInput(f"{where}.manifest-list: missing", argument=where)


def _check_sorted(times: list[int], where: str) -> None:
    for index in range(1, len(times)):
        if times[index] - times[index - 1] < -_SKEW_MS:
            raise InvalidInput(f"{where}[{index}].timestamp-ms: earlier than the previous entry", argument=where)
