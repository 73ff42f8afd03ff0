"""Table health: the numbers of a table that maintenance rules depend on. Pure.

Measured in two ways. The snapshot summary is part of the metadata and costs no read; it has the number of files and
their total size, not the size of each. Manifests are exact, and have to be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.core.sizes import MIB
from lakebed.core.table_health import Measured, TableHealth
from lakebed.iceberg.manifests import DataFile, FileContent, ManifestFile
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.iceberg.metadata.table import TableMetadata

from ..entries import LiveEntry
from .reachability.walking import LiveFiles

__all__ = [
    "DEFAULT_TARGET_BYTES",
    "Measured",
    "TableHealth",
    "health_from_files",
    "health_from_summary",
    "small_below_bytes",
    "target_file_bytes",
]

DEFAULT_TARGET_BYTES: Final = 512 * MIB
"""The target size of data files where the table has no property for it."""

TARGET_PROPERTY: Final = "write.target-file-size-bytes"
_SMALL_SHARE: Final = 0.75
"""Share of the target size below which compaction treats a file as small."""
_MAX_ANCESTORS: Final = 1000


class _Counts(NamedTuple):
    """The numbers that either way of measuring gives."""

    data_files: int | None = None
    data_bytes: int | None = None
    small_files: int | None = None
    small_bytes: int | None = None
    records: int | None = None
    delete_files: int | None = None
    position_deletes: int | None = None
    equality_deletes: int | None = None
    deletion_vectors: int | None = None
    manifests: int | None = None
    manifest_bytes: int | None = None
    specs_in_use: tuple[int, ...] | None = None


def target_file_bytes(table: TableMetadata) -> int:
    """The target size of data files."""
    return _count(table.properties, TARGET_PROPERTY) or DEFAULT_TARGET_BYTES


def small_below_bytes(target_bytes: int) -> int:
    """The size up to which files are small, for a target size."""
    return int(target_bytes * _SMALL_SHARE)


def health_from_summary(
    known: LiveEntry,
    table: TableMetadata,
    *,
    small_below: int | None = None,
    last_maintained: Mapping[str, int] | None = None,
    manifests: Sequence[ManifestFile] | None = None,
) -> TableHealth:
    """Table health by the summary of the current snapshot, and by the manifest list if given."""
    limit = small_below_bytes(target_file_bytes(table)) if small_below is None else small_below
    counts = _summarized(table, limit)
    if manifests is not None:
        counts = counts._replace(
            manifests=len(manifests),
            manifest_bytes=sum(line.length for line in manifests),
            specs_in_use=tuple(sorted({line.partition_spec_id for line in manifests if _has_live_files(line)})),
        )
    return _health(known, table, counts, limit, last_maintained, Measured.SUMMARY)


def health_from_files(
    known: LiveEntry,
    table: TableMetadata,
    live: LiveFiles,
    *,
    small_below: int | None = None,
    last_maintained: Mapping[str, int] | None = None,
) -> TableHealth:
    """Table health by the live files. Unreadable manifests are reported as problems, and not counted."""
    limit = small_below_bytes(target_file_bytes(table)) if small_below is None else small_below
    small = [file.file_size_in_bytes for file in live.data if file.file_size_in_bytes <= limit]
    counts = _Counts(
        data_files=len(live.data),
        data_bytes=sum(file.file_size_in_bytes for file in live.data),
        small_files=len(small),
        small_bytes=sum(small),
        records=sum(file.record_count for file in live.data),
        delete_files=len(live.deletes),
        position_deletes=_rows(live.deletes, FileContent.POSITION_DELETES),
        equality_deletes=_rows(live.deletes, FileContent.EQUALITY_DELETES),
        deletion_vectors=sum(file.content_offset is not None for file in live.deletes),
        manifests=len(live.manifests),
        manifest_bytes=sum(line.length for line in live.manifests),
        specs_in_use=tuple(sorted({file.spec_id for file in live.data})),
    )
    problems = tuple(sorted({problem.reason.value for problem in live.problems}))
    return _health(known, table, counts, limit, last_maintained, Measured.MANIFESTS, problems)


def _health(
    known: LiveEntry,
    table: TableMetadata,
    counts: _Counts,
    small_below: int,
    last_maintained: Mapping[str, int] | None,
    measured: Measured,
    problems: tuple[str, ...] = (),
) -> TableHealth:
    current = table.current_snapshot
    return TableHealth(
        warehouse=known.catalog.name,
        namespace=known.identifier.namespace,
        table=known.entry.name,
        entry=known.entry.id,
        format_version=table.format_version,
        snapshots=len(table.snapshots),
        oldest_snapshot_ms=min((one.timestamp_ms for one in table.snapshots.values()), default=None),
        current_snapshot_ms=None if current is None else current.timestamp_ms,
        small_below_bytes=small_below,
        average_file_bytes=_quotient(counts.data_bytes, counts.data_files),
        delete_ratio=_delete_ratio(counts),
        metadata_files=len(table.metadata_log) + 1,
        statistics_snapshot=_described(table),
        last_maintained=dict(last_maintained or {}),
        measured=measured,
        problems=problems,
        **counts._asdict(),
    )


def _summarized(table: TableMetadata, small_below: int) -> _Counts:
    current = table.current_snapshot
    if current is None:
        # Nothing was ever written, and that is known exactly.
        nothing = dict.fromkeys(_Counts._fields, 0) | {"specs_in_use": ()}
        return _Counts(**nothing)  # type: ignore[arg-type]  # one field is a tuple
    summary = current.summary or {}
    files, size = _count(summary, "total-data-files"), _count(summary, "total-files-size")
    small = _estimated_small(table, current, files, size, small_below)
    return _Counts(
        data_files=files,
        data_bytes=size,
        small_files=None if small is None else small[0],
        small_bytes=None if small is None else small[1],
        records=_count(summary, "total-records"),
        delete_files=_count(summary, "total-delete-files"),
        position_deletes=_count(summary, "total-position-deletes"),
        equality_deletes=_count(summary, "total-equality-deletes"),
    )


def _estimated_small(
    table: TableMetadata, current: Snapshot, files: int | None, size: int | None, small_below: int
) -> tuple[int, int] | None:
    """The number of small files and their bytes, estimated by what each snapshot added.

    Goes back to the first snapshot that removed files; older files count by their average size.
    """
    if files is None or size is None:
        return None
    small_files = small_bytes = 0
    left_files, left_bytes = files, size
    for snapshot in _line(table, current):
        summary = snapshot.summary or {}
        added, added_bytes = _count(summary, "added-data-files") or 0, _count(summary, "added-files-size") or 0
        added, added_bytes = min(added, left_files), min(added_bytes, left_bytes)
        if added and added_bytes <= added * small_below:
            small_files += added
            small_bytes += added_bytes
        left_files, left_bytes = left_files - added, left_bytes - added_bytes
        if _count(summary, "deleted-data-files"):
            break
    if left_files and left_bytes <= left_files * small_below:
        small_files += left_files
        small_bytes += left_bytes
    return small_files, small_bytes


def _line(table: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, up to a limit."""
    for _ in range(_MAX_ANCESTORS):
        if snapshot is None:
            return
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshots.get(parent)


def _delete_ratio(counts: _Counts) -> float | None:
    if counts.position_deletes is None or counts.equality_deletes is None:
        return None
    return _quotient(counts.position_deletes + counts.equality_deletes, counts.records)


def _quotient(above: int | None, below: int | None) -> float | None:
    if above is None or below is None:
        return None
    return above / below if below else 0.0


def _rows(files: Sequence[DataFile], content: FileContent) -> int:
    return sum(file.record_count for file in files if file.content == content)


def _has_live_files(line: ManifestFile) -> bool:
    """Whether a manifest has live files. One without counts may have some."""
    if line.added_files_count is None or line.existing_files_count is None:
        return True
    return line.added_files_count + line.existing_files_count > 0


def _described(table: TableMetadata) -> int | None:
    """The newest snapshot with a statistics file. Statistics of expired snapshots are ignored."""
    described = [table.snapshots[file.snapshot_id] for file in table.statistics if file.snapshot_id in table.snapshots]
    return max(described, key=lambda one: one.timestamp_ms).snapshot_id if described else None


def _count(texts: Mapping[str, str], name: str) -> int | None:
    text = texts.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
