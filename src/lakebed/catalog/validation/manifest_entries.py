"""Reads the entries of manifests, and validates those of manifests that a snapshot adds."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.manifests import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    open_manifest,
)

from .directory_scope import DirectoryScope, normalized
from .model import CommitLimits, FileKey, TrackedFile

__all__ = ["EntryRules", "ManifestContents", "read_added_manifest", "read_live_files"]

_VECTORS_SINCE_VERSION: Final = 3
_PUFFIN: Final = "puffin"
_NO_STATISTICS: Final[frozenset[int]] = frozenset()
_ADDED: Final = EntryStatus.ADDED.value
_EXISTING: Final = EntryStatus.EXISTING.value
_DELETED: Final = EntryStatus.DELETED.value


@dataclass(frozen=True, slots=True)
class EntryRules:
    """The snapshot and table that entries are validated against."""

    snapshot_id: int
    format_version: int
    first_row_id: int
    end_row_id: int
    partition_sizes: Mapping[int, int]
    """The number of fields of each partition spec."""
    column_ids: Container[int]
    scope: DirectoryScope
    strict: bool


@dataclass(slots=True)
class ManifestContents:
    """The files of a manifest, by entry status."""

    added: dict[FileKey, TrackedFile] = field(default_factory=dict)
    existing: dict[FileKey, TrackedFile] = field(default_factory=dict)
    deleted: dict[FileKey, TrackedFile] = field(default_factory=dict)
    entries: int = 0
    decoded_bytes: int = 0
    is_opaque: bool = False
    """Whether it is encrypted by the client, so that its files are unknown."""


def read_added_manifest(
    data: bytes, location: str, line: ManifestFile, rules: EntryRules, limits: CommitLimits
) -> ManifestContents:
    """Read a manifest that a snapshot adds, and validate each entry. Raises InvalidInput, TooLarge."""
    try:
        found = _survey(data, line, rules, limits)
    except InvalidInput as error:
        raise type(error)(f"{error} manifest={location}") from error
    _check_counts(found, location, line)
    if rules.strict:
        _check_rows(found, location, line)
    return found


def read_live_files(data: bytes, line: ManifestFile, limits: CommitLimits) -> ManifestContents:
    """Read a manifest of the parent: its live files are `existing`. Raises InvalidInput, TooLarge."""
    opened = open_manifest(data, limits=limits.read)
    found = ManifestContents()
    for entry in opened.entries(line, columns=_NO_STATISTICS):
        found.entries += 1
        if entry.status != _DELETED:
            location = normalized(entry.data_file.file_path)
            found.existing[_key(entry.data_file, location)] = _tracked(entry, location)
    found.decoded_bytes = opened.decoded_bytes
    return found


def _survey(data: bytes, line: ManifestFile, rules: EntryRules, limits: CommitLimits) -> ManifestContents:
    opened = open_manifest(data, limits=limits.read)
    if opened.content is not None and opened.content != line.content:
        raise InvalidInput("content of the manifest differs from its manifest list.")
    if opened.partition_spec_id is not None and opened.partition_spec_id != line.partition_spec_id:
        raise InvalidInput("partition spec of the manifest differs from its manifest list.")
    found = ManifestContents()
    sets = {_ADDED: found.added, _EXISTING: found.existing, _DELETED: found.deleted}
    for entry in opened.entries(line, columns=_NO_STATISTICS):
        found.entries += 1
        file = entry.data_file
        location = normalized(file.file_path)
        try:
            _check_any(entry, line, rules)
            if entry.status == _ADDED:
                location = rules.scope.locate(location, "file")
                _check_added(entry, line, rules)
        except InvalidInput as error:
            raise InvalidInput(f"{error} file={file.file_path[:1024]}") from error
        key = _key(file, location)
        tracked = sets[entry.status]
        if key in tracked:
            raise InvalidInput(f"file is listed twice. file={location}")
        tracked[key] = _tracked(entry, location)
    found.decoded_bytes = opened.decoded_bytes
    return found


def _check_any(entry: ManifestEntry, line: ManifestFile, rules: EntryRules) -> None:
    file = entry.data_file
    if (file.content == FileContent.DATA) != (line.content == ManifestContent.DATA):
        raise InvalidInput("data files and delete files are listed in one manifest.")
    if file.record_count < 0 or file.file_size_in_bytes < 0:
        raise InvalidInput("file has a negative size.")
    if len(file.partition) != rules.partition_sizes[line.partition_spec_id]:
        raise InvalidInput("number of partition values differs from the partition spec.")
    if not 0 <= entry.sequence_number <= line.sequence_number:
        raise InvalidInput(f"file has a sequence number out of bounds. number={entry.sequence_number}")
    if rules.strict and entry.status != _DELETED and entry.sequence_number < line.min_sequence_number:
        raise InvalidInput(f"file has a sequence number below its manifest's least. number={entry.sequence_number}")
    if entry.status != _EXISTING and entry.snapshot_id != rules.snapshot_id:
        raise InvalidInput(f"manifest entry has the id of another snapshot. snapshot={entry.snapshot_id}")


def _check_added(entry: ManifestEntry, line: ManifestFile, rules: EntryRules) -> None:
    file = entry.data_file
    if entry.file_sequence_number != line.sequence_number:
        raise InvalidInput(
            f"file sequence number of a new file differs from its snapshot. number={entry.file_sequence_number}"
        )
    is_puffin = file.file_format.lower() == _PUFFIN
    if file.content == FileContent.EQUALITY_DELETES:
        if not file.equality_ids:
            raise InvalidInput("equality delete file has no equality ids.")
        for column_id in file.equality_ids:
            if column_id not in rules.column_ids:
                raise InvalidInput(f"equality delete file refers to an unknown column. id={column_id}")
    elif file.content == FileContent.POSITION_DELETES and is_puffin:
        _check_vector(file, rules)
    elif file.content == FileContent.POSITION_DELETES and rules.format_version >= _VECTORS_SINCE_VERSION:
        raise InvalidInput("tables of format version 3 require deletion vectors instead of position delete files.")
    elif file.content == FileContent.DATA and rules.format_version >= _VECTORS_SINCE_VERSION:
        first = file.first_row_id
        if first is None or not rules.first_row_id <= first <= rules.end_row_id - file.record_count:
            raise InvalidInput(f"row ids of a new file are outside its snapshot's range. first-row-id={first}")
    if is_puffin and file.content != FileContent.POSITION_DELETES:
        raise InvalidInput("puffin file is not a deletion vector.")


def _check_vector(file: DataFile, rules: EntryRules) -> None:
    if rules.format_version < _VECTORS_SINCE_VERSION:
        raise InvalidInput(f"deletion vectors require format version {_VECTORS_SINCE_VERSION}.")
    offset, size = file.content_offset, file.content_size_in_bytes
    if not file.referenced_data_file or offset is None or size is None:
        raise InvalidInput("deletion vector has no offset, size or referenced data file.")
    if offset < 0 or size <= 0 or offset + size > file.file_size_in_bytes:
        raise InvalidInput(f"deletion vector is outside its file. offset={offset} size={size}")


def _key(file: DataFile, location: str) -> FileKey:
    # Position delete files may also have a referenced data file; only deletion vectors share a file.
    return location if file.content_offset is None else (location, file.content_offset)


def _tracked(entry: ManifestEntry, location: str) -> TrackedFile:
    file = entry.data_file
    return TrackedFile(
        location,
        file.content,
        file.file_size_in_bytes,
        file.record_count,
        entry.snapshot_id,
        entry.sequence_number,
        entry.file_sequence_number,
        file.first_row_id,
        None
        if file.content_offset is None or file.referenced_data_file is None
        else normalized(file.referenced_data_file),
        file.key_metadata is not None,
    )


def _check_counts(found: ManifestContents, location: str, line: ManifestFile) -> None:
    # Readers skip manifests by these counts: wrong ones hide files.
    for name, claimed, counted in (
        ("added", line.added_files_count, len(found.added)),
        ("existing", line.existing_files_count, len(found.existing)),
        ("deleted", line.deleted_files_count, len(found.deleted)),
    ):
        if claimed is not None and claimed != counted:
            raise InvalidInput(
                f"number of {name} files in the manifest differs from its manifest list."
                f" manifest={location} listed={claimed} found={counted}"
            )


def _check_rows(found: ManifestContents, location: str, line: ManifestFile) -> None:
    for name, claimed, files in (
        ("added", line.added_rows_count, found.added),
        ("existing", line.existing_rows_count, found.existing),
        ("deleted", line.deleted_rows_count, found.deleted),
    ):
        counted = sum(file.record_count for file in files.values())
        if claimed is not None and claimed != counted:
            raise InvalidInput(
                f"number of {name} rows in the manifest differs from its manifest list."
                f" manifest={location} listed={claimed} found={counted}"
            )
