"""When the successor of a child that died is started, and when there is no use in another one."""

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
"""So many of a role in a row that die before they are ready mean that the next would too."""
_LOOP_DEATHS: Final = 3
_LOOP_SECONDS: Final = 60.0


@dataclass(slots=True)
class StartHistory:
    """How the children of one role have begun in this run of the server."""

    takes_connections: bool
    """Whether the server is there as long as one of these is."""
    failed: int = 0
    """So many in a row died before they were ready."""
    has_begun: bool = False
    """Whether one was ever ready."""
    may_pass: bool = False
    """Whether what the last one failed of is known to us as what may pass: a store that is away."""

    def begin(self) -> None:
        """Take note of one that is ready."""
        self.failed, self.has_begun, self.may_pass = 0, True, False

    def fail(self, failure: LakebedError | None) -> None:
        """Take note of one that died before it was ready, of this or of what is no error of ours."""
        self.failed += 1
        self.may_pass = failure is not None and failure.retryable

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing about them to wait for: they have begun, or wait themselves for what may pass."""
        return self.has_begun or self.may_pass

    def is_hopeless(self, *, others_serve: bool) -> bool:
        """Whether the server should end, rather than start one more.

        Workers that die leave their work to those that serve. Of other roles, what could not even begin in this run has
        a cause that is no passing one: a server that goes on without is one that nobody knows to be broken. What once
        began stops no worker, whatever becomes of it.
        """
        if self.failed < FAILED_STARTS:
            return False
        return not (others_serve if self.takes_connections else self.is_settled)

    @property
    def pause_seconds(self) -> float:
        """How long to wait after the last one that failed."""
        return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self.failed - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE_SECONDS)


def pause_after_life(seconds: float) -> float:
    """How long to wait after one that was ready, and lived so long."""
    return _FIRST_PAUSE_SECONDS if seconds < _YOUNG_SECONDS else 0.0


@dataclass(slots=True)
class ExitHistory:
    """When the last processes of one number ended."""

    _times: deque[float] = field(default_factory=lambda: deque(maxlen=_LOOP_DEATHS))

    def add(self, now: float) -> None:
        """Record the end of a process."""
        self._times.append(now)

    def is_loop(self, now: float) -> bool:
        """Whether three ended within the last minute: the next is likely to end too, though it may be ready now."""
        return len(self._times) == _LOOP_DEATHS and now - self._times[0] < _LOOP_SECONDS
