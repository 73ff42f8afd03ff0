"""The expected cost of a task. Pure.

An estimate for operators, and for comparing tasks; no decision depends on it alone. It is based on the recent speed of
the job, and before its first report on the constants below: those of one core that reads from a server on the same
machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core.jobs import Cost, JobKind
from lakebed.core.sizes import MIB

__all__ = ["BYTES_PER_SECOND", "LEAST_SECONDS", "estimate_cost", "measured_speed", "smoothed_speed"]

BYTES_PER_SECOND: Final[Mapping[JobKind, int]] = {
    # Decoded, sorted or merged with deletes, encoded and written again.
    JobKind.COMPACT: 32 * MIB,
    JobKind.REWRITE_LAYOUT: 24 * MIB,
    JobKind.IMPORT: 32 * MIB,
    JobKind.COPY_RESTRICTED: 32 * MIB,
    JobKind.INGEST: 32 * MIB,
    JobKind.TIER_STREAM: 32 * MIB,
    # Decoded only.
    JobKind.COMPUTE_STATISTICS: 64 * MIB,
    JobKind.VERIFY: 128 * MIB,
    # Metadata: small records, and many of them.
    JobKind.REWRITE_MANIFESTS: 4 * MIB,
    JobKind.EXPIRE_SNAPSHOTS: 4 * MIB,
    JobKind.REMOVE_ORPHANS: 4 * MIB,
    JobKind.EXPORT_EVENTS: 4 * MIB,
}

START_SECONDS: Final = 2.0
"""Start and commit of a job in a warm session."""
FILE_SECONDS: Final = 0.002
"""Listing, opening or removing a file, beside its bytes."""
LEAST_SECONDS: Final = 0.5
"""Shorter runs measure the start of a job more than its speed."""

_NEW_SHARE: Final = 0.3
_MOST_BYTES_PER_SECOND: Final = 2**50


def estimate_cost(job: JobKind, files: int, size: int, speeds: Mapping[JobKind, int]) -> Cost:
    """The cost of a job that reads this much, at measured speeds."""
    speed = max(1, speeds.get(job) or BYTES_PER_SECOND[job])
    seconds = START_SECONDS + files * FILE_SECONDS + size / speed
    return Cost(input_files=files, input_bytes=size, estimated_seconds=round(seconds, 1))


def measured_speed(read_bytes: int, seconds: float) -> int | None:
    """Bytes per second of a run; None if it was too short."""
    if read_bytes <= 0 or seconds < LEAST_SECONDS:
        return None
    return max(1, min(round(read_bytes / seconds), _MOST_BYTES_PER_SECOND))


def smoothed_speed(before: int | None, measured: int) -> int:
    """The moving average after another run, so that one slow machine does not dominate."""
    return measured if before is None else max(1, round(before * (1 - _NEW_SHARE) + measured * _NEW_SHARE))
