"""A bell: wakes everybody in this process who waits for something that may have happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.1
"""How long a change made by another process may go unnoticed. A look costs one point read."""


class CommitNotifier:
    """Rung after commits of this process; changes of other processes are found by looking now and then."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def notify(self) -> None:
        """Wake all who wait now."""
        self._rung.set()
        self._rung = asyncio.Event()

    async def wait_until(self, is_there: Callable[[], Awaitable[bool]], timeout_seconds: float) -> bool:
        """Wait until `is_there`; False if the time was over first."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_seconds
        while True:
            rung = self._rung  # before the look: a ring between look and wait must not be missed
            if await is_there():
                return True
            left = end - loop.time()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(min(left, POLL_SECONDS)):
                    await rung.wait()
            except TimeoutError:
                continue
