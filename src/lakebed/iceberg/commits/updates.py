"""Updates of a commit, as in the Iceberg REST specification.

Parts of the metadata in an update (a schema, a snapshot) are kept as text and parsed when they are applied, because
validity depends on the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Raw

from lakebed.core.errors import InvalidInput

from ..documents import DocumentElement, Int, Long, compact, decode, read

__all__ = [
    "LAST_ADDED",
    "AddEncryptionKey",
    "AddSchema",
    "AddSnapshot",
    "AddSortOrder",
    "AddSpec",
    "AddViewVersion",
    "AssignUuid",
    "RemoveEncryptionKey",
    "RemovePartitionStatistics",
    "RemoveProperties",
    "RemoveSchemas",
    "RemoveSnapshotRef",
    "RemoveSnapshots",
    "RemoveSpecs",
    "RemoveStatistics",
    "SetCurrentSchema",
    "SetCurrentViewVersion",
    "SetDefaultSortOrder",
    "SetDefaultSpec",
    "SetLocation",
    "SetPartitionStatistics",
    "SetProperties",
    "SetSnapshotRef",
    "SetStatistics",
    "Update",
    "UpgradeFormatVersion",
    "kind_of",
    "parse_table_updates",
    "parse_view_updates",
]

LAST_ADDED: Final = -1
"""Used in place of an id: the one added last in the same commit."""


class Update(DocumentElement, frozen=True):
    """An update. The field `action` selects the class."""


class AssignUuid(Update, frozen=True):
    """Assign the UUID of a new table or view."""

    uuid: str


class UpgradeFormatVersion(Update, frozen=True):
    """Upgrade the format version."""

    format_version: Int


class AddSchema(Update, frozen=True):
    """Add a schema. The `last-column-id` that old clients send is ignored."""

    schema: Raw


class SetCurrentSchema(Update, frozen=True):
    """Make a schema the current one."""

    schema_id: Int


class AddSpec(Update, frozen=True):
    """Add a partition spec."""

    spec: Raw


class SetDefaultSpec(Update, frozen=True):
    """Make a partition spec the default."""

    spec_id: Int


class AddSortOrder(Update, frozen=True):
    """Add a sort order."""

    sort_order: Raw


class SetDefaultSortOrder(Update, frozen=True):
    """Make a sort order the default."""

    sort_order_id: Int


class AddSnapshot(Update, frozen=True):
    """Add a snapshot. It becomes current only through a branch."""

    snapshot: Raw


class SetSnapshotRef(Update, frozen=True):
    """Create or move a branch or tag. Its other fields are parsed from its text."""

    ref_name: str
    snapshot_id: Long
    type: Literal["branch", "tag"]


class RemoveSnapshots(Update, frozen=True):
    """Remove snapshots."""

    snapshot_ids: tuple[Long, ...]


class RemoveSnapshotRef(Update, frozen=True):
    """Remove a branch or tag."""

    ref_name: str


class SetLocation(Update, frozen=True):
    """Set the base location for new files."""

    location: Annotated[str, Meta(min_length=1)]


class SetProperties(Update, frozen=True):
    """Set properties."""

    updates: dict[str, str]


class RemoveProperties(Update, frozen=True):
    """Remove properties."""

    removals: tuple[str, ...]


class SetStatistics(Update, frozen=True):
    """Set the statistics file of a snapshot."""

    statistics: Raw
    snapshot_id: Long | None = None
    """Sent by old clients; the file has it too."""


class RemoveStatistics(Update, frozen=True):
    """Remove the statistics file of a snapshot."""

    snapshot_id: Long


class SetPartitionStatistics(Update, frozen=True):
    """Set the partition statistics file of a snapshot."""

    partition_statistics: Raw


class RemovePartitionStatistics(Update, frozen=True):
    """Remove the partition statistics file of a snapshot."""

    snapshot_id: Long


class RemoveSpecs(Update, frozen=True):
    """Remove partition specs that no file uses."""

    spec_ids: tuple[Int, ...]


class RemoveSchemas(Update, frozen=True):
    """Remove schemas that no snapshot uses."""

    schema_ids: tuple[Int, ...]


class AddEncryptionKey(Update, frozen=True):
    """Add an encryption key."""

    encryption_key: Raw


class RemoveEncryptionKey(Update, frozen=True):
    """Remove an encryption key."""

    key_id: str


class AddViewVersion(Update, frozen=True):
    """Add a version of a view."""

    view_version: Raw


class SetCurrentViewVersion(Update, frozen=True):
    """Make a version of a view the current one."""

    view_version_id: Int


_SHARED: Final[dict[str, type[Update]]] = {
    "assign-uuid": AssignUuid,
    "upgrade-format-version": UpgradeFormatVersion,
    "add-schema": AddSchema,
    "set-location": SetLocation,
    "set-properties": SetProperties,
    "remove-properties": RemoveProperties,
}
_OF_TABLES: Final[dict[str, type[Update]]] = _SHARED | {
    "set-current-schema": SetCurrentSchema,
    "add-spec": AddSpec,
    "set-default-spec": SetDefaultSpec,
    "add-sort-order": AddSortOrder,
    "set-default-sort-order": SetDefaultSortOrder,
    "add-snapshot": AddSnapshot,
    "set-snapshot-ref": SetSnapshotRef,
    "remove-snapshots": RemoveSnapshots,
    "remove-snapshot-ref": RemoveSnapshotRef,
    "set-statistics": SetStatistics,
    "remove-statistics": RemoveStatistics,
    "set-partition-statistics": SetPartitionStatistics,
    "remove-partition-statistics": RemovePartitionStatistics,
    "remove-partition-specs": RemoveSpecs,
    "remove-schemas": RemoveSchemas,
    "add-encryption-key": AddEncryptionKey,
    "remove-encryption-key": RemoveEncryptionKey,
}
_OF_VIEWS: Final[dict[str, type[Update]]] = _SHARED | {
    "add-view-version": AddViewVersion,
    "set-current-view-version": SetCurrentViewVersion,
}


_KINDS: Final = {update: kind for kind, update in (_OF_TABLES | _OF_VIEWS).items()}


def kind_of(update: Update) -> str:
    """The field `action` of the update."""
    return _KINDS[type(update)]


class _UpdateHead(msgspec.Struct, frozen=True):
    action: str


def parse_table_updates(written: bytes | Raw) -> tuple[Update, ...]:
    """Parse the updates of a table commit, a JSON list. Raises InvalidInput that names index and field."""
    return tuple(_parse(written, _OF_TABLES, "table"))


def parse_view_updates(written: bytes | Raw) -> tuple[Update, ...]:
    """Parse the updates of a view commit, a JSON list. Raises InvalidInput that names index and field."""
    return tuple(_parse(written, _OF_VIEWS, "view"))


def _parse(written: bytes | Raw, kinds: dict[str, type[Update]], of: str) -> Iterable[Update]:
    for index, text in enumerate(decode(list[Raw], compact(written, "updates"), "updates")):
        where = f"updates[{index}]"
        action = decode(_UpdateHead, text, where).action
        kind = kinds.get(action)
        if kind is None:
            raise InvalidInput(f"{where}: unknown {of} update. action={action}", argument="action", value=action)
        yield read(kind, text, where)
