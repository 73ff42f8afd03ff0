"""Who lost a table to another commit is sent back one at a time.

Everybody who is told of a conflict reads the table and tries again. If all are told at once, all but one do that in
vain, and what they do in vain slows down the one. So an answer that tells of a conflict may wait: one is let go at
once, and one more after each commit that succeeds. Nobody waits longer than a moment, since whoever was let go may
never come back.

As turns are, this is of one worker; workers know nothing of each other's losers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from ..identifiers import Identifier

LONGEST_WAIT_SECONDS: Final = 0.05
"""Less than clients wait by themselves before they try again."""

_MOST_REMEMBERED: Final = 1024

_Table = tuple[str, Identifier]


class ConflictBackoff:
    """The answers that wait, by table."""

    def __init__(self, longest_wait_seconds: float = LONGEST_WAIT_SECONDS) -> None:
        self._longest_wait_seconds = longest_wait_seconds
        self._waiting: dict[_Table, deque[asyncio.Future[None]]] = {}
        self._let_go: dict[_Table, float] = {}
        """When somebody was last let go, of tables to which nothing was committed since."""

    async def wait(self, catalog_name: str, identifier: Identifier) -> None:
        """Return when one who lost this table may be told."""
        table = (catalog_name, identifier)
        loop = asyncio.get_running_loop()
        let_go = self._let_go.get(table)
        if let_go is None or loop.time() - let_go >= self._longest_wait_seconds:
            self._remember(table, loop.time())
            return
        told: asyncio.Future[None] = loop.create_future()
        line = self._waiting.setdefault(table, deque())
        line.append(told)
        timer = loop.call_later(self._longest_wait_seconds, _tell, told)
        try:
            await told
        finally:
            timer.cancel()
            if told in line:
                line.remove(told)
            if not line and self._waiting.get(table) is line:
                del self._waiting[table]

    def committed(self, catalog_name: str, identifier: Identifier) -> None:
        """Let the next one go, or whoever loses next, if nobody waits."""
        table = (catalog_name, identifier)
        line = self._waiting.get(table)
        while line:
            told = line.popleft()
            if not told.done():
                _tell(told)
                self._remember(table, asyncio.get_running_loop().time())
                return
        self._let_go.pop(table, None)

    def _remember(self, table: _Table, now: float) -> None:
        self._let_go[table] = now
        if len(self._let_go) > _MOST_REMEMBERED:
            recent = now - self._longest_wait_seconds
            self._let_go = {one: when for one, when in self._let_go.items() if when > recent}


def _tell(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)
