"""Wakes the waiters of this process after a commit, and polls for commits of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.1
"""How long a commit of another process may go unnoticed. A poll costs one point read."""


class CommitNotifier:
    """Notified after commits of this process; commits of other processes are found by polling."""

    def __init__(self) -> None:
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Wake all current waiters."""
        self._notified.set()
        self._notified = asyncio.Event()

    async def wait_until(self, condition: Callable[[], Awaitable[bool]], timeout_seconds: float) -> bool:
        """Wait until `condition` is true; False on timeout."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_seconds
        while True:
            notified = self._notified  # before the check: a notification between check and wait must not be missed
            if await condition():
                return True
            left = end - loop.time()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(min(left, POLL_SECONDS)):
                    await notified.wait()
            except TimeoutError:
                continue
