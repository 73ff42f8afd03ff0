"""Statistics files that a commit names: in the table's directories, there, and as long as they are said to be."""

from __future__ import annotations

from lakebed.core.errors import InvalidInput, TooLarge
from lakebed.iceberg.metadata.statistics import PartitionStatisticsFile
from lakebed.iceberg.metadata.table import TableMetadata

from .model import CommitLimits
from .objects import CommitObjects
from .scope import Scope

__all__ = ["check_statistics"]


async def check_statistics(
    base: TableMetadata | None, new: TableMetadata, scope: Scope, objects: CommitObjects, limits: CommitLimits
) -> None:
    """Check the statistics files that the commit adds. Raises InvalidInput, TooLarge."""
    known = set() if base is None else {_identity(file) for file in _files(base)}
    added = [file for file in _files(new) if _identity(file) not in known]
    if len(added) > limits.statistics_files:
        raise TooLarge(f"commit has too many statistics files. maximum={limits.statistics_files}")
    if sum(file.file_size_in_bytes for file in added) > limits.statistics_bytes:
        raise TooLarge(f"commit has too many bytes of statistics. maximum={limits.statistics_bytes}")
    located = [(scope.locate(file.statistics_path, "statistics file"), file.file_size_in_bytes) for file in added]
    found = await objects.find((location for location, _ in located), "statistics file")
    for location, size in located:
        if size > limits.statistics_file_bytes:
            raise TooLarge(f"statistics file is too large. location={location} maximum={limits.statistics_file_bytes}")
        if found[location].size != size:
            raise InvalidInput(
                f"statistics file has another size than the commit says."
                f" location={location} said={size} found={found[location].size}"
            )


def _files(table: TableMetadata) -> list[PartitionStatisticsFile]:
    return [*table.statistics, *table.partition_statistics]


def _identity(file: PartitionStatisticsFile) -> tuple[int, str, int]:
    return file.snapshot_id, file.statistics_path, file.file_size_in_bytes
