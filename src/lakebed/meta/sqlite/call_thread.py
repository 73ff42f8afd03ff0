"""A thread that runs blocking calls for the event loop in order, and reports their completion on the loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

Report: TypeAlias = Callable[[BaseException | None], None]
"""Called on the loop after a call, with its exception."""


class CallThread:
    """Runs blocking calls in order. Cheaper than an executor: one queue, one wake-up each way, no futures."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], Report] | None] = queue.SimpleQueue()
        # A daemon: a process that ends must not wait for a lock of another process.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], None], report: Report) -> None:
        """Run `function` on the thread, then `report` on the loop."""
        self._calls.put((function, report))

    def close(self) -> None:
        """End the thread after the pending calls."""
        self._calls.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            function, report = call
            failure: BaseException | None = None
            try:
                function()
            except BaseException as error:  # raised in the caller
                failure = error
            try:
                self._loop.call_soon_threadsafe(report, failure)
            except RuntimeError:  # the loop was closed
                return
