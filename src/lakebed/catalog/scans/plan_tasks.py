"""Divides planning work into plan tasks: slices of manifest entries.

A slice refers to manifests by their index in a snapshot's manifest list. Both are immutable, so a slice means the same
to every server at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from lakebed.iceberg.expressions.manifest_evaluator import may_match_manifest
from lakebed.iceberg.manifests import ManifestContent, ManifestFile

from .table_scan import TableScan

__all__ = ["ManifestSlice", "PlanningLimits", "Work", "divide", "is_read"]


class ManifestSlice(msgspec.Struct, frozen=True, array_like=True):
    """A range of entries of a data manifest."""

    snapshot_id: int
    manifest: int
    """Its index in the snapshot's manifest list."""
    start: int = 0
    stop: int | None = None
    """The first entry after it; None for all that follow."""


Work = tuple[ManifestSlice, ...]
"""The slices of one plan task."""


@dataclass(frozen=True, slots=True)
class PlanningLimits:
    """Limits of one plan task. Larger plans are divided."""

    files: int = 2_000
    manifests: int = 64
    manifest_bytes: int = 32 * 1024 * 1024
    residual_values: int = 200_000
    """Predicates and literals of all residuals: a long filter is repeated for every file."""
    inline_list_bytes: int = 8 * 1024 * 1024
    """Scans with larger manifest lists are planned in the background."""


def is_read(scan: TableScan, snapshot_id: int, manifest: ManifestFile) -> bool:
    """Whether a data manifest may list files of the scan."""
    if manifest.content != ManifestContent.DATA:
        return False
    if scan.is_incremental:
        if manifest.added_snapshot_id != snapshot_id or manifest.added_files_count == 0:
            return False
    elif manifest.added_files_count == 0 and manifest.existing_files_count == 0:
        return False
    spec_id = manifest.partition_spec_id
    return may_match_manifest(scan.partition_filter(spec_id), scan.layout(spec_id), manifest)


def divide(scan: TableScan, lists: Mapping[int, Sequence[ManifestFile]], limits: PlanningLimits) -> tuple[Work, ...]:
    """All plan tasks of a scan, given the manifest lists of its snapshots.

    A manifest over the limits is divided into several tasks, an entry belongs to only one.
    """
    units: list[Work] = []
    unit: list[ManifestSlice] = []
    most = max(1, min(limits.files, limits.residual_values // max(1, scan.filter_size)))
    files = size = 0
    for slice_, slice_files, slice_bytes in _slices(scan, lists, most):
        full = files + slice_files > most or size + slice_bytes > limits.manifest_bytes
        if unit and (full or len(unit) >= limits.manifests):
            units.append(tuple(unit))
            unit, files, size = [], 0, 0
        unit.append(slice_)
        files += slice_files
        size += slice_bytes
    if unit:
        units.append(tuple(unit))
    return tuple(units)


def _slices(
    scan: TableScan, lists: Mapping[int, Sequence[ManifestFile]], most: int
) -> Iterator[tuple[ManifestSlice, int, int]]:
    """Slices with their number of files and their manifest's size."""
    for snapshot_id, manifests in lists.items():
        for place, manifest in enumerate(manifests):
            if is_read(scan, snapshot_id, manifest):
                for slice_, files in _cut(ManifestSlice(snapshot_id, place), manifest, most):
                    yield slice_, files, manifest.length


def _cut(whole: ManifestSlice, manifest: ManifestFile, most: int) -> Iterable[tuple[ManifestSlice, int]]:
    counts = manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    known = [count for count in counts if count is not None]
    entries = sum(known)
    if len(known) < len(counts) or entries <= most:
        # Format 1 may omit the counts: such a manifest is not divided, and fills a task alone.
        yield whole, entries if len(known) == len(counts) else most
        return
    for start in range(0, entries, most):
        stop = start + most
        # The last one is open-ended: uncounted entries belong to it.
        yield (
            ManifestSlice(whole.snapshot_id, whole.manifest, start, stop if stop < entries else None),
            min(most, entries),
        )
