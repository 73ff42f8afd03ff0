"""Which segments expire, by age and by size, and which local segments stay."""

from __future__ import annotations

import pytest

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.table_options import check_options
from lakebed.streams.log.local.segment import Segment
from lakebed.streams.log.retention import (
    RetentionPolicy,
    expired_segments,
    local_end,
    remote_expired,
    retention_of,
)
from lakebed.streams.seam import RemoteSegment


def segment(start: int, end: int, size: int = 100, timestamp_ms: int = 0) -> Segment:
    built = Segment("", start)
    built.end_offset, built.size, built.timestamp_ms = end, size, timestamp_ms
    return built


@pytest.mark.parametrize(
    ("policy", "count"),
    [
        (RetentionPolicy(ttl_ms=None), 0),
        (RetentionPolicy(ttl_ms=50), 1),
        (RetentionPolicy(ttl_ms=15), 2),
        (RetentionPolicy(ttl_ms=1), 3),
        (RetentionPolicy(ttl_ms=None, max_bytes=350), 0),
        (RetentionPolicy(ttl_ms=None, max_bytes=349), 1),
        (RetentionPolicy(ttl_ms=None, max_bytes=0), 3),
    ],
)
def test_oldest_segments_expire_by_age_or_size(policy: RetentionPolicy, count: int) -> None:
    assert expired_segments([(40, 100), (80, 100), (95, 100)], 50, policy, now_ms=100) == count


def test_segments_not_yet_uploaded_count_towards_the_size() -> None:
    remote = [RemoteSegment("a", 0, 10, 100, 0), RemoteSegment("b", 10, 20, 100, 0)]
    local = [segment(10, 20), segment(20, 30), segment(30, 35)]
    assert remote_expired(remote, local, RetentionPolicy(ttl_ms=None, max_bytes=400), 0) == 0
    assert remote_expired(remote, local, RetentionPolicy(ttl_ms=None, max_bytes=399), 0) == 1


def test_newest_sealed_segments_stay_local() -> None:
    local = [segment(0, 10), segment(10, 20), segment(20, 30), segment(30, 40), segment(40, 45)]
    assert local_end(local, 40, RetentionPolicy(local_segments=2), 0) == 20
    assert local_end(local, 20, RetentionPolicy(local_segments=2), 0) == 0
    assert local_end(local, 40, RetentionPolicy(local_segments=2, local_ttl_ms=10), 1000) == 40
    assert local_end(local, 30, RetentionPolicy(local_segments=2, local_ttl_ms=10), 1000) == 30
    assert local_end(local, 40, RetentionPolicy(local_segments=9), 0) == 0


def test_retention_is_read_from_table_options() -> None:
    assert retention_of({}) == RetentionPolicy(ttl_ms=7 * 24 * 3600 * 1000, local_segments=2)
    options = {"table.log.ttl": "1 d", "table.log.local-ttl": "2 h", "table.log.tiered.local-segments": "5"}
    assert retention_of(options) == RetentionPolicy(
        ttl_ms=24 * 3600 * 1000, local_ttl_ms=2 * 3600 * 1000, local_segments=5
    )
    assert retention_of({"table.log.max-size": "2 GB"}).max_bytes == 2 << 30
    with pytest.raises(FlussError):
        retention_of({"table.log.ttl": "soon"})


@pytest.mark.parametrize("size", ["0", "-1", "much", "5 eggs", ""])
def test_invalid_sizes_are_rejected(size: str) -> None:
    with pytest.raises(FlussError) as refused:
        check_options({"table.log.max-size": size})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
