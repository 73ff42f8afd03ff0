"""Buffers read events and request log entries in memory and writes them in batches.

Requests do not wait for the write. A killed process loses its buffer; a process that stops writes it. While the store
is unavailable or too slow, the buffer keeps a bounded number of entries and bytes; further entries are dropped and
counted.
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

MAX_ENTRIES: Final = 10_000
MAX_BYTES: Final = 16 * 1024 * 1024
BATCH: Final = 500
"""Entries per transaction. This many buffered entries are written without waiting for `flush_seconds`."""

_RETRY_SECONDS: Final = 1.0


def _ignore(_: int) -> None:
    return


class WriteBehind:
    """A buffer in front of a log. Used from one event loop."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        label: str,
        *,
        flush_seconds: float,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        on_drop: Callable[[int], None] = _ignore,
    ) -> None:
        """`label` names the entries in log lines; `on_drop` receives the number of dropped entries."""
        self._meta = meta
        self._outbox = outbox
        self._label = label
        self._flush_seconds = flush_seconds
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._on_drop = on_drop
        self._buffer: deque[OutboxEvent] = deque()
        self._bytes = 0
        self._dropped = 0
        self._is_dirty = asyncio.Event()
        self._has_batch = asyncio.Event()
        self._writing = asyncio.Lock()

    @property
    def has_room(self) -> bool:
        """Whether `add` would buffer another entry."""
        return len(self._buffer) < self._max_entries and self._bytes < self._max_bytes

    def add(self, event: OutboxEvent) -> None:
        """Buffer an entry, or drop it if the buffer is full. Returns at once."""
        if not self.has_room:
            self.drop()
            return
        self._buffer.append(event)
        self._bytes += len(event.payload)
        self._is_dirty.set()
        if len(self._buffer) >= BATCH:
            self._has_batch.set()

    def drop(self) -> None:
        """Count a dropped entry."""
        self._dropped += 1
        self._on_drop(1)
        self._is_dirty.set()  # the next flush logs it

    async def run(self) -> None:
        """Write buffered entries until cancelled, then the rest of the buffer."""
        try:
            while True:
                await self._is_dirty.wait()
                try:
                    async with asyncio.timeout(self._flush_seconds):
                        await self._has_batch.wait()
                except TimeoutError:
                    pass
                try:
                    await asyncio.shield(self.flush())
                except LakebedError as error:
                    log.warning("writing buffered %s failed, retrying", self._label, exc_info=error)
                    await asyncio.sleep(_RETRY_SECONDS)
                except Exception:
                    # A bug must not stop the writer for the life of the process.
                    log.exception("writing buffered %s crashed, retrying", self._label)
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            try:
                await asyncio.shield(self.flush())
            except LakebedError as error:
                log.warning("writing the last buffered %s failed", self._label, exc_info=error)

    async def flush(self) -> int:
        """Write the buffer; return the number of entries. Entries of a failed batch stay buffered."""
        async with self._writing:
            self._is_dirty.clear()
            self._has_batch.clear()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                log.warning("%s dropped: write buffer full", self._label, extra={"dropped": dropped})
            written = 0
            try:
                while self._buffer:
                    batch = list(islice(self._buffer, BATCH))
                    await self._write(batch)
                    for event in batch:
                        self._buffer.popleft()
                        self._bytes -= len(event.payload)
                    written += len(batch)
            except BaseException:
                self._is_dirty.set()
                raise
            return written

    async def _write(self, batch: list[OutboxEvent]) -> None:
        async def work(tx: Transaction) -> None:
            for event in batch:
                await self._outbox.append(tx, event)

        await self._meta.transact(work)
