"""Decides when a child that ended is restarted, and when the server gives up."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from lakebed.core.errors import LakebedError

_YOUNG_SECONDS: Final = 5.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 10.0
_MOST_DOUBLINGS: Final = 10
FAILED_STARTS: Final = 5
"""Consecutive failed starts of a role after which the server gives up."""
_LOOP_DEATHS: Final = 3
_LOOP_SECONDS: Final = 60.0


@dataclass(slots=True)
class StartHistory:
    """The starts of one role's processes in this run of the server."""

    takes_connections: bool
    """Whether the server runs as long as one of these processes does."""
    failed: int = 0
    """Consecutive processes that ended before they were ready."""
    has_begun: bool = False
    """Whether a process was ever ready."""
    is_transient: bool = False
    """Whether the last failure is retryable, such as an unreachable store."""

    def begin(self) -> None:
        """Record a process that is ready."""
        self.failed, self.has_begun, self.is_transient = 0, True, False

    def fail(self, failure: LakebedError | None) -> None:
        """Record a process that ended before it was ready. `failure` is None for an unexpected exception."""
        self.failed += 1
        self.is_transient = failure is not None and failure.retryable

    @property
    def is_settled(self) -> bool:
        """Whether the server need not wait for this role: it has started, or retries after a transient failure."""
        return self.has_begun or self.is_transient

    def is_hopeless(self, *, others_serve: bool) -> bool:
        """Whether the server ends instead of starting another process.

        Workers that fail leave their work to the other workers. Another role that never started in this run has a
        permanent cause, and a server without it would be broken silently. A role that started once never stops the
        server.
        """
        if self.failed < FAILED_STARTS:
            return False
        return not (others_serve if self.takes_connections else self.is_settled)

    @property
    def pause_seconds(self) -> float:
        """The pause after the last failed start."""
        return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self.failed - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE_SECONDS)


def pause_after_life(seconds: float) -> float:
    """The pause after a process that was ready and ran for so long."""
    return _FIRST_PAUSE_SECONDS if seconds < _YOUNG_SECONDS else 0.0


@dataclass(slots=True)
class ExitHistory:
    """When the last processes of one number ended, to detect restart loops."""

    _times: deque[float] = field(default_factory=lambda: deque(maxlen=_LOOP_DEATHS))

    def add(self, now: float) -> None:
        """Record the end of a process."""
        self._times.append(now)

    def is_loop(self, now: float) -> bool:
        """Whether three ended within the last minute. The current one is likely to end too, even if it is ready."""
        return len(self._times) == _LOOP_DEATHS and now - self._times[0] < _LOOP_SECONDS
