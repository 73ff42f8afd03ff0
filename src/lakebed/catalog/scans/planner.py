"""Plans scans: reads a table's manifests and selects the files that a scan reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from lakebed.core.errors import InvalidInput, NotSupported
from lakebed.iceberg.expressions.bound import BoundExpression, BoundPredicate, rewrite
from lakebed.iceberg.expressions.manifest_evaluator import may_match_manifest
from lakebed.iceberg.expressions.metrics_evaluator import may_match_file
from lakebed.iceberg.expressions.partitions import PartitionValues
from lakebed.iceberg.expressions.unbound import FALSE, TRUE
from lakebed.iceberg.manifests import (
    DEFAULT_LIMITS,
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    open_manifest,
    read_manifest_list,
)
from lakebed.iceberg.metadata.snapshots import Snapshot

from ..tables.files import FileSource
from .deletes import DeleteIndex
from .plan_tasks import ManifestSlice, PlanningLimits, Work, divide
from .table_scan import TableScan

__all__ = ["FileScanTask", "ScanPlanner"]

T = TypeVar("T")

_READ_AHEAD: Final = 8
"""Manifests that are read concurrently, to hide the latency of a remote store."""
_ENCRYPTED: Final = b"AGS1"
"""The magic of Iceberg's encrypted files."""


class FileScanTask(NamedTuple):
    """One data file of a scan, with its residual and its delete files."""

    file: DataFile
    sequence_number: int
    partition: PartitionValues
    residual: BoundExpression
    deletes: tuple[DataFile, ...]

    @property
    def certain_rows(self) -> int:
        """The number of rows that certainly match."""
        return max(self.file.record_count, 0) if self.residual == TRUE and not self.deletes else 0


class ScanPlanner:
    """Plans scans through a `FileSource`. Decoding runs in threads, off the event loop."""

    def __init__(self, files: FileSource, limits: PlanningLimits | None = None) -> None:
        self._files = files
        self._limits = limits or PlanningLimits()

    async def is_long(self, scan: TableScan) -> bool:
        """Whether dividing the scan takes too long for a synchronous response."""
        facts = await self._files.stat([_manifest_list(snapshot) for snapshot in scan.snapshots.values()])
        return sum(fact.size for fact in facts.values() if fact is not None) > self._limits.inline_list_bytes

    async def divide(self, scan: TableScan) -> tuple[Work, ...]:
        """All plan tasks of a scan. Reads only its manifest lists."""
        lists = await self._lists(scan, list(scan.snapshots))
        return await asyncio.to_thread(divide, scan, lists, self._limits)

    async def collect(self, scan: TableScan, work: Work) -> list[FileScanTask]:
        """The files of one plan task."""
        return [task async for task in self.stream(scan, work)]

    async def stream(self, scan: TableScan, work: Work) -> AsyncIterator[FileScanTask]:
        """The files of one plan task, as they are found. Ends early once enough rows are found."""
        lists = await self._lists(scan, list(dict.fromkeys(slice_.snapshot_id for slice_ in work)))
        manifests = [_manifest_of(slice_, lists) for slice_ in work]
        deletes = DeleteIndex(scan.layouts, (scan.schema, *scan.table.schemas.values()))
        if not scan.is_incremental:
            await self._add_deletes(scan, lists, manifests, deletes)
        columns = scan.filtered_columns | scan.stats_columns | deletes.compared_columns
        rows = 0
        for batch in _batches(list(zip(work, manifests, strict=True))):
            contents = await self._read([manifest for _, manifest in batch])
            for (slice_, manifest), content in zip(batch, contents, strict=True):
                for task in await asyncio.to_thread(_select, scan, slice_, manifest, content, columns, deletes):
                    yield task
                    rows += task.certain_rows
                if scan.min_rows is not None and rows >= scan.min_rows:
                    return

    async def _add_deletes(
        self,
        scan: TableScan,
        lists: Mapping[int, Sequence[ManifestFile]],
        manifests: Sequence[ManifestFile],
        deletes: DeleteIndex,
    ) -> None:
        """Add the delete files that may apply to files of some data manifests."""
        oldest = min((manifest.min_sequence_number for manifest in manifests), default=0)
        wanted = [one for listed in lists.values() for one in listed if _may_delete_from(scan, one, oldest)]
        for batch in _batches(wanted):
            for manifest, content in zip(batch, await self._read(batch), strict=True):
                await asyncio.to_thread(_add_manifest_deletes, scan, manifest, content, deletes)

    async def _lists(self, scan: TableScan, snapshot_ids: Sequence[int]) -> dict[int, list[ManifestFile]]:
        lists: dict[int, list[ManifestFile]] = {}
        for batch in _batches(snapshot_ids):
            contents = await self._read_all([_manifest_list(scan.snapshots[snapshot_id]) for snapshot_id in batch])
            for snapshot_id, content in zip(batch, contents, strict=True):
                lists[snapshot_id] = await asyncio.to_thread(read_manifest_list, content)
        return lists

    async def _read(self, manifests: Sequence[ManifestFile]) -> list[bytes]:
        return await self._read_all([manifest.path for manifest in manifests])

    async def _read_all(self, locations: Sequence[str]) -> list[bytes]:
        reads = [
            asyncio.ensure_future(self._files.read(location, DEFAULT_LIMITS.encoded_bytes)) for location in locations
        ]
        try:
            contents = await asyncio.gather(*reads)
        finally:
            for read in reads:
                read.cancel()
        if any(content.startswith(_ENCRYPTED) for content in contents):
            raise NotSupported("scans of tables with encrypted manifests are planned by the client")
        return contents


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _READ_AHEAD] for start in range(0, len(items), _READ_AHEAD))


