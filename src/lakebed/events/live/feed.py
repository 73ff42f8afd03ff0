"""The live feed: events as they happen, for who listens now.

A subscription is a place in the outbox. All subscriptions that are level share one reader and the events that it read
last, in memory; one that is behind reads for itself, as slowly as it likes: nobody who writes waits for anybody who
listens, and nobody who listens for another. An event is told once it is on stable storage, in order, and once.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.meta.outbox import Outbox, OutboxEntry
from lakebed.meta.seam import MetaStore

from ..names import name_of_kind
from .listeners import ALL_BUCKETS, ListenerRegistry

log = logging.getLogger("lakebed.events")

KEPT: Final = 1024
"""How many events are in memory for those who are level."""
PAGE: Final = 256
_LOOK_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 1.0

EntryFilter = Callable[[OutboxEntry], bool]

_seq = attrgetter("seq")


def _everything(_: OutboxEntry) -> bool:
    return True


class LiveFeed:
    """The feed of one process. Used from one event loop."""

    def __init__(self, meta: MetaStore, outbox: Outbox, interests: ListenerRegistry, *, kept: int = KEPT) -> None:
        self._meta = meta
        self._outbox = outbox
        self._interests = interests
        self._kept = kept
        self._tail: list[OutboxEntry] = []
        self._from_seq = self._to_seq = 0
        """All events after the first and up to the second number are in the tail."""
        self._subscriptions = 0
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def position(self) -> int:
        """The number of the last event there is: who subscribes behind it misses nothing from now on."""
        last = await self._outbox.last_seq(self._meta)
        # A number that is told is never given to another event, even if the machine stops now.
        await self._meta.sync()
        return last

    async def first(self) -> int:
        """The number of the oldest event there is; 0 if there is none."""
        return await self._outbox.first_seq(self._meta)

    @asynccontextmanager
    async def subscribe(
        self, matches: EntryFilter = _everything, *, after: int, bucket: str = ALL_BUCKETS, mask: int = 0
    ) -> AsyncIterator[LiveSubscription]:
        """Follow what happens after a number. `mask` has the bits of what is asked for, of a bucket or of all.

        Of these, what is told of on demand only is told of while the subscription lasts.
        """
        with self._interests.listening(bucket, mask):
            self._begin(await self.position())
            try:
                yield LiveSubscription(self, matches, after)
            finally:
                self._end()

    def _begin(self, position: int) -> None:
        self._subscriptions += 1
        if self._reader is None or self._reader.done():
            self._tail.clear()
            self._from_seq = self._to_seq = position
            self._reader = asyncio.create_task(self._read(), name="live feed")

    def _end(self) -> None:
        self._subscriptions -= 1
        if not self._subscriptions and self._reader is not None:
            self._reader.cancel()
            self._reader = None

    async def _read(self) -> None:
        """Read what happens, for all who are level."""
        while True:
            try:
                entries = await self._outbox.read_durable(self._to_seq, PAGE)
                if entries:
                    self._add(entries)
                else:
                    await self._outbox.wait_for_event(self._to_seq, _LOOK_SECONDS)
            except LakebedError as error:
                log.warning("the live feed cannot read; it is tried again", exc_info=error)
                await asyncio.sleep(_PAUSE_SECONDS)
            except Exception:
                # A mistake of ours must not end the feed of all who listen.
                log.exception("the reader of the live feed crashed; it is tried again")
                await asyncio.sleep(_PAUSE_SECONDS)

    def _add(self, entries: Sequence[OutboxEntry]) -> None:
        self._tail += entries
        self._to_seq = entries[-1].seq
        surplus = len(self._tail) - self._kept
        if surplus > 0:
            self._from_seq = self._tail[surplus - 1].seq
            del self._tail[:surplus]
        news, self._news = self._news, asyncio.Event()
        news.set()

    # -- for subscriptions ----------------------------------------------------------------------------------------

    async def page_after(self, seq: int) -> Sequence[OutboxEntry]:
        """Some events after a number: from memory for who is level, from the store for who is behind."""
        if seq < self._from_seq:
            return await self._outbox.read_durable(seq, PAGE)
        start = bisect_right(self._tail, seq, key=_seq)
        return self._tail[start : start + PAGE]

    def next_news(self) -> asyncio.Event:
        """Set when there is more than now."""
        return self._news


class LiveSubscription:
    """Somebody's place in the feed."""

    def __init__(self, feed: LiveFeed, matches: EntryFilter, after: int) -> None:
        self._feed = feed
        self._takes = matches
        self.after = after
        """The last event that was looked at, asked for or not."""

    async def next(self, timeout_seconds: float) -> list[OutboxEntry]:
        """The next events that are asked for, oldest first; none in that time if there are none. Raises as stores."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_seconds
        while True:
            news = self._feed.next_news()  # before the look: what comes between look and wait must not be missed
            page = await self._feed.page_after(self.after)
            if page:
                self.after = page[-1].seq
                found = [entry for entry in page if self._takes(entry)]
                if found:
                    return found
            left = end - loop.time()
            if left <= 0:
                return []
            if page:
                # Others have their turn between the pages of one who is far behind.
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(left):
                    await news.wait()
            except TimeoutError:
                return []


@dataclass(frozen=True, slots=True)
class S3EventFilter:
    """Some events of a bucket, or of all, on keys that begin and end as they say."""

    mask: int
    bucket: str = ALL_BUCKETS
    prefix: str = ""
    suffix: str = ""

    def matches(self, entry: OutboxEntry) -> bool:
        """Whether it is one of them. Prefix and suffix are plain text, and may share characters of a short key."""
        name = name_of_kind(entry.event.kind)
        if name is None or not name.mask & self.mask:
            return False
        bucket, _, key = entry.event.subject.partition("/")
        if self.bucket not in (ALL_BUCKETS, bucket):
            return False
        return key.startswith(self.prefix) and key.endswith(self.suffix)
