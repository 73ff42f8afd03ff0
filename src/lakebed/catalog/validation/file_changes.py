"""The changes of a snapshot, compared with the files that are live in its parent.

A snapshot changes a file by listing it in its own manifest, and drops the parent's manifest. So its entries for
existing files must refer to files of dropped manifests, and no others need to be read: a file that is listed again
while its old manifest stays would be in the table twice, and a file that is live in no dropped manifest was changed by
another commit.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from lakebed.core.errors import CommitConflict, InvalidInput

from .manifest_entries import ManifestContents
from .model import FileKey, TrackedFile

__all__ = [
    "FileChanges",
    "already_live",
    "check_operation",
    "check_other_vectors",
    "check_row_ids",
    "check_vectors",
    "compare_files",
    "merge_manifests",
]


@dataclass(frozen=True, slots=True)
class FileChanges:
    """A snapshot's changes, consistent with its parent."""

    added: Mapping[FileKey, TrackedFile]
    kept: Mapping[FileKey, TrackedFile]
    """Listed again, otherwise unchanged."""
    removed: Mapping[FileKey, TrackedFile]
    """Deleted, or omitted together with their manifest: entries of deletions are only informative."""


def merge_manifests(surveys: Iterable[ManifestContents]) -> ManifestContents:
    """The contents of a snapshot's manifests as one. Raises InvalidInput for a file that is in two of them."""
    whole = ManifestContents()
    for one in surveys:
        whole.is_opaque |= one.is_opaque
        for into, files in ((whole.added, one.added), (whole.existing, one.existing), (whole.deleted, one.deleted)):
            if not into.keys().isdisjoint(files):
                raise _twice(next(iter(into.keys() & files.keys())))
            into.update(files)
    for files, others in (
        (whole.added, whole.existing),
        (whole.added, whole.deleted),
        (whole.existing, whole.deleted),
    ):
        if not files.keys().isdisjoint(others):
            raise _twice(next(iter(files.keys() & others.keys())))
    return whole


def compare_files(
    found: ManifestContents, live: Mapping[FileKey, TrackedFile], *, has_parent: bool, strict: bool
) -> FileChanges:
    """A snapshot's changes. `live` are the files of the manifests that it drops.

    Raises CommitConflict if the parent differs from what the snapshot assumes, InvalidInput if the snapshot is invalid.
    """
    for files, verb in ((found.existing, "kept"), (found.deleted, "deleted")):
        for key, file in files.items():
            was = live.get(key)
            if was is None:
                if not has_parent:
                    raise InvalidInput(f"file is {verb} by a snapshot without a parent. file={file.location}")
                raise CommitConflict(
                    f"{verb} file is not live in the parent snapshot, or still listed by a manifest of it."
                    f" file={file.location}",
                    condition="file",
                )
            _check_unchanged(was, file)
            if files is found.existing:
                _check_kept(was, file, strict=strict)
    for key, file in found.added.items():
        if key in live:
            raise already_live(file)
    removed = {key: file for key, file in live.items() if key not in found.existing}
    return FileChanges(found.added, found.existing, removed)


def already_live(file: TrackedFile) -> CommitConflict:
    """The error for an added file that is live already."""
    return CommitConflict(f"added file is live in the parent snapshot. file={file.location}", condition="file")


def check_vectors(changes: FileChanges) -> None:
    """Reject two deletion vectors for one data file in a snapshot's own manifests. Raises InvalidInput."""
    seen: set[str] = set()
    for files in (changes.added, changes.kept):
        for file in files.values():
            if file.referenced is not None:
                if file.referenced in seen:
                    raise InvalidInput(f"data file has two deletion vectors. file={file.referenced}")
                seen.add(file.referenced)


def check_other_vectors(vectors: Container[str], others: Iterable[TrackedFile]) -> None:
    """Reject deletion vectors for data files that have one in an inherited manifest. Raises CommitConflict."""
    for other in others:
        if other.referenced is not None and other.referenced in vectors:
            raise CommitConflict(
                f"data file already has a deletion vector, which the new one must replace. file={other.referenced}",
                condition="deletion-vector",
            )


def check_row_ids(changes: FileChanges) -> None:
    """Reject new files with overlapping row ids. Raises InvalidInput."""
    ranges = sorted(
        (file.first_row_id, file.record_count, file.location)
        for file in changes.added.values()
        if file.is_data and file.first_row_id is not None
    )
    end = 0
    for first, count, location in ranges:
        if first < end and count:
            raise InvalidInput(f"row ids of new files overlap. file={location} first-row-id={first}")
        end = max(end, first + count)


def check_operation(operation: str | None, changes: FileChanges) -> None:
    """Reject changes that the snapshot's operation excludes. Raises InvalidInput.

    Nothing has to change: engines commit deletes without matches, overwrites of empty tables, and rewrites of manifests
    alone. Only changes that incremental readers do not expect are rejected. Format 1 may omit the operation.
    """
    adds_data = any(file.is_data for file in changes.added.values())
    adds_deletes = any(not file.is_data for file in changes.added.values())
    match operation:
        case None | "overwrite":
            return
        case "append":
            if changes.removed:
                file = next(iter(changes.removed.values()))
                raise InvalidInput(f"an append cannot remove files. file={file.location}", argument="summary")
            if adds_deletes:
                raise InvalidInput("an append cannot add delete files", argument="summary")
        case "delete":
            if adds_data:
                raise InvalidInput("a delete cannot add data files", argument="summary")
        case "replace":
            if adds_data and not changes.removed:
                raise InvalidInput("a replace that adds data files must remove what they replace", argument="summary")
        case _:
            raise InvalidInput(f"unknown snapshot operation. operation={operation[:80]}", argument="summary")


def _check_unchanged(was: TrackedFile, file: TrackedFile) -> None:
    before = (was.content, was.size, was.record_count, was.sequence_number)
    after = (file.content, file.size, file.record_count, file.sequence_number)
    # Older writers did not preserve this number.
    is_known = was.file_sequence_number is not None and file.file_sequence_number is not None
    if before != after or (is_known and was.file_sequence_number != file.file_sequence_number):
        raise InvalidInput(
            f"file of the parent snapshot is listed with a different size, number of rows or sequence number."
            f" file={file.location} before={before} after={after}"
        )


def _check_kept(was: TrackedFile, file: TrackedFile, *, strict: bool) -> None:
    if was.first_row_id is not None and was.first_row_id != file.first_row_id:
        raise InvalidInput(
            f"file of the parent snapshot is listed with different row ids."
            f" file={file.location} before={was.first_row_id} after={file.first_row_id}"
        )
    if strict and was.snapshot_id != file.snapshot_id:
        raise InvalidInput(
            f"file of the parent snapshot is listed as added by another snapshot."
            f" file={file.location} before={was.snapshot_id} after={file.snapshot_id}"
        )


def _twice(key: FileKey) -> InvalidInput:
    return InvalidInput(f"file is listed twice. file={key if isinstance(key, str) else key[0]}")
