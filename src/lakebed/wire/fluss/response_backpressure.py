"""Room for answers: none is made for who does not take what was made before, and few are made at once."""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["MAX_PLACES", "PendingResponses", "ResponseSlot"]

MAX_PLACES: Final = 16
"""Calls of one connection whose answers are made at once, of those that are answered with a message."""


class PendingResponses:
    """The answers of one connection that are being made, or were written and are not taken."""

    __slots__ = ("places", "turn", "writable")

    def __init__(self) -> None:
        self.writable = asyncio.Event()
        """Whether the client has taken most of what was written."""
        self.writable.set()
        self.turn = asyncio.Lock()
        self.places = asyncio.Semaphore(MAX_PLACES)


class ResponseSlot:
    """One call's right to make an answer. Implements `calls.Room`."""

    __slots__ = ("_answers", "_has_place", "_has_turn")

    def __init__(self, answers: PendingResponses) -> None:
        self._answers = answers
        self._has_place = False
        self._has_turn = False

    async def ready(self) -> None:
        """Wait until answers are taken."""
        if not self._answers.writable.is_set():
            await self._answers.writable.wait()

    async def place(self) -> None:
        """Wait to be one of the few whose answers are made, and until those before are taken."""
        await self._answers.places.acquire()
        self._has_place = True
        await self._answers.writable.wait()

    async def turn(self) -> None:
        """Wait until no other large answer is on its way."""
        if not self._has_turn:
            await self._answers.turn.acquire()
            self._has_turn = True
            await self._answers.writable.wait()

    def leave(self) -> None:
        """The answer is written, or there is none."""
        if self._has_turn:
            self._answers.turn.release()
        if self._has_place:
            self._answers.places.release()
