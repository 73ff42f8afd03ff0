"""Backpressure on responses: few are built at once, and none while the client does not read earlier ones."""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["MAX_SLOTS", "PendingResponses", "ResponseSlot"]

MAX_SLOTS: Final = 16
"""Calls with message responses that one connection handles at once."""


class PendingResponses:
    """The responses of one connection that are being built, or that the client has not read yet."""

    __slots__ = ("slots", "turn", "writable")

    def __init__(self) -> None:
        self.writable = asyncio.Event()
        """Set while the client has read most of what was written."""
        self.writable.set()
        self.turn = asyncio.Lock()
        self.slots = asyncio.Semaphore(MAX_SLOTS)


class ResponseSlot:
    """One call's permission to build its response. Implements `calls.Backpressure`."""

    __slots__ = ("_has_slot", "_has_turn", "_pending")

    def __init__(self, pending: PendingResponses) -> None:
        self._pending = pending
        self._has_slot = False
        self._has_turn = False

    async def wait_until_read(self) -> None:
        """Wait until the client reads its responses."""
        if not self._pending.writable.is_set():
            await self._pending.writable.wait()

    async def acquire(self) -> None:
        """Wait for a slot, and until the client reads its responses."""
        await self._pending.slots.acquire()
        self._has_slot = True
        await self._pending.writable.wait()

    async def acquire_large(self) -> None:
        """Wait until no other large response is being sent."""
        if not self._has_turn:
            await self._pending.turn.acquire()
            self._has_turn = True
            await self._pending.writable.wait()

    def release(self) -> None:
        """Release the slot and the turn, after the response was written or the call failed."""
        if self._has_turn:
            self._pending.turn.release()
        if self._has_slot:
            self._pending.slots.release()
