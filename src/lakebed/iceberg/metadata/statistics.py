"""Statistics files: at most one table and one partition statistics file for each snapshot."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..documents import Count, DocumentElement, Int, Long, same_meaning

__all__ = ["PartitionStatisticsFile", "StatisticsFile", "set_file", "without_snapshots"]


class BlobMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    """The metadata of one blob of a statistics file."""

    type: str
    snapshot_id: Long
    sequence_number: Long
    fields: tuple[Int, ...]
    properties: dict[str, str] | None = None


class PartitionStatisticsFile(DocumentElement, frozen=True):
    """A partition statistics file of a snapshot."""

    snapshot_id: Long
    statistics_path: str
    file_size_in_bytes: Count


class StatisticsFile(PartitionStatisticsFile, frozen=True):
    """A statistics file of a snapshot, in the Puffin format."""

    file_footer_size_in_bytes: Count
    blob_metadata: tuple[BlobMetadata, ...]


File = TypeVar("File", bound=PartitionStatisticsFile)


def set_file(files: list[File], new: File) -> list[File]:
    """The files with this one for its snapshot, replacing an earlier one."""
    for index, one in enumerate(files):
        if one.snapshot_id == new.snapshot_id:
            if same_meaning(one.written, new.written):
                return files
            rest = [other for other in files[index + 1 :] if other.snapshot_id != new.snapshot_id]
            return [*files[:index], new, *rest]
    return [*files, new]


def without_snapshots(files: list[File], snapshot_ids: frozenset[int]) -> list[File]:
    """The files of other snapshots."""
    return [one for one in files if one.snapshot_id not in snapshot_ids]
