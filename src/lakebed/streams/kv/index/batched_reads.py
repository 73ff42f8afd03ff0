"""Batches lookups that read the disk: all that arrive during a read are executed together in the next one.

A thread per small lookup costs more than the read itself, and concurrent reads slow each other down. In a batch, keys
in the same block are read together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple

__all__ = ["BatchedReads"]

MAX_BATCH_KEYS: Final = 4096
"""Maximum size of a batch, which later lookups wait for. Larger lookups run separately."""


class _Call(NamedTuple):
    keys: Sequence[bytes]
    found: asyncio.Future[list[bytes | None]]


class BatchedReads:
    """The reads of one index. At most one batch runs at a time, in a thread."""

    def __init__(self, read: Callable[[Sequence[bytes]], list[bytes | None]]) -> None:
        """`read` may block. Its errors are raised to all lookups of the batch."""
        self._read = read
        self._calls: list[_Call] = []
        self._reading: asyncio.Task[None] | None = None

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of these keys, as of some time after the call."""
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
                        if not call.found.done():  # or the caller was cancelled
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
        """The next batch, in order of arrival, without cancelled lookups."""
        waiting = [call for call in self._calls if not call.found.done()]
        count = size = 0
        while count < len(waiting) and size + len(waiting[count].keys) <= MAX_BATCH_KEYS:
            size += len(waiting[count].keys)
            count += 1
        self._calls = waiting[count:]
        return waiting[:count]
