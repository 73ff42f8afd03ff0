"""Plans of compaction: which small files would be rewritten together. Pure; the pipeline rewrites them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.manifests import DataFile, FileContent, PartitionValue

from ..reachability.files import MAX_LISTED, Reason, ReportValue
from ..reachability.walking import LiveFiles

__all__ = [
    "CompactionReport",
    "CompactionRequest",
    "CompactionStatus",
    "RewriteGroup",
    "RowLevelReport",
    "check_compaction",
    "plan_compaction",
]

_PARQUET: Final = "parquet"


class CompactionStatus(StrEnum):
    """The status of a compaction plan."""

    NO_CANDIDATES = "NO_CANDIDATES"
    REWRITE_CANDIDATES = "REWRITE_CANDIDATES"
    QUEUED_FOR_PIPELINE = "QUEUED_FOR_PIPELINE"
    MANUAL_REVIEW_REQUIRED = "MANUAL_REVIEW_REQUIRED"


class RewriteGroup(ReportValue, frozen=True):
    """Files that are rewritten together."""

    id: str
    spec_id: int
    sort_order_id: int | None
    input_locations: tuple[str, ...]
    input_files: int
    input_bytes: int


class RowLevelReport(ReportValue, frozen=True):
    """The delete files that a rewrite applies."""

    position_delete_files: int = 0
    equality_delete_files: int = 0
    deletion_vectors: int = 0
    delete_locations: tuple[str, ...] = ()

    @property
    def delete_files(self) -> int:
        """All of them."""
        return self.position_delete_files + self.equality_delete_files + self.deletion_vectors


class CompactionReport(ReportValue, frozen=True):
    """A compaction plan, and the task that it led to."""

    status: CompactionStatus
    target_file_size_bytes: int
    small_file_threshold_bytes: int
    min_input_files: int
    max_rewrite_bytes_per_job: int
    snapshot_id: int | None = None
    candidate_files: int = 0
    candidate_bytes: int = 0
    groups: tuple[RewriteGroup, ...] = ()
    group_count: int = 0
    row_level: RowLevelReport = RowLevelReport()
    reasons: tuple[Reason, ...] = ()
    task_id: int | None = None


class CompactionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Which files are small, and how much is rewritten at once."""

    target_file_size_bytes: int
    small_file_threshold_bytes: int
    min_input_files: int
    max_rewrite_bytes_per_job: int


def check_compaction(request: CompactionRequest) -> CompactionRequest:
    """Validate a request. Raises InvalidInput that names the field."""
    for name, value, least in (
        ("target-file-size-bytes", request.target_file_size_bytes, 1),
        ("small-file-threshold-bytes", request.small_file_threshold_bytes, 1),
        ("min-input-files", request.min_input_files, 2),
        ("max-rewrite-bytes-per-job", request.max_rewrite_bytes_per_job, 1),
    ):
        if value < least:
            raise InvalidInput(f"{name} must be at least {least}. found={value}", argument=name)
    if request.small_file_threshold_bytes > request.target_file_size_bytes:
        raise InvalidInput(
            "small-file-threshold-bytes must not be above target-file-size-bytes", argument="small-file-threshold-bytes"
        )
    if request.max_rewrite_bytes_per_job < request.target_file_size_bytes:
        raise InvalidInput(
            "max-rewrite-bytes-per-job must not be below target-file-size-bytes", argument="max-rewrite-bytes-per-job"
        )
    return request


def plan_compaction(snapshot_id: int | None, live: LiveFiles, request: CompactionRequest) -> CompactionReport:
    """The groups of small files of one partition and sort order.

    Delete files do not prevent a rewrite, which applies them. They are reported, because they add to its cost.
    """
    small = [
        file
        for file in live.data
        if file.file_format.lower() == _PARQUET and file.file_size_in_bytes <= request.small_file_threshold_bytes
    ]
    groups = [
        group for group in _groups(small, request.max_rewrite_bytes_per_job) if len(group) >= request.min_input_files
    ]
    if live.problems:
        status = CompactionStatus.MANUAL_REVIEW_REQUIRED
    else:
        status = CompactionStatus.REWRITE_CANDIDATES if groups else CompactionStatus.NO_CANDIDATES
    return CompactionReport(
        status=status,
        target_file_size_bytes=request.target_file_size_bytes,
        small_file_threshold_bytes=request.small_file_threshold_bytes,
        min_input_files=request.min_input_files,
        max_rewrite_bytes_per_job=request.max_rewrite_bytes_per_job,
        snapshot_id=snapshot_id,
        candidate_files=sum(map(len, groups)),
        candidate_bytes=sum(file.file_size_in_bytes for group in groups for file in group),
        groups=tuple(_listed(groups)),
        group_count=len(groups),
        row_level=_row_level(live.deletes),
        reasons=tuple(sorted({problem.reason for problem in live.problems})),
    )


def _groups(small: Iterable[DataFile], most_bytes: int) -> Iterator[list[DataFile]]:
    alike: dict[tuple[int, tuple[PartitionValue, ...], int | None], list[DataFile]] = defaultdict(list)
    for file in small:
        alike[file.spec_id, file.partition, file.sort_order_id].append(file)
    for files in alike.values():
        group: list[DataFile] = []
        size = 0
        for file in sorted(files, key=lambda one: one.file_path):
            if group and size + file.file_size_in_bytes > most_bytes:
                yield group
                group, size = [], 0
            group.append(file)
            size += file.file_size_in_bytes
        yield group


def _listed(groups: Sequence[Sequence[DataFile]]) -> Iterator[RewriteGroup]:
    left = MAX_LISTED
    for number, group in enumerate(groups[:MAX_LISTED], 1):
        listed = group[: max(left, 0)]
        left -= len(listed)
        yield RewriteGroup(
            id=f"group-{number:05d}",
            spec_id=group[0].spec_id,
            sort_order_id=group[0].sort_order_id,
            input_locations=tuple(file.file_path for file in listed),
            input_files=len(group),
            input_bytes=sum(file.file_size_in_bytes for file in group),
        )


def _row_level(deletes: Sequence[DataFile]) -> RowLevelReport:
    vectors = [file for file in deletes if file.content_offset is not None]
    equality = [file for file in deletes if file.content == FileContent.EQUALITY_DELETES]
    return RowLevelReport(
        position_delete_files=len(deletes) - len(vectors) - len(equality),
        equality_delete_files=len(equality),
        deletion_vectors=len(vectors),
        delete_locations=tuple(dict.fromkeys(file.file_path for file in deletes))[:MAX_LISTED],
    )
