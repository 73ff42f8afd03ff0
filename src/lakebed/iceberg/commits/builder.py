"""Applies the updates of a commit, in order, to table metadata.

Pure: time, new UUID and the location of the current metadata file are parameters. The current metadata is not modified.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from lakebed.core.errors import InvalidInput

from ..metadata.encryption import ENCRYPTION_SINCE_VERSION, parse_key
from ..metadata.snapshots import with_sequence_number
from ..metadata.table import DEFAULT_FORMAT_VERSION, FORMAT_VERSIONS, TableMetadata
from . import schema_updates, snapshot_updates
from .draft import TableDraft
from .properties import check_properties
from .updates import (
    AddEncryptionKey,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AddSpec,
    AssignUuid,
    RemoveEncryptionKey,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveSpecs,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    Update,
    UpgradeFormatVersion,
)

__all__ = ["build_table", "check_format_version", "check_uuid", "without_trailing_slash"]


def build_table(
    base: TableMetadata | None,
    updates: Sequence[Update],
    *,
    now_ms: int,
    new_uuid: str,
    previous_location: str | None = None,
) -> TableMetadata:
    """The metadata after the updates; the `base` object itself if they change nothing.

    Without a base the updates create the table. `new_uuid` is its UUID unless an update assigns one.
    `previous_location` is the metadata file of `base`; it is added to the metadata log. Raises InvalidInput for an
    invalid update, CommitConflict if the table changed since the client loaded it.

    With the number of snapshots, the cost grows only by a copy of as many pointers.
    """
    draft = TableDraft(base, base.format_version if base else _initial_version(updates))
    for update in updates:
        _apply(draft, update, now_ms)
    return draft.finish(now_ms=now_ms, new_uuid=new_uuid, previous_location=previous_location)


def _initial_version(updates: Sequence[Update]) -> int:
    # A new table is created in the first format version that the updates name.
    for update in updates:
        if isinstance(update, UpgradeFormatVersion):
            check_format_version(update.format_version)
            return update.format_version
    return DEFAULT_FORMAT_VERSION


def _apply(draft: TableDraft, update: Update, now_ms: int) -> None:
    match update:
        case AddSnapshot():
            snapshot_updates.add_snapshot(draft, update)
        case SetSnapshotRef():
            snapshot_updates.set_snapshot_ref(draft, update, now_ms)
        case RemoveSnapshots():
            snapshot_updates.remove_snapshots(draft, update)
        case RemoveSnapshotRef():
            snapshot_updates.remove_snapshot_ref(draft, update.ref_name)
        case SetStatistics():
            snapshot_updates.set_statistics(draft, update)
        case RemoveStatistics():
            snapshot_updates.remove_statistics(draft, update)
        case SetPartitionStatistics():
            snapshot_updates.set_partition_statistics(draft, update)
        case RemovePartitionStatistics():
            snapshot_updates.remove_partition_statistics(draft, update)
        case AddSchema():
            schema_updates.add_schema(draft, update)
        case SetCurrentSchema():
            schema_updates.set_current_schema(draft, update)
        case RemoveSchemas():
            schema_updates.remove_schemas(draft, update)
        case AddSpec():
            schema_updates.add_spec(draft, update)
        case SetDefaultSpec():
            schema_updates.set_default_spec(draft, update)
        case RemoveSpecs():
            schema_updates.remove_specs(draft, update)
        case AddSortOrder():
            schema_updates.add_sort_order(draft, update)
        case SetDefaultSortOrder():
            schema_updates.set_default_sort_order(draft, update)
        case AssignUuid():
            _assign_uuid(draft, update.uuid)
        case UpgradeFormatVersion():
            _upgrade(draft, update.format_version)
        case SetLocation():
            draft.location = without_trailing_slash(update.location)
        case SetProperties():
            check_properties(update.updates)
            draft.properties.update(update.updates)
        case RemoveProperties():
            for name in update.removals:
                draft.properties.pop(name, None)
        case AddEncryptionKey():
            _add_key(draft, update)
        case RemoveEncryptionKey():
            if draft.encryption_keys.pop(update.key_id, None) is not None:
                draft.removed_key_ids.add(update.key_id)
        case _:
            raise InvalidInput(f"update does not apply to tables. update={type(update).__name__}", argument="updates")


def check_format_version(version: int) -> None:
    """Raise InvalidInput for an unsupported table format version."""
    if version not in FORMAT_VERSIONS:
        raise InvalidInput(
            f"table format version must be 1, 2 or 3. format_version={version}", argument="format-version"
        )


def check_uuid(uuid: str) -> None:
    """Raise InvalidInput for a UUID in another form than the usual one: some clients could not read the table."""
    try:
        usual = str(UUID(uuid)) == uuid.lower()
    except ValueError:
        usual = False
    if not usual:
        raise InvalidInput(f"not a UUID. uuid={uuid}", argument="uuid", value=uuid)


def without_trailing_slash(location: str) -> str:
    """The location without trailing slashes, except for a bare `scheme://`."""
    while location.endswith("/") and not location.endswith("://"):
        location = location[:-1]
    return location


def _assign_uuid(draft: TableDraft, uuid: str) -> None:
    check_uuid(uuid)
    if draft.uuid is None or draft.base is None:
        draft.uuid = uuid
    elif draft.uuid.lower() != uuid.lower():
        raise InvalidInput(f"the UUID of a table cannot change. found={draft.uuid} given={uuid}", argument="uuid")


def _upgrade(draft: TableDraft, version: int) -> None:
    check_format_version(version)
    if version < draft.format_version:
        raise InvalidInput(
            f"the format version of a table cannot be lowered. found={draft.format_version} given={version}",
            argument="format-version",
        )
    if draft.format_version == 1 and version > 1:
        draft.has_rewritten_snapshots = True
        draft.snapshots = {
            snapshot_id: with_sequence_number(snapshot) for snapshot_id, snapshot in draft.snapshots.items()
        }
    draft.format_version = version


def _add_key(draft: TableDraft, update: AddEncryptionKey) -> None:
    if draft.format_version < ENCRYPTION_SINCE_VERSION:
        raise InvalidInput(
            f"encryption keys require format version {ENCRYPTION_SINCE_VERSION}: upgrade the table first."
            f" format_version={draft.format_version}",
            argument="encryption-key",
        )
    key = parse_key(update.encryption_key, "add-encryption-key: encryption-key")
    draft.encryption_keys.setdefault(key.key_id, key)
    draft.removed_key_ids.discard(key.key_id)
