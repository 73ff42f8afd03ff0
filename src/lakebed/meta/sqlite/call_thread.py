"""A thread that makes blocking calls for the event loop, one after another, and reports back on the loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

Report: TypeAlias = Callable[[BaseException | None], None]
"""Called on the loop when a call ended, with what it raised."""


class CallThread:
    """Blocking calls in order. Cheaper than an executor: one queue, one wake-up each way, no future in between."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: queue.SimpleQueue[tuple[Callable[[], None], Report] | None] = queue.SimpleQueue()
        # A daemon: a process that dies while another one holds a lock must not wait for it.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], None], report: Report) -> None:
        """Run `function` on the thread, then `report` on the loop."""
        self._calls.put((function, report))

    def close(self) -> None:
        """End the thread once the calls made so far are done."""
        self._calls.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            function, report = call
            failure: BaseException | None = None
            try:
                function()
            except BaseException as error:  # it belongs to whoever asked, and is raised there
                failure = error
            try:
                self._loop.call_soon_threadsafe(report, failure)
            except RuntimeError:  # the loop was closed: nobody is left to hear
                return
