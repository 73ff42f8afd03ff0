"""The files of a table as reports show them: kind, state, and the reasons for it. Stored as they are here. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

__all__ = [
    "MAX_LISTED",
    "GraphReport",
    "GraphStatus",
    "ObjectKind",
    "ObjectReport",
    "ObjectState",
    "Reason",
    "ReportValue",
    "kind_of",
]

MAX_LISTED: Final = 1000
"""How many of each kind of finding a report lists; its counts are of all."""

_METADATA: Final = (".metadata.json", ".metadata.json.gz")
_TABLES: Final = (".parquet", ".orc", ".avro", ".puffin", ".stats")
_DELETES: Final = ("delete", "deletes")


class ReportValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a stored report. New fields have defaults: rows of earlier releases lack them."""


class ObjectKind(StrEnum):
    """The kind of a file of a table."""

    METADATA_FILE = "METADATA_FILE"
    MANIFEST_LIST = "MANIFEST_LIST"
    MANIFEST_FILE = "MANIFEST_FILE"
    DATA_FILE = "DATA_FILE"
    DELETE_FILE = "DELETE_FILE"
    STATISTICS_FILE = "STATISTICS_FILE"


class ObjectState(StrEnum):
    """The decision on a file, or its outcome."""

    RETAINED = "RETAINED"
    PENDING_SAFETY_WINDOW = "PENDING_SAFETY_WINDOW"
    DELETABLE = "DELETABLE"
    DELETED = "DELETED"
    QUARANTINED = "QUARANTINED"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class Reason(StrEnum):
    """The reason of a decision on a file or table."""

    CURRENT_METADATA = "CURRENT_METADATA"
    METADATA_LOG = "METADATA_LOG"
    PROTECTED_SNAPSHOT_REF = "PROTECTED_SNAPSHOT_REF"
    RECENT_METADATA = "RECENT_METADATA"
    NO_CURRENT_REACHABILITY = "NO_CURRENT_REACHABILITY"
    SAFETY_WINDOW_PENDING = "SAFETY_WINDOW_PENDING"
    SAFETY_WINDOW_SATISFIED = "SAFETY_WINDOW_SATISFIED"
    DELETED_BY_MAINTENANCE = "DELETED_BY_MAINTENANCE"
    MANIFEST_LIST = "MANIFEST_LIST"
    MANIFEST_FILE = "MANIFEST_FILE"
    DATA_FILE = "DATA_FILE"
    DELETE_FILE = "DELETE_FILE"
    STATISTICS_FILE = "STATISTICS_FILE"
    UNSUPPORTED_MANIFEST_AVRO = "UNSUPPORTED_MANIFEST_AVRO"
    UNREADABLE_METADATA = "UNREADABLE_METADATA"
    QUARANTINE_ENABLED = "QUARANTINE_ENABLED"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    MISSING_OBJECT = "MISSING_OBJECT"
    """A referenced file does not exist."""
    GC_DISABLED = "GC_DISABLED"
    """The table's property `gc.enabled` is false: other tables may need its files."""
    NEWER_THAN_CURRENT = "NEWER_THAN_CURRENT"
    """A metadata file is newer than the table, and not of this catalog: another writer uses the directory."""
    OUTSIDE_TABLE = "OUTSIDE_TABLE"
    """A manifest or its list lies outside the table's directories, and is not read."""
    TOO_MANY_FILES = "TOO_MANY_FILES"
    """The table exceeds the limits of one job."""
    CHANGED_SINCE_PLAN = "CHANGED_SINCE_PLAN"
    IN_USE = "IN_USE"
    """The file is the current metadata of another table or view."""


class GraphStatus(StrEnum):
    """Whether all references of a table are known."""

    COMPLETE = "COMPLETE"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class ObjectReport(ReportValue, frozen=True):
    """A file and the decision on it."""

    location: str
    kind: ObjectKind
    state: ObjectState
    reasons: tuple[Reason, ...] = ()
    size: int | None = None
    modified_ms: int | None = None


class GraphReport(ReportValue, frozen=True):
    """Numbers of files that a table refers to."""

    status: GraphStatus = GraphStatus.COMPLETE
    metadata_files: int = 0
    snapshots: int = 0
    manifest_lists: int = 0
    manifests: int = 0
    data_files: int = 0
    delete_files: int = 0
    statistics_files: int = 0
    reasons: tuple[Reason, ...] = ()
    problems: tuple[ObjectReport, ...] = ()


def kind_of(key: str, metadata_folders: Sequence[str]) -> ObjectKind | None:
    """The kind of a file by its name; None for files that are not named like files of tables.

    Referenced files are known from manifests. This is for the rest: a file that was put into the folder by other means
    must not pass for an unreferenced data file.
    """
    folder, _, name = key.rpartition("/")
    if name.endswith(_METADATA):
        return ObjectKind.METADATA_FILE
    if not name.endswith(_TABLES):
        return None
    if name.endswith(".stats"):
        return ObjectKind.STATISTICS_FILE
    if any(key.startswith(prefix) for prefix in metadata_folders):
        if not name.endswith(".avro"):
            return ObjectKind.STATISTICS_FILE
        return ObjectKind.MANIFEST_LIST if name.startswith("snap-") else ObjectKind.MANIFEST_FILE
    if name.endswith(".puffin") or "-deletes." in name or any(part in _DELETES for part in folder.split("/")):
        return ObjectKind.DELETE_FILE
    return ObjectKind.DATA_FILE
