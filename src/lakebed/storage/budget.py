"""A budget of bytes that may be in memory at once, granted in the order of requests."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["ByteBudget"]


class ByteBudget:
    """Bytes for one event loop, shared by tasks that hold them until an external operation ends.

    A request larger than the budget is granted when no other bytes are held: late, but never blocked forever.
    """

    def __init__(self, total_bytes: int) -> None:
        if total_bytes <= 0:
            raise ValueError(f"budget must be positive. bytes={total_bytes}")
        self._total = total_bytes
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def total_bytes(self) -> int:
        """The size of the budget."""
        return self._total

    @property
    def held_bytes(self) -> int:
        """The bytes in use."""
        return self._held

    async def acquire(self, count: int) -> None:
        """Wait until `count` bytes are free, after earlier requests, and take them."""
        if not self._waiting and self._fits(count):
            self._held += count
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release(count)  # granted at the moment of the cancellation
            else:
                self._waiting.remove((count, granted))
                self._grant()
            raise

    def release(self, count: int) -> None:
        """Return bytes to the budget."""
        self._held -= count
        self._grant()

    def _fits(self, count: int) -> bool:
        return self._held == 0 or self._held + count <= self._total

    def _grant(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            count, granted = self._waiting.popleft()
            self._held += count
            granted.set_result(None)
