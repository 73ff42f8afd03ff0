"""How long things took: noted by whichever thread did them, taken by who tells of them."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["Durations"]

_MOST: Final = 1 << 16


class Durations:
    """Durations since they were last taken; of more than there is room for, the last."""

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: deque[float] = deque(maxlen=_MOST)

    def note(self, seconds: float) -> None:
        """Something took so long."""
        self._noted.append(seconds)

    def take(self) -> list[float]:
        """All of them, which are then none."""
        # One by one: others append meanwhile.
        return [self._noted.popleft() for _ in range(len(self._noted))]
