"""Paces retries after a commit conflict, so that losing writers do not all reload at once.

Every writer that gets a conflict reloads the table and retries. If all retry at once, all but one fail again, and slow
down the one that succeeds. So the response to a conflict may be delayed: the first is sent at once, and one more after
each successful commit. The delay is bounded, because a client may never retry.

Like table locks, this is per worker process: workers do not coordinate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from ..identifiers import Identifier

LONGEST_WAIT_SECONDS: Final = 0.05
"""Less than clients wait before they retry."""

_MAX_REMEMBERED: Final = 1024

_Table = tuple[str, Identifier]


class ConflictBackoff:
    """Delays responses to commit conflicts, by table."""

    def __init__(self, longest_wait_seconds: float = LONGEST_WAIT_SECONDS) -> None:
        self._longest_wait_seconds = longest_wait_seconds
        self._waiting: dict[_Table, deque[asyncio.Future[None]]] = {}
        self._last_sent: dict[_Table, float] = {}
        """When the last response was sent, for tables without a commit since."""

    async def wait(self, catalog_name: str, identifier: Identifier) -> None:
        """Return when the next conflict response for this table can be sent."""
        table = (catalog_name, identifier)
        loop = asyncio.get_running_loop()
        last_sent = self._last_sent.get(table)
        if last_sent is None or loop.time() - last_sent >= self._longest_wait_seconds:
            self._remember(table, loop.time())
            return
        turn: asyncio.Future[None] = loop.create_future()
        queue = self._waiting.setdefault(table, deque())
        queue.append(turn)
        timer = loop.call_later(self._longest_wait_seconds, _release, turn)
        try:
            await turn
        finally:
            timer.cancel()
            if turn in queue:
                queue.remove(turn)
            if not queue and self._waiting.get(table) is queue:
                del self._waiting[table]

    def committed(self, catalog_name: str, identifier: Identifier) -> None:
        """Release the longest waiting response, or the next one if none waits."""
        table = (catalog_name, identifier)
        queue = self._waiting.get(table)
        while queue:
            turn = queue.popleft()
            if not turn.done():
                _release(turn)
                self._remember(table, asyncio.get_running_loop().time())
                return
        self._last_sent.pop(table, None)

    def _remember(self, table: _Table, now: float) -> None:
        self._last_sent[table] = now
        if len(self._last_sent) > _MAX_REMEMBERED:
            recent = now - self._longest_wait_seconds
            self._last_sent = {one: when for one, when in self._last_sent.items() if when > recent}


def _release(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
