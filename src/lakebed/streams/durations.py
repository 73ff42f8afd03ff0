"""Durations, added from any thread and drained for metrics."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["Durations"]

_MAX: Final = 1 << 16


class Durations:
    """Durations since the last `take`; the latest ones if there are too many."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_MAX)

    def add(self, seconds: float) -> None:
        """Add a duration."""
        self._seconds.append(seconds)

    def take(self) -> list[float]:
        """Remove and return all durations."""
        # One by one: other threads append meanwhile.
        return [self._seconds.popleft() for _ in range(len(self._seconds))]
