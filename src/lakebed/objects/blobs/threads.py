"""Threads for the blocking steps of uploads: hashing, sealing, writing, syncing.

Cheaper than an executor: one queue, one wake-up each way, and no second future with its lock and condition. That
matters because hashing and writing a megabyte takes only a few milliseconds.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_COUNT: Final = 16
"""More than cores: most of the waiting is for the disk."""


class UploadThreads:
    """A few threads, started when they are first needed and kept for the life of the process."""

    def __init__(self, count: int = _COUNT) -> None:
        # Any: each call has its own result, which goes to its own future.
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._count = count
        self._started = 0
        self._busy = 0

    async def run(self, call: Callable[[], T]) -> T:
        """Make a blocking call. Cancelling the caller does not stop it."""
        return await self.start(call)

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Begin a blocking call; the future is of the running loop."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._busy >= self._started < self._count:
            self._started += 1
            # Daemons: a process that ends does not wait for a disk that hangs.
            threading.Thread(target=self._serve, name=f"lakebed-upload-{self._started}", daemon=True).start()
        self._busy += 1
        future.add_done_callback(self._count_down)
        self._calls.put((call, future))
        return future

    def close(self) -> None:
        """End the threads once the calls made so far are done."""
        for _ in range(self._started):
            self._calls.put(None)
        self._started = self._count

    def _count_down(self, _: asyncio.Future[Any]) -> None:
        self._busy -= 1

    def _serve(self) -> None:
        while (asked := self._calls.get()) is not None:
            call, future = asked
            result: Any = None
            failure: BaseException | None = None
            try:
                result = call()
            except BaseException as error:  # it belongs to whoever asked, and is raised there
                failure = error
            loop = future.get_loop()
            try:
                loop.call_soon_threadsafe(_settle, future, result, failure)
            except RuntimeError:  # the loop was closed: nobody is left to hear
                return
            # Nothing of the last call is kept alive while waiting for the next.
            del asked, call, future, result, failure, loop


def _settle(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:  # Any: as above
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
