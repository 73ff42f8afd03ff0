"""The live feed: new events for connected clients.

A subscription is a position in the outbox. Subscriptions at the end of the outbox share one reader and its in-memory
tail; a slower subscription reads from the store. So writers never wait for subscribers, nor subscribers for each other.
Each subscription gets durable events only, in order and once.
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

TAIL_EVENTS: Final = 1024
"""Newest events in memory."""
PAGE: Final = 256
_POLL_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1.0

EntryFilter = Callable[[OutboxEntry], bool]

_seq = attrgetter("seq")


def _all(_: OutboxEntry) -> bool:
    return True


class LiveFeed:
    """The feed of one process. Used from one event loop."""

    def __init__(
        self, meta: MetaStore, outbox: Outbox, listeners: ListenerRegistry, *, tail_events: int = TAIL_EVENTS
    ) -> None:
        self._meta = meta
        self._outbox = outbox
        self._listeners = listeners
        self._tail_events = tail_events
        self._tail: list[OutboxEntry] = []
        self._from_seq = self._to_seq = 0
        """The tail has all events after the first number, up to the second."""
        self._subscriptions = 0
        self._reader: asyncio.Task[None] | None = None
        self._has_more = asyncio.Event()

    async def position(self) -> int:
        """The sequence number of the newest event: a subscription after it misses no later event."""
        last = await self._outbox.last_seq(self._meta)
        # Numbers that clients have seen must not be reused after a power loss.
        await self._meta.sync()
        return last

    async def first(self) -> int:
        """The sequence number of the oldest retained event; 0 for an empty outbox."""
        return await self._outbox.first_seq(self._meta)

    @asynccontextmanager
    async def subscribe(
        self, matches: EntryFilter = _all, *, after: int, bucket: str = ALL_BUCKETS, mask: int = 0
    ) -> AsyncIterator[LiveSubscription]:
        """Subscribe to events after a sequence number.

        Read events in `mask`, of one bucket or all, are emitted while the subscription is open.
        """
        with self._listeners.listening(bucket, mask):
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
        """Append new events to the tail."""
        while True:
            try:
                entries = await self._outbox.read_durable(self._to_seq, PAGE)
                if entries:
                    self._add(entries)
                else:
                    await self._outbox.wait_for_event(self._to_seq, _POLL_SECONDS)
            except LakebedError as error:
                log.warning("live feed read failed, retrying", exc_info=error)
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                # A bug must not stop the feed for all subscribers.
                log.exception("live feed reader crashed, retrying")
                await asyncio.sleep(_RETRY_SECONDS)

    def _add(self, entries: Sequence[OutboxEntry]) -> None:
        self._tail += entries
        self._to_seq = entries[-1].seq
        surplus = len(self._tail) - self._tail_events
        if surplus > 0:
            self._from_seq = self._tail[surplus - 1].seq
            del self._tail[:surplus]
        has_more, self._has_more = self._has_more, asyncio.Event()
        has_more.set()

    # -- for subscriptions ----------------------------------------------------------------------------------------

    async def page_after(self, seq: int) -> Sequence[OutboxEntry]:
        """Events after a sequence number: from the tail if it reaches back that far, else from the store."""
        if seq < self._from_seq:
            return await self._outbox.read_durable(seq, PAGE)
        start = bisect_right(self._tail, seq, key=_seq)
        return self._tail[start : start + PAGE]

    def next_events(self) -> asyncio.Event:
        """Set when the tail grows."""
        return self._has_more


class LiveSubscription:
    """A subscriber's position in the feed."""

    def __init__(self, feed: LiveFeed, matches: EntryFilter, after: int) -> None:
        self._feed = feed
        self._matches = matches
        self.after = after
        """The last event read, matching or not."""

    async def next(self, timeout_seconds: float) -> list[OutboxEntry]:
        """The next matching events, oldest first; empty on timeout. Raises the store's errors."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_seconds
        while True:
            has_more = self._feed.next_events()  # before the read: events between read and wait must not be missed
            page = await self._feed.page_after(self.after)
            if page:
                self.after = page[-1].seq
                found = [entry for entry in page if self._matches(entry)]
                if found:
                    return found
            left = end - loop.time()
            if left <= 0:
                return []
            if page:
                # Let other tasks run between the pages of a subscriber that is far behind.
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(left):
                    await has_more.wait()
            except TimeoutError:
                return []


@dataclass(frozen=True, slots=True)
class S3EventFilter:
    """Selects S3 events by mask, bucket, and prefix and suffix of the key."""

    mask: int
    bucket: str = ALL_BUCKETS
    prefix: str = ""
    suffix: str = ""

    def matches(self, entry: OutboxEntry) -> bool:
        """Whether an event matches. Prefix and suffix are literal, and may overlap in a short key."""
        name = name_of_kind(entry.event.kind)
        if name is None or not name.mask & self.mask:
            return False
        bucket, _, key = entry.event.subject.partition("/")
        if self.bucket not in (ALL_BUCKETS, bucket):
            return False
        return key.startswith(self.prefix) and key.endswith(self.suffix)
