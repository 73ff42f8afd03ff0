"""Limits the memory of the frames of all connections: beyond it, large frames wait in their sockets.

Small frames do not wait, so reads continue while writes cannot be stored.
"""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["SMALL_BYTES", "FrameBudget"]

SMALL_BYTES: Final = 256 * 1024
"""Frames up to this size never wait for the budget. A connection may hold this many bytes of them beyond it."""


class _Waiter(Protocol):
    def resume(self) -> None:
        """Called when the budget is no longer full."""
        ...


class FrameBudget:
    """Bytes of frames that are being read or answered. For one event loop."""

    __slots__ = ("_held", "_limit", "_waiters")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._waiters: dict[_Waiter, None] = {}

    @property
    def is_full(self) -> bool:
        """Whether only small frames are accepted."""
        return self._held >= self._limit

    @property
    def held_bytes(self) -> int:
        """The bytes in use."""
        return self._held

    def acquire(self, count: int) -> None:
        """Count bytes as used. Never waits."""
        self._held += count

    def release(self, count: int) -> None:
        """Return bytes, and resume waiters in order until the budget is full again."""
        self._held -= count
        while self._waiters and not self.is_full:
            waiter = next(iter(self._waiters))
            del self._waiters[waiter]
            waiter.resume()

    def wait(self, waiter: _Waiter) -> None:
        """Resume the waiter when the budget, which is full now, has room."""
        self._waiters[waiter] = None

    def cancel_wait(self, waiter: _Waiter) -> None:
        """Forget a waiter."""
        self._waiters.pop(waiter, None)
