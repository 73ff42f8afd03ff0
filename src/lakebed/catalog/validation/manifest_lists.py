"""Compares a snapshot's manifest list with its parent's: which manifests are inherited, added, removed.

A manifest in the parent's list was validated with the parent: if its line is unchanged, it need not be read again. All
others must be the snapshot's own.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.manifests import ManifestContent, ManifestFile
from lakebed.iceberg.metadata.snapshots import ROW_LINEAGE_SINCE_VERSION, Snapshot

from .directory_scope import DirectoryScope, normalized

__all__ = ["ManifestChanges", "by_location", "compare_manifest_lists"]

_FIXED: Final = ("length", "partition_spec_id", "content", "sequence_number", "min_sequence_number")
_FIXED_ONCE_KNOWN: Final = (
    "added_snapshot_id",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
    "first_row_id",
)
"""Lists of format 1, and from before an upgrade, may omit them."""


class ManifestChanges(NamedTuple):
    """The manifests of a snapshot by location, and those that only its parent has."""

    inherited: Mapping[str, ManifestFile]
    added: Mapping[str, ManifestFile]
    removed: Mapping[str, ManifestFile]


def by_location(
    lines: Iterable[ManifestFile], scope: DirectoryScope, known: Container[str] = ()
) -> dict[str, ManifestFile]:
    """Manifests by location. Raises InvalidInput for one that is listed twice, or outside the table's directories.

    Known locations are the parent's, wherever they are.
    """
    found: dict[str, ManifestFile] = {}
    for line in lines:
        location = normalized(line.path)
        if location not in known:
            location = scope.locate(location, "manifest")
        if location in found:
            raise InvalidInput(f"manifest is listed twice. manifest={location}")
        found[location] = line
    return found


def compare_manifest_lists(
    snapshot: Snapshot,
    lines: Mapping[str, ManifestFile],
    parent: Mapping[str, ManifestFile] | None,
    *,
    format_version: int,
    spec_ids: Container[int],
) -> ManifestChanges:
    """Classify a snapshot's manifests by origin. Raises InvalidInput.

    If the parent is unknown, because it expired, manifests of other snapshots count as inherited.
    """
    inherited: dict[str, ManifestFile] = {}
    added: dict[str, ManifestFile] = {}
    for location, line in lines.items():
        _check_line(location, line, snapshot, format_version, spec_ids)
        if parent is not None and location in parent:
            if line is not parent[location]:
                _check_unchanged(location, parent[location], line)
            inherited[location] = line
        elif parent is None and line.added_snapshot_id != snapshot.snapshot_id:
            inherited[location] = line
        else:
            _check_own(location, line, snapshot, format_version)
            added[location] = line
    removed = {location: line for location, line in (parent or {}).items() if location not in lines}
    return ManifestChanges(inherited, added, removed)


def _check_line(
    location: str, line: ManifestFile, snapshot: Snapshot, format_version: int, spec_ids: Container[int]
) -> None:
    if line.length <= 0:
        raise InvalidInput(f"manifest has no length. manifest={location} length={line.length}")
    if line.partition_spec_id not in spec_ids:
        raise InvalidInput(f"manifest has an unknown partition spec. manifest={location} spec={line.partition_spec_id}")
    if format_version == 1:
        if line.content != ManifestContent.DATA or line.sequence_number:
            raise InvalidInput(f"manifest has a later format version than the table. manifest={location}")
        return
    if not 0 <= line.min_sequence_number <= line.sequence_number <= snapshot.sequence_number:
        raise InvalidInput(
            f"manifest has sequence numbers out of bounds. manifest={location} least={line.min_sequence_number}"
            f" number={line.sequence_number} snapshot={snapshot.sequence_number}"
        )


def _check_unchanged(location: str, before: ManifestFile, after: ManifestFile) -> None:
    for name in _FIXED:
        if getattr(before, name) != getattr(after, name):
            raise _changed(location, name, before, after)
    for name in _FIXED_ONCE_KNOWN:
        if getattr(before, name) not in (None, getattr(after, name)):
            raise _changed(location, name, before, after)


def _changed(location: str, name: str, before: ManifestFile, after: ManifestFile) -> InvalidInput:
    return InvalidInput(
        f"manifest of the parent snapshot is listed with a different {name}."
        f" manifest={location} before={getattr(before, name)} after={getattr(after, name)}"
    )


def _check_own(location: str, line: ManifestFile, snapshot: Snapshot, format_version: int) -> None:
    if line.added_snapshot_id != snapshot.snapshot_id:
        raise InvalidInput(
            f"manifest is neither the snapshot's own nor its parent's."
            f" manifest={location} added-by={line.added_snapshot_id} snapshot={snapshot.snapshot_id}"
        )
    if format_version > 1 and line.sequence_number != snapshot.sequence_number:
        raise InvalidInput(
            f"sequence number of a new manifest differs from its snapshot."
            f" manifest={location} number={line.sequence_number} snapshot={snapshot.sequence_number}"
        )
    if (
        format_version >= ROW_LINEAGE_SINCE_VERSION
        and line.content == ManifestContent.DATA
        and line.first_row_id is None
    ):
        raise InvalidInput(f"new data manifest has no first row id. manifest={location}")
