"""Callbacks that wait for an offset, called in order without visiting those that wait for later offsets."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

__all__ = ["OffsetWaiters"]


class _Waiter:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def call(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class OffsetWaiters:
    """Callbacks by offset. Each is called at most once. For one event loop."""

    __slots__ = ("_cancelled", "_counter", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Waiter]] = []
        self._counter = count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def add(self, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `offset` is reached, or all waiters are released. Returns a function that cancels it."""
        waiter = _Waiter(callback)
        heapq.heappush(self._heap, (offset, next(self._counter), waiter))

        def cancel() -> None:
            if waiter.callback is not None:
                waiter.callback = None
                self._cancelled += 1
                self._sweep()

        return cancel

    async def wait(self, offset: int) -> None:
        """Return when `offset` is reached, or all waiters are released."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def resolve() -> None:
            if not future.done():
                future.set_result(None)

        cancel = self.add(offset, resolve)
        try:
            await future
        finally:
            cancel()

    def reached(self, offset: int) -> None:
        """Call the waiters for offsets up to `offset`."""
        while self._heap and self._heap[0][0] <= offset:
            self._pop()

    def release(self) -> None:
        """Call all waiters."""
        while self._heap:
            self._pop()

    def _pop(self) -> None:
        waiter = heapq.heappop(self._heap)[2]
        if waiter.callback is None:
            self._cancelled -= 1
        waiter.call()

    def _sweep(self) -> None:
        # Long polls that time out would otherwise accumulate on a log without writes.
        if self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            self._cancelled = 0
            heapq.heapify(self._heap)
