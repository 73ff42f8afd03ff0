"""Which files of a table are worth rewriting into larger ones. Pure: the rewriting itself is the pipeline's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.manifests import DataFile, FileContent, PartitionValue

from .model import MAX_LISTED, CompactionReport, CompactionStatus, RewriteGroup, RowLevelReport
from .walking import LiveFiles

__all__ = ["CompactionRequest", "check_compaction", "plan_compaction"]

_PARQUET: Final = "parquet"


class CompactionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Which files are small, and how much is rewritten at once."""

    target_file_size_bytes: int
    small_file_threshold_bytes: int
    min_input_files: int
    max_rewrite_bytes_per_job: int


def check_compaction(request: CompactionRequest) -> CompactionRequest:
    """The request, if it means something. Raises InvalidInput that names the field."""
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
    """The groups of small files that would be rewritten together: of one partition, sorted alike.

    Delete files do not stand in the way: a rewrite applies them. They are reported, because they make it dearer.
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
        shown = group[: max(left, 0)]
        left -= len(shown)
        yield RewriteGroup(
            id=f"group-{number:05d}",
            spec_id=group[0].spec_id,
            sort_order_id=group[0].sort_order_id,
            input_locations=tuple(file.file_path for file in shown),
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
