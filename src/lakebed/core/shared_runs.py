"""Shares runs of an operation whose outcome counts for every caller that came before the run began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["SharedRuns"]


class SharedRuns:
    """At most one run at a time; callers that come during a run share the next."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._current: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Return after a run that began after this call. Raises what the run raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._run_after(self._current))
            self._next.add_done_callback(_look_at)
        await asyncio.shield(self._next)

    async def _run_after(self, current: asyncio.Task[None] | None) -> None:
        if current is not None:
            await asyncio.wait([current])
        self._current, self._next = self._next, None
        await self._work()


def _look_at(run: asyncio.Task[None]) -> None:
    """Take note of a failure even if every caller was cancelled."""
    if not run.cancelled():
        run.exception()
