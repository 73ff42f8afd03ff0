"""Events of what changes nothing, for whom has asked for them: noted with the request, written a moment later.

A read waits for no event. What a process notes is written to the outbox together, within a fraction of a second; one
that is killed takes what it had not written with it, one that ends writes it. While the store cannot be written to, a
bounded number waits, and what is beyond is counted and not told of.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.meta.outbox import Event, Outbox
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.bucket import Bucket
from lakebed.objects.events import event_of_object
from lakebed.objects.model import Caller, StoredObject

from .interests import Interests

log = logging.getLogger("lakebed.events")

MOST_WAITING: Final = 10_000
FLUSH_SECONDS: Final = 0.1
_AT_ONCE: Final = 500
_PAUSE_SECONDS: Final = 1.0


class AccessEvents:
    """Notes and writes. The `Onlookers` of a server; used from one event loop."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        interests: Interests,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._most_waiting = most_waiting
        self._waiting: deque[Event] = deque()
        self._missed = 0
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()
        self.interests = interests
        self.want = interests.want

    def note(self, kind: str, bucket: Bucket, stored: StoredObject, caller: Caller) -> None:
        """Something was done with an object: has an event made of it, if somebody wants one. Returns at once."""
        if not self.want(bucket, kind):
            return
        if len(self._waiting) >= self._most_waiting:
            self._missed += 1
            return
        # Made now: the caller leads to the whole request, which must not be kept.
        self._waiting.append(event_of_object(kind, bucket, stored, caller, self._clock.now_ms()))
        self._news.set()

    async def run(self) -> None:
        """Write what is noted, until cancelled; then what is left."""
        try:
            while True:
                await self._news.wait()
                await asyncio.sleep(FLUSH_SECONDS)
                try:
                    await asyncio.shield(self.flush())
                except LakebedError as error:
                    log.warning("events of reads could not be written; they are kept", exc_info=error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                except Exception:
                    # A mistake of ours must not end this for the life of the process.
                    log.exception("writing events of reads crashed; it is tried again")
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            try:
                await asyncio.shield(self.flush())
            except LakebedError as error:
                log.warning("the last events of reads could not be written", exc_info=error)

    async def flush(self) -> int:
        """Write all that was noted; how many. What cannot be written stays for the next time."""
        async with self._writing:
            self._news.clear()
            missed, self._missed = self._missed, 0
            if missed:
                log.warning("events of reads were not made: too many waited", extra={"events": missed})
            written = 0
            try:
                while self._waiting:
                    batch = list(islice(self._waiting, _AT_ONCE))
                    await self._write(batch)
                    for _ in batch:
                        self._waiting.popleft()
                    written += len(batch)
            except BaseException:
                self._news.set()
                raise
            return written

    async def _write(self, batch: list[Event]) -> None:
        async def work(tx: Transaction) -> None:
            for event in batch:
                await self._outbox.append(tx, event)

        await self._meta.transact(work)
