"""When a target is taken to be down, and is asked no more than now and then. Pure.

One event that fails says nothing of others. Many in a row, and none that was taken in between, say that the target is
down: then the rest need not fail one by one, each after its timeout, and stay where they are. Now and then one is sent
as a probe; the first that is taken ends it.
"""

from __future__ import annotations

from typing import Final

from lakebed.meta.tasks import retry_delay_seconds

PATIENCE: Final = 16
"""So many failures in a row are an outage."""

LONGEST_PAUSE_SECONDS: Final = 30.0
_LASTED: Final = 3


class CircuitBreaker:
    """What a target's answers say of it."""

    def __init__(self) -> None:
        self._failures = 0
        self._probes = 0
        """How many have failed; 0 while it is not down."""
        self._until_ms = 0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Whether it is taken to be down."""
        return self._probes > 0

    @property
    def is_long_open(self) -> bool:
        """Whether it is down for so long that whatever waits may be due much later than it comes back."""
        return self._probes > _LASTED

    def start_round(self, now_ms: int) -> bool:
        """Whether anything may be sent now; if it is down, one event."""
        self._is_probing = self.is_open and now_ms >= self._until_ms
        return self._is_probing or not self.is_open

    def may_send(self) -> bool:
        """Whether one more event may be sent, as things are now."""
        return self._is_probing or not self.is_open

    def record_success(self) -> None:
        """It has answered."""
        self._failures = self._probes = 0
        self._is_probing = False

    def record_failure(self, now_ms: int, chance: float) -> None:
        """It has not taken an event; pauses between probes double, less up to half by `chance`."""
        self._failures += 1
        if self._failures < PATIENCE or (self.is_open and not self._is_probing):
            # Those that were under way when it was found to be down say nothing new.
            return
        self._is_probing = False
        self._probes += 1
        pause = min(LONGEST_PAUSE_SECONDS, retry_delay_seconds(self._probes, chance))
        self._until_ms = now_ms + round(pause * 1000)
