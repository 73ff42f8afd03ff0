"""Backpressure on responses: few are made at once, and none while the client does not read the earlier ones."""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["MAX_SLOTS", "PendingResponses", "ResponseSlot"]

MAX_SLOTS: Final = 16
"""Calls of one connection that make a message as their response at once."""


class PendingResponses:
    """The responses of one connection that are being made, or are written and not yet read by the client."""

    __slots__ = ("slots", "turn", "writable")

    def __init__(self) -> None:
        self.writable = asyncio.Event()
        """Set while the client has read most of what was written."""
        self.writable.set()
        self.turn = asyncio.Lock()
        self.slots = asyncio.Semaphore(MAX_SLOTS)


class ResponseSlot:
    """One call's permission to make its response. Implements `calls.Backpressure`."""

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
        """Wait for one of the few slots, and until the client reads its responses."""
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
        """The response is written, or there is none."""
        if self._has_turn:
            self._pending.turn.release()
        if self._has_slot:
            self._pending.slots.release()
