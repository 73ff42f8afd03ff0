"""How much is checked of a commit, how much of it there may be, and what was found."""

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
    """How far a commit's snapshots are followed."""

    STANDARD = "standard"
    """What the commit itself brings: its manifest lists, the manifests that its snapshots add or drop, the files added.

    What a snapshot takes over from its parent was checked when the parent was committed; it is compared line by line,
    not read. The cost is that of the change, not of the table. `CommitLimits.recent_manifests` bounds the one place
    that looks further.
    """
    STRICT = "strict"
    """Also what is taken over: every manifest of each new snapshot is read and every live file looked for."""


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """Bounds on one commit."""

    manifests: int = 10_000
    """Read, over all its snapshots."""
    avro_bytes: int = 512 * 1024 * 1024
    """Of manifests and lists: as they are stored, and unpacked."""
    file_refs: int = 1_000_000
    """Entries of the manifests read."""
    statistics_files: int = 1024
    statistics_bytes: int = 512 * 1024 * 1024
    statistics_file_bytes: int = 128 * 1024 * 1024
    read: ReadLimits = DEFAULT_LIMITS
    recent_manifests: int = 16
    recent_bytes: int = 16 * 1024 * 1024
    """How many of the parent's newest manifests the standard level reads to find files that are live already."""


DEFAULT_COMMIT_LIMITS: Final = CommitLimits()

FileKey: TypeAlias = str | tuple[str, int]
"""A file by its location; a deletion vector, which shares its file with others, by location and offset."""


class TrackedFile(NamedTuple):
    """What a snapshot knows of a file, as far as it must stay the same."""

    location: str
    content: int
    size: int
    record_count: int
    snapshot_id: int | None
    sequence_number: int
    file_sequence_number: int | None
    first_row_id: int | None
    referenced: str | None
    """The one data file that a deletion vector is about."""
    is_encrypted: bool

    @property
    def is_data(self) -> bool:
        """Whether it holds rows of the table, not deletes of them."""
        return self.content == FileContent.DATA


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """What one snapshot changes."""

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
    """Manifests that the snapshot drops and that are not there any more: what they listed is unknown."""
    is_opaque: bool = False
    """Whether parts are encrypted by the client, and were not looked into."""


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What was found good: each new snapshot, and the state of every object that the verdict rests on."""

    snapshots: tuple[SnapshotChanges, ...] = ()
    observed: Mapping[str, FileStat] = field(default_factory=dict)


class CommitBudget:
    """What is left of a commit's limits."""

    def __init__(self, limits: CommitLimits) -> None:
        self.limits = limits
        self._manifests = 0
        self._stored_bytes = 0
        self._decoded_bytes = 0
        self._file_refs = 0

    def take_manifest(self) -> None:
        """Count a manifest that is about to be read."""
        self._manifests += 1
        if self._manifests > self.limits.manifests:
            raise TooLarge(f"commit has too many manifests. maximum={self.limits.manifests}")

    def take_stored(self, size: int) -> None:
        """Count the bytes of a manifest or list that was read."""
        self._stored_bytes += size
        if self._stored_bytes > self.limits.avro_bytes:
            raise TooLarge(f"commit has too many bytes of manifests. maximum={self.limits.avro_bytes}")

    def take_decoded(self, size: int, entries: int) -> None:
        """Count what was found in a manifest."""
        self._decoded_bytes += size
        self._file_refs += entries
        if self._decoded_bytes > self.limits.avro_bytes:
            raise TooLarge(f"commit has too many bytes of manifests when unpacked. maximum={self.limits.avro_bytes}")
        if self._file_refs > self.limits.file_refs:
            raise TooLarge(f"commit has too many file references. maximum={self.limits.file_refs}")
