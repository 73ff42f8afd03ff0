"""Pauses deliveries to a failing target and probes it. Pure.

A single failure says nothing about other events. Many consecutive failures open the breaker: the remaining events stay
queued, so that they do not fail one by one after a timeout each. Then single events are sent as probes, until one
succeeds.
"""

from __future__ import annotations

from typing import Final

from lakebed.meta.tasks import retry_delay_seconds

FAILURE_THRESHOLD: Final = 16
"""Consecutive failures that open the breaker."""

MAX_PAUSE_SECONDS: Final = 30.0
_LONG_OPEN_PROBES: Final = 3


class CircuitBreaker:
    """The breaker of one target."""

    def __init__(self) -> None:
        self._failures = 0
        self._probes = 0
        """Failed probes, including the failure that opened the breaker; 0 while it is closed."""
        self._next_probe_ms = 0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Whether deliveries are paused."""
        return self._probes > 0

    @property
    def is_long_open(self) -> bool:
        """Whether the outage is so long that retries may be scheduled much later than the target recovers."""
        return self._probes > _LONG_OPEN_PROBES

    def start_round(self, now_ms: int) -> bool:
        """Whether this round may send: everything if closed, one probe if open and due."""
        self._is_probing = self.is_open and now_ms >= self._next_probe_ms
        return self._is_probing or not self.is_open

    def may_send(self) -> bool:
        """Whether another event may be sent now."""
        return self._is_probing or not self.is_open

    def record_success(self) -> None:
        """Close the breaker: the target responded."""
        self._failures = self._probes = 0
        self._is_probing = False

    def record_failure(self, now_ms: int, chance: float) -> None:
        """Count a failure. Pauses between probes double, with a jitter of up to half by `chance`."""
        self._failures += 1
        if self._failures < FAILURE_THRESHOLD or (self.is_open and not self._is_probing):
            return  # failures of events already in flight do not extend the pause
        self._is_probing = False
        self._probes += 1
        pause = min(MAX_PAUSE_SECONDS, retry_delay_seconds(self._probes, chance))
        self._next_probe_ms = now_ms + round(pause * 1000)
