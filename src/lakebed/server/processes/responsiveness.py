"""Decides whether a process responds, from its heartbeats.

Silence is measured in ticks of the supervisor, and a tick counts at most `_LONGEST_TICK_SECONDS`: after a pause of the
whole machine every child gets to run first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BEAT_SECONDS: Final = 0.5
"""Interval of a child's heartbeats."""

TICK_SECONDS: Final = 0.5
"""Interval of the supervisor's checks."""

UNRESPONSIVE_SECONDS: Final = 3.0
"""Longer than any uninterruptible call of a worker. With the ticks, detected within 5 s."""

_LONGEST_TICK_SECONDS: Final = 1.0


@dataclass(slots=True)
class Pulse:
    """The heartbeats of one process."""

    beats: int
    silent_seconds: float = 0.0

    def observe(self, beats: int, elapsed_seconds: float) -> None:
        """Record the heartbeat count at a tick, `elapsed_seconds` after the previous one."""
        if beats != self.beats:
            self.beats, self.silent_seconds = beats, 0.0
        else:
            self.silent_seconds += min(elapsed_seconds, _LONGEST_TICK_SECONDS)

    @property
    def is_responsive(self) -> bool:
        """Whether the process gets connections."""
        return self.silent_seconds < UNRESPONSIVE_SECONDS
