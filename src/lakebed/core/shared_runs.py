"""Coalesces concurrent calls of an operation: callers that arrive during a run share the next run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["SharedRuns"]

T = TypeVar("T")


class SharedRuns(Generic[T]):
    """At most one run at a time, and one waiting run that later callers share."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._current: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def wait(self) -> T:
        """The result of a run that began after this call. Raises what the run raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._run_after(self._current))
            self._next.add_done_callback(_retrieve_exception)
        return await asyncio.shield(self._next)

    async def _run_after(self, current: asyncio.Task[T] | None) -> T:
        if current is not None:
            await asyncio.wait([current])
        self._current, self._next = self._next, None
        return await self._work()


def _retrieve_exception(run: asyncio.Task[T]) -> None:
    """Retrieve the exception even if every caller was cancelled: asyncio warns of one that is never retrieved."""
    if not run.cancelled():
        run.exception()
