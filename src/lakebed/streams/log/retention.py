"""Selects the expired segments of a log by age and size. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakebed.fluss.table_options import byte_count, milliseconds, whole_number
from lakebed.streams.seam import RemoteSegment

from .local.segment import Segment

__all__ = ["RetentionPolicy", "expired_segments", "local_end", "remote_expired", "retention_of"]

_WEEK_MS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long records are kept, and how many uploaded segments are also kept locally."""

    ttl_ms: int | None = _WEEK_MS
    """None: for ever."""

    max_bytes: int | None = None
    """Maximum size of the log, including the active segment. None: unlimited."""

    local_ttl_ms: int | None = None
    """Maximum age of uploaded segments that are also kept locally. None: any age."""

    local_segments: int = 2
    """Maximum number of uploaded segments that are also kept locally."""


def retention_of(options: Mapping[str, str]) -> RetentionPolicy:
    """The policy of a table's options. Raises INVALID_CONFIG."""
    ttl_ms = milliseconds(options.get("table.log.ttl", str(_WEEK_MS)))
    local_ttl = options.get("table.log.local-ttl")
    size = options.get("table.log.max-size")
    return RetentionPolicy(
        ttl_ms=ttl_ms if ttl_ms > 0 else None,
        max_bytes=None if size is None else byte_count(size),
        local_ttl_ms=None if local_ttl is None else milliseconds(local_ttl),
        local_segments=whole_number(options.get("table.log.tiered.local-segments", "2")),
    )


def expired_segments(sizes: Sequence[tuple[int, int]], open_bytes: int, policy: RetentionPolicy, now_ms: int) -> int:
    """The number of expired segments, oldest first; `sizes` has the last timestamp and the size of each."""
    total = sum(size for _, size in sizes) + open_bytes
    count = 0
    for timestamp_ms, size in sizes:
        is_old = policy.ttl_ms is not None and timestamp_ms < now_ms - policy.ttl_ms
        is_too_much = policy.max_bytes is not None and total > policy.max_bytes
        if not (is_old or is_too_much):
            break
        total -= size
        count += 1
    return count


def remote_expired(
    remote: Sequence[RemoteSegment], local: Sequence[Segment], policy: RetentionPolicy, now_ms: int
) -> int:
    """The number of expired remote segments. Segments that are not uploaded count towards the size."""
    uploaded = remote[-1].end_offset if remote else 0
    local_only = sum(segment.size for segment in local if segment.base_offset >= uploaded)
    return expired_segments([(it.max_timestamp_ms, it.size_bytes) for it in remote], local_only, policy, now_ms)


def local_end(local: Sequence[Segment], uploaded_end: int, policy: RetentionPolicy, now_ms: int) -> int:
    """The offset up to which local segments can be deleted because they are uploaded."""
    uploaded = [segment for segment in local[:-1] if segment.end_offset <= uploaded_end]
    spare = uploaded[: max(len(uploaded) - policy.local_segments, 0)]
    if policy.local_ttl_ms is not None:
        limit = now_ms - policy.local_ttl_ms
        spare += [segment for segment in uploaded[len(spare) :] if segment.timestamp_ms < limit]
    return max((segment.end_offset for segment in spare), default=0)
