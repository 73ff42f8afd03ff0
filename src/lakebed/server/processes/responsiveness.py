"""Whether a process responds, judged by its heartbeats as the supervisor sees them.

Silence is measured in the supervisor's own ticks, and a tick counts no more than `_LONGEST_TICK_SECONDS`: after a pause
of the whole machine every child gets to run before it is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BEAT_SECONDS: Final = 0.5
"""Between two heartbeats of a child."""

TICK_SECONDS: Final = 0.5
"""Between two looks of the supervisor."""

UNRESPONSIVE_SECONDS: Final = 3.0
"""Longer than a worker is busy with one call that cannot be interrupted. With the ticks, noticed within 5 s."""

_LONGEST_TICK_SECONDS: Final = 1.0


@dataclass(slots=True)
class Pulse:
    """The heartbeats of one process."""

    beats: int
    silent_seconds: float = 0.0

    def observe(self, beats: int, elapsed_seconds: float) -> None:
        """Record the count at a tick, `elapsed_seconds` after the last one."""
        if beats != self.beats:
            self.beats, self.silent_seconds = beats, 0.0
        else:
            self.silent_seconds += min(elapsed_seconds, _LONGEST_TICK_SECONDS)

    @property
    def is_responsive(self) -> bool:
        """Whether it may be handed connections."""
        return self.silent_seconds < UNRESPONSIVE_SECONDS
