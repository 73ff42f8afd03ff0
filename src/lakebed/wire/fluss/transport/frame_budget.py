"""How much memory the frames of all connections take together: beyond it large ones wait on their sockets.

Small calls go on, so that who reads does not wait for who writes while records cannot be stored.
"""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["SMALL_BYTES", "FrameBudget"]

SMALL_BYTES: Final = 256 * 1024
"""Frames of up to this size are taken in any case, and so much of them from one connection."""


class _Waiting(Protocol):
    def go_on(self) -> None:
        """There is room again."""
        ...


class FrameBudget:
    """Bytes of frames that are being read or answered. For one event loop."""

    __slots__ = ("_held", "_limit", "_waiting")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._waiting: dict[_Waiting, None] = {}

    @property
    def is_full(self) -> bool:
        """Whether only small frames are taken."""
        return self._held >= self._limit

    @property
    def held_bytes(self) -> int:
        """How much there is."""
        return self._held

    def hold(self, count: int) -> None:
        """So many bytes more."""
        self._held += count

    def let_go(self, count: int) -> None:
        """So many less; those who wait go on, in their order, until it is full again."""
        self._held -= count
        while self._waiting and not self.is_full:
            waiting = next(iter(self._waiting))
            del self._waiting[waiting]
            waiting.go_on()

    def wait(self, waiting: _Waiting) -> None:
        """Have it go on when there is room, which there is not."""
        self._waiting[waiting] = None

    def leave(self, waiting: _Waiting) -> None:
        """It waits no more."""
        self._waiting.pop(waiting, None)
