"""Appends as engines make them: a data file, a manifest, a manifest list, and the commit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakebed.iceberg.manifests import ManifestFile, read_manifest_list
from tests.iceberg.manifests.avro_files import a_file, a_manifest, an_entry, list_bytes, manifest_bytes

Json = Any
"""JSON documents."""

_DATA: Final = b"PAR1" * 8
"""Not valid Parquet: only the existence and length of the file matter."""

SCHEMA: Final[Json] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "payload", "required": False, "type": "string"},
    ],
}


@dataclass(frozen=True, slots=True)
class Head:
    """The main branch of a table, as a writer needs it."""

    location: str
    snapshot: int | None = None
    sequence: int = 0
    rows: int = 0
    manifests: tuple[ManifestFile, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Append:
    """One append of one row, prepared on a head."""

    files: Mapping[str, bytes] = field(repr=False)
    """Files by location, to store before the commit."""
    requirements: list[Json]
    updates: list[Json]
    head: Head
    """The branch after the commit."""


def prepare_append(head: Head, snapshot_id: int, *, writer: str, attempt: int = 0) -> Append:
    """Prepare an append to a branch. Another `attempt` reuses the data file and manifest."""
    data = f"{head.location}/data/{snapshot_id}.parquet"
    manifest = f"{head.location}/metadata/{snapshot_id}-m0.avro"
    listing = f"{head.location}/metadata/snap-{snapshot_id}-{attempt}.avro"
    entries = manifest_bytes([an_entry(a_file(data, record_count=1, file_size_in_bytes=len(_DATA)))])
    sequence, rows = head.sequence + 1, head.rows + 1
    own = a_manifest(
        manifest,
        length=len(entries),
        sequence_number=sequence,
        min_sequence_number=sequence,
        added_snapshot_id=snapshot_id,
        added_files_count=1,
        added_rows_count=1,
    )
    manifests = (own, *head.manifests)
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "manifest-list": listing,
        "schema-id": 0,
        "summary": {
            "operation": "append",
            "writer": writer,
            "added-data-files": "1",
            "added-records": "1",
            "total-data-files": str(rows),
            "total-records": str(rows),
        },
        **({} if head.snapshot is None else {"parent-snapshot-id": head.snapshot}),
    }
    files = {listing: list_bytes(manifests)}
    if not attempt:
        files |= {data: _DATA, manifest: entries}
    return Append(
        files,
        [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head.snapshot}],
        [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        ],
        Head(head.location, snapshot_id, sequence, rows, manifests),
    )


def manifest_list_of(metadata: Json) -> str | None:
    """The location of the manifest list of the current snapshot."""
    current = current_snapshot(metadata)
    return None if current is None else current["manifest-list"]


def current_snapshot(metadata: Json) -> Json | None:
    """The current snapshot in a table's metadata."""
    current = metadata.get("current-snapshot-id")
    return next((one for one in metadata.get("snapshots", []) if one["snapshot-id"] == current), None)


def head_of(metadata: Json, manifest_list: bytes | None) -> Head:
    """The main branch of a table that other writers may have changed."""
    current = current_snapshot(metadata)
    if current is None or manifest_list is None:
        return Head(metadata["location"], sequence=metadata["last-sequence-number"])
    return Head(
        metadata["location"],
        current["snapshot-id"],
        metadata["last-sequence-number"],
        int(current["summary"]["total-records"]),
        tuple(read_manifest_list(manifest_list)),
    )
