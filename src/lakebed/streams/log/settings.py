"""Size limits of logs, validated when the configuration is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import InvalidSetting

__all__ = ["LogSizes"]

_MAX_POSITION: Final = 2**31 - 1
"""Clients count positions in a segment with 32 bits."""


@dataclass(frozen=True, slots=True)
class LogSizes:
    """Size limits of a log."""

    segment_bytes: int = 1024 * 1024 * 1024
    """The size at which a segment is sealed."""

    max_batch_bytes: int = 64 * 1024 * 1024
    group_bytes: int = 64 * 1024 * 1024
    """The maximum size of a group commit, and of the queue before appends wait."""

    checkpoint_bytes: int = 64 * 1024 * 1024
    """Approximately how much of a log is checked after a crash."""

    def __post_init__(self) -> None:
        if self.segment_bytes < 1:
            raise InvalidSetting(f"segment_bytes: must be at least 1. value={self.segment_bytes}")
        largest = self.segment_bytes + self.group_bytes + self.max_batch_bytes
        if largest > _MAX_POSITION:
            raise InvalidSetting(
                f"segment_bytes: segments could become too large. largest={largest} limit={_MAX_POSITION}"
            )
