"""Those who wait for an offset to be reached, told in order without a look at those who wait for later ones."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

__all__ = ["OffsetWaiters"]


class _Waiting:
    __slots__ = ("told",)

    def __init__(self, told: Callable[[], None]) -> None:
        self.told: Callable[[], None] | None = told

    def tell(self) -> None:
        told, self.told = self.told, None
        if told is not None:
            told()


class OffsetWaiters:
    """Callbacks by the offset that they wait for. For one event loop; told at most once each."""

    __slots__ = ("_counter", "_gone", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Waiting]] = []
        self._counter = count()
        self._gone = 0

    def __len__(self) -> int:
        return len(self._heap) - self._gone

    def add(self, offset: int, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called when `reached` is told of `offset` or later, or all are let go; returns what stops it."""
        waiting = _Waiting(told)
        heapq.heappush(self._heap, (offset, next(self._counter), waiting))

        def cancel() -> None:
            if waiting.told is not None:
                waiting.told = None
                self._gone += 1
                self._sweep()

        return cancel

    async def wait(self, offset: int) -> None:
        """Return when `reached` is told of `offset` or a later one, or all are let go."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told() -> None:
            if not future.done():
                future.set_result(None)

        cancel = self.add(offset, told)
        try:
            await future
        finally:
            cancel()

    def reached(self, offset: int) -> None:
        """Everything before `offset` is there."""
        while self._heap and self._heap[0][0] <= offset:
            self._pop()

    def release(self) -> None:
        """Tell all."""
        while self._heap:
            self._pop()

    def _pop(self) -> None:
        waiting = heapq.heappop(self._heap)[2]
        if waiting.told is None:
            self._gone -= 1
        waiting.tell()

    def _sweep(self) -> None:
        # Long polls that end by their time would pile up on a log that nobody writes to.
        if self._gone * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].told is not None]
            self._gone = 0
            heapq.heapify(self._heap)
