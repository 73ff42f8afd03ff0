"""Lookups that wait for the disk together: what is asked for while a thread reads is read next, all of it at once.

A thread for each of many small calls costs more than what it reads, and readers at the same time are in each other's
way. Of all keys that wait together, neighbours are read from one block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple

__all__ = ["BatchedReads"]

MAX_BATCH_KEYS: Final = 4096
"""Read at once: whoever comes next waits for as long as that takes. A call that has more reads beside all others."""


class _Call(NamedTuple):
    keys: Sequence[bytes]
    found: asyncio.Future[list[bytes | None]]


class BatchedReads:
    """The reads of one index, of which one that is shared runs at a time, in a thread."""

    def __init__(self, read: Callable[[Sequence[bytes]], list[bytes | None]]) -> None:
        """`read` may block; whatever it raises is raised to all whose keys it was to read."""
        self._read = read
        self._calls: list[_Call] = []
        self._reading: asyncio.Task[None] | None = None

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, as they are at some moment from now on."""
        if len(keys) > MAX_BATCH_KEYS:
            return await asyncio.to_thread(self._read, keys)
        call = _Call(keys, asyncio.get_running_loop().create_future())
        self._calls.append(call)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all())
        return await call.found

    async def _read_all(self) -> None:
        try:
            while calls := self._next():
                keys = list(chain.from_iterable(call.keys for call in calls))
                try:
                    values = await asyncio.to_thread(self._read, keys)
                except Exception as error:
                    for call in calls:
                        if not call.found.done():  # or whoever asked has given up
                            call.found.set_exception(error)
                    continue
                at = 0
                for call in calls:
                    if not call.found.done():
                        call.found.set_result(values[at : at + len(call.keys)])
                    at += len(call.keys)
        finally:
            self._reading = None

    def _next(self) -> list[_Call]:
        """Who is read for next, in the order of asking, without those who have given up."""
        waiting = [call for call in self._calls if not call.found.done()]
        count = size = 0
        while count < len(waiting) and size + len(waiting[count].keys) <= MAX_BATCH_KEYS:
            size += len(waiting[count].keys)
            count += 1
        self._calls = waiting[count:]
        return waiting[:count]
