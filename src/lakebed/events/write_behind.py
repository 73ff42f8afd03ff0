"""What is told of requests that change nothing, or of requests as such: gathered in memory, written a moment later.

No request waits for it. What a process has gathered is written to a log together, so many a transaction; one that is
killed takes what it had not written with it, one that ends writes it. While the store cannot be written to, or not as
fast as requests come, a bounded number of entries and of bytes waits, and what is beyond is counted and not told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import MetaStore, Transaction

log = logging.getLogger("lakebed.events")

MOST_WAITING: Final = 10_000
MOST_BYTES: Final = 16 * 1024 * 1024
AT_ONCE: Final = 500
"""Entries of one transaction. When so many wait, they wait no longer."""

_PAUSE_SECONDS: Final = 1.0


def _uncounted(_: int) -> None:
    return


class WriteBehind:
    """Gathers and writes. Used from one event loop."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        what: str,
        *,
        flush_seconds: float,
        most_waiting: int = MOST_WAITING,
        most_bytes: int = MOST_BYTES,
        dropped: Callable[[int], None] = _uncounted,
    ) -> None:
        """`what` is gathered, for the log; `dropped` is told how many entries were not."""
        self._meta = meta
        self._outbox = outbox
        self._what = what
        self._flush_seconds = flush_seconds
        self._most_waiting = most_waiting
        self._most_bytes = most_bytes
        self._dropped = dropped
        self._waiting: deque[OutboxEvent] = deque()
        self._bytes = 0
        self._missed = 0
        self._news = asyncio.Event()
        self._many = asyncio.Event()
        self._writing = asyncio.Lock()

    @property
    def has_room(self) -> bool:
        """Whether one more would be kept."""
        return len(self._waiting) < self._most_waiting and self._bytes < self._most_bytes

    def add(self, event: OutboxEvent) -> None:
        """Have it written; if too much waits, have it counted. Returns at once."""
        if not self.has_room:
            self.miss()
            return
        self._waiting.append(event)
        self._bytes += len(event.payload)
        self._news.set()
        if len(self._waiting) >= AT_ONCE:
            self._many.set()

    def miss(self) -> None:
        """Count one that is not told of."""
        self._missed += 1
        self._dropped(1)
        # Whoever writes says so in the log, though there may be nothing to write.
        self._news.set()

    async def run(self) -> None:
        """Write what is gathered, until cancelled; then what is left."""
        try:
            while True:
                await self._news.wait()
                try:
                    async with asyncio.timeout(self._flush_seconds):
                        await self._many.wait()
                except TimeoutError:
                    pass
                try:
                    await asyncio.shield(self.flush())
                except LakebedError as error:
                    log.warning("%s could not be written; they are kept", self._what, exc_info=error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                except Exception:
                    # A mistake of ours must not end this for the life of the process.
                    log.exception("writing %s crashed; it is tried again", self._what)
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            try:
                await asyncio.shield(self.flush())
            except LakebedError as error:
                log.warning("the last %s could not be written", self._what, exc_info=error)

    async def flush(self) -> int:
        """Write all that was gathered; how many. What cannot be written stays for the next time."""
        async with self._writing:
            self._news.clear()
            self._many.clear()
            missed, self._missed = self._missed, 0
            if missed:
                log.warning("%s were not told of: too many waited", self._what, extra={"missed": missed})
            written = 0
            try:
                while self._waiting:
                    batch = list(islice(self._waiting, AT_ONCE))
                    await self._write(batch)
                    for event in batch:
                        self._waiting.popleft()
                        self._bytes -= len(event.payload)
                    written += len(batch)
            except BaseException:
                self._news.set()
                raise
            return written

    async def _write(self, batch: list[OutboxEvent]) -> None:
        async def work(tx: Transaction) -> None:
            for event in batch:
                await self._outbox.append(tx, event)

        await self._meta.transact(work)
