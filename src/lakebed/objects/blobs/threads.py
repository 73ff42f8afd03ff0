"""Threads for the blocking steps of uploads: hashing, encrypting, writing, syncing.

Cheaper than an executor: one queue, one wake-up each way, no second future with lock and condition. It matters because
hashing and writing a megabyte takes only a few milliseconds.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_COUNT: Final = 16
"""More than cores: threads mostly wait for the disk."""


class UploadThreads:
    """A few threads, started on demand and kept until the process ends."""

    def __init__(self, count: int = _COUNT) -> None:
        # Any: each call has its own result type, which its own future carries.
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._count = count
        self._started = 0
        self._busy = 0

    async def run(self, call: Callable[[], T]) -> T:
        """Run a blocking call. Cancelling the caller does not stop it."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._busy >= self._started < self._count:
            self._started += 1
            # Daemon threads: a hanging disk must not keep the process alive.
            threading.Thread(target=self._serve, name=f"lakebed-upload-{self._started}", daemon=True).start()
        self._busy += 1
        future.add_done_callback(self._count_down)
        self._calls.put((call, future))
        return await future

    def close(self) -> None:
        """End the threads after the queued calls."""
        for _ in range(self._started):
            self._calls.put(None)
        self._started = self._count

    def _count_down(self, _: asyncio.Future[Any]) -> None:
        self._busy -= 1

    def _serve(self) -> None:
        while (queued := self._calls.get()) is not None:
            call, future = queued
            result: Any = None
            failure: BaseException | None = None
            try:
                result = call()
            except BaseException as error:  # raised to the caller through its future
                failure = error
            loop = future.get_loop()
            try:
                loop.call_soon_threadsafe(_settle, future, result, failure)
            except RuntimeError:  # the loop is closed, so no caller waits
                return
            # Do not keep the last call alive while waiting for the next.
            del queued, call, future, result, failure, loop


def _settle(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:  # Any: as above
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
