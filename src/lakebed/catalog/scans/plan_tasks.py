"""Units of planning work: which entries of which manifests, and how they are divided into plan tasks.

A unit refers to manifests by their place in the manifest list of a snapshot. Both are written once, so a unit means the
same to every server that reads them, whenever it does.
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
    """Some entries of a data manifest."""

    snapshot_id: int
    manifest: int
    """Its place in the snapshot's manifest list."""
    start: int = 0
    stop: int | None = None
    """The first entry that is not part of it; None for all that follow."""


Work = tuple[ManifestSlice, ...]
"""What one request plans."""


@dataclass(frozen=True, slots=True)
class PlanningLimits:
    """How much is planned at once. Larger plans are divided."""

    files: int = 2_000
    manifests: int = 64
    manifest_bytes: int = 32 * 1024 * 1024
    residual_values: int = 200_000
    """Predicates and literals of all residual filters together: a long filter is repeated for every file."""
    inline_list_bytes: int = 8 * 1024 * 1024
    """A scan whose manifest lists are larger is not even divided while the client waits."""


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
    """All the work of a scan, given the manifest lists of its snapshots, in units within the limits.

    A manifest that is over them by itself is read in several units, an entry by only one.
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
    """Slices with the number of their files and the size of the manifest they are read from."""
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
        # Format 1 may leave the counts out: such a manifest is not cut, and fills a unit of its own.
        yield whole, entries if len(known) == len(counts) else most
        return
    for start in range(0, entries, most):
        stop = start + most
        # The last one is left open: entries that were not counted are part of it.
        yield (
            ManifestSlice(whole.snapshot_id, whole.manifest, start, stop if stop < entries else None),
            min(most, entries),
        )