def _manifest_list(snapshot: Snapshot) -> str:
    if snapshot.manifest_list is None:
        raise NotSupported(f"scan planning requires a manifest list. snapshot={snapshot.snapshot_id}")
    return snapshot.manifest_list


def _manifest_of(slice_: ManifestSlice, lists: Mapping[int, Sequence[ManifestFile]]) -> ManifestFile:
    listed = lists[slice_.snapshot_id]
    if slice_.manifest >= len(listed):
        raise InvalidInput(f"manifest list is shorter than when the scan was planned. snapshot={slice_.snapshot_id}")
    return listed[slice_.manifest]


def _may_delete_from(scan: TableScan, manifest: ManifestFile, oldest: int) -> bool:
    """Whether a manifest may list delete files for data of this age or newer."""
    if manifest.content != ManifestContent.DELETES or manifest.sequence_number < oldest:
        return False
    if manifest.added_files_count == 0 and manifest.existing_files_count == 0:
        return False
    spec_id = manifest.partition_spec_id
    return may_match_manifest(scan.partition_filter(spec_id), scan.layout(spec_id), manifest)


def _add_manifest_deletes(scan: TableScan, manifest: ManifestFile, content: bytes, deletes: DeleteIndex) -> None:
    layout = scan.layout(manifest.partition_spec_id)
    for entry in open_manifest(content).entries(manifest, partition_fields=layout.field_ids):
        if entry.status != EntryStatus.DELETED and _may_matter(scan, entry):
            deletes.add(entry, layout.partition(entry.data_file.partition))


def _may_matter(scan: TableScan, entry: ManifestEntry) -> bool:
    """Whether a delete file may delete rows that match the filter.

    Only the equality columns count: other columns of a delete file need not have the deleted row's values.
    """
    file = entry.data_file
    if file.content != FileContent.EQUALITY_DELETES:
        return True
    compared = frozenset(file.equality_ids or ())

    def if_compared(claim: BoundPredicate) -> BoundExpression:
        return claim if claim.term.id in compared else TRUE

    return may_match_file(rewrite(scan.condition, if_compared), file)


def _select(
    scan: TableScan,
    slice_: ManifestSlice,
    manifest: ManifestFile,
    content: bytes,
    columns: frozenset[int],
    deletes: DeleteIndex,
) -> list[FileScanTask]:
    """The files of some entries of a manifest that the scan reads."""
    layout = scan.layout(manifest.partition_spec_id)
    residuals = scan.residuals(manifest.partition_spec_id)
    tasks: list[FileScanTask] = []
    entries = open_manifest(content).entries(manifest, columns=columns, partition_fields=layout.field_ids)
    for entry in islice(entries, slice_.start, slice_.stop):
        file = entry.data_file
        if not _is_scanned(scan, slice_, entry):
            continue
        partition = layout.partition(file.partition)
        residual = residuals.of(partition)
        # The residual is stricter than the filter: it may exclude a file that the filter does not.
        if residual != FALSE and may_match_file(residual, file):
            matching = tuple(deletes.matching(entry, partition))
            tasks.append(FileScanTask(file, entry.sequence_number, partition, residual, matching))
    return tasks


def _is_scanned(scan: TableScan, slice_: ManifestSlice, entry: ManifestEntry) -> bool:
    if entry.data_file.content != FileContent.DATA:
        return False
    if scan.is_incremental:
        return entry.status == EntryStatus.ADDED and entry.snapshot_id == slice_.snapshot_id
    return entry.status != EntryStatus.DELETED
