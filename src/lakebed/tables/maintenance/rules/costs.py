"""What a task is expected to take. Pure.

An estimate for people who look at a queue, and for comparing tasks; nothing is decided by it alone. It stands on how
fast the job has been lately, and before the first report of it on the constants below: those of one core that reads
from a server on the same machine.
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
    # Decoded and looked at.
    JobKind.COMPUTE_STATISTICS: 64 * MIB,
    JobKind.VERIFY: 128 * MIB,
    # Metadata: small records, and many of them.
    JobKind.REWRITE_MANIFESTS: 4 * MIB,
    JobKind.EXPIRE_SNAPSHOTS: 4 * MIB,
    JobKind.REMOVE_ORPHANS: 4 * MIB,
    JobKind.EXPORT_EVENTS: 4 * MIB,
}

START_SECONDS: Final = 2.0
"""What a job takes in a warm session before it reads anything, and to commit."""
FILE_SECONDS: Final = 0.002
"""What it takes to list, open or remove a file, beside its bytes."""
LEAST_SECONDS: Final = 0.5
"""Runs that took less tell more of how jobs start than of how fast they are."""

_NEW_SHARE: Final = 0.3
_MOST_BYTES_PER_SECOND: Final = 2**50


def estimate_cost(job: JobKind, files: int, size: int, speeds: Mapping[JobKind, int]) -> Cost:
    """What a job that reads so much takes, at the speeds that were measured."""
    speed = max(1, speeds.get(job) or BYTES_PER_SECOND[job])
    seconds = START_SECONDS + files * FILE_SECONDS + size / speed
    return Cost(input_files=files, input_bytes=size, estimated_seconds=round(seconds, 1))


def measured_speed(read_bytes: int, seconds: float) -> int | None:
    """Bytes a second of a run; None of one that tells nothing."""
    if read_bytes <= 0 or seconds < LEAST_SECONDS:
        return None
    return max(1, min(round(read_bytes / seconds), _MOST_BYTES_PER_SECOND))


def smoothed_speed(before: int | None, measured: int) -> int:
    """What is remembered after another run: mostly what was known, so that one slow machine does not decide it."""
    return measured if before is None else max(1, round(before * (1 - _NEW_SHARE) + measured * _NEW_SHARE))
