"""Levels, limits and results of commit validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from lakebed.core.errors import TooLarge
from lakebed.iceberg.manifests import DEFAULT_LIMITS, FileContent, ReadLimits

from ..tables.files import FileStat

__all__ = [
    "DEFAULT_COMMIT_LIMITS",
    "CommitBudget",
    "CommitLimits",
    "CommitReport",
    "FileKey",
    "SnapshotChanges",
    "TrackedFile",
    "ValidationLevel",
]


class ValidationLevel(StrEnum):
    """How thoroughly a commit's snapshots are validated."""

    STANDARD = "standard"
    """The commit's own changes: its manifest lists, added and dropped manifests, added files.

    Inherited manifests were validated with the parent's commit; their lines are compared, not read. The cost depends on
    the change, not on the table. `CommitLimits.recent_manifests` bounds the one exception.
    """
    STRICT = "strict"
    """Also inherited manifests: each is read, and every live file is looked up."""


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """Limits of one commit."""

    manifests: int = 10_000
    """Manifests read for all its snapshots."""
    avro_bytes: int = 512 * 1024 * 1024
    """Bytes of manifests and lists: stored, and decompressed."""
    file_refs: int = 1_000_000
    """Entries of the manifests read."""
    statistics_files: int = 1024
    statistics_bytes: int = 512 * 1024 * 1024
    statistics_file_bytes: int = 128 * 1024 * 1024
    read: ReadLimits = DEFAULT_LIMITS
    recent_manifests: int = 16
    recent_bytes: int = 16 * 1024 * 1024
    """Limits of the parent's newest manifests that the standard level reads to find live files."""


DEFAULT_COMMIT_LIMITS: Final = CommitLimits()

FileKey: TypeAlias = str | tuple[str, int]
"""A file by location; a deletion vector, which shares its file with others, by location and offset."""


class TrackedFile(NamedTuple):
    """The attributes of a file that must not change."""

    location: str
    content: int
    size: int
    record_count: int
    snapshot_id: int | None
    sequence_number: int
    file_sequence_number: int | None
    first_row_id: int | None
    referenced: str | None
    """The data file of a deletion vector."""
    is_encrypted: bool

    @property
    def is_data(self) -> bool:
        """Whether it is a data file, not a delete file."""
        return self.content == FileContent.DATA


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """The changes of one snapshot."""

    snapshot_id: int
    operation: str | None
    manifests_inherited: int = 0
    manifests_added: int = 0
    manifests_removed: int = 0
    data_files_added: int = 0
    delete_files_added: int = 0
    data_files_removed: int = 0
    delete_files_removed: int = 0
    manifests_lost: int = 0
    """Dropped manifests that are missing: their files are unknown."""
    is_opaque: bool = False
    """Whether parts are encrypted by the client, and were not validated."""


@dataclass(frozen=True, slots=True)
class CommitReport:
    """The result of a validation: each new snapshot, and the state of every object it depends on."""

    snapshots: tuple[SnapshotChanges, ...] = ()
    observed: Mapping[str, FileStat] = field(default_factory=dict)


class CommitBudget:
    """The remaining limits of a commit."""

    def __init__(self, limits: CommitLimits) -> None:
        self.limits = limits
        self._manifests = 0
        self._stored_bytes = 0
        self._decoded_bytes = 0
        self._file_refs = 0

    def take_manifest(self) -> None:
        """Count a manifest before it is read."""
        self._manifests += 1
        if self._manifests > self.limits.manifests:
            raise TooLarge(f"commit has too many manifests. maximum={self.limits.manifests}")

    def take_stored(self, size: int) -> None:
        """Count the bytes of a manifest or list that was read."""
        self._stored_bytes += size
        if self._stored_bytes > self.limits.avro_bytes:
            raise TooLarge(f"commit has too many bytes of manifests. maximum={self.limits.avro_bytes}")

    def take_decoded(self, size: int, entries: int) -> None:
        """Count the entries of a manifest."""
        self._decoded_bytes += size
        self._file_refs += entries
        if self._decoded_bytes > self.limits.avro_bytes:
            raise TooLarge(f"commit has too many bytes of decompressed manifests. maximum={self.limits.avro_bytes}")
        if self._file_refs > self.limits.file_refs:
            raise TooLarge(f"commit has too many file references. maximum={self.limits.file_refs}")
