"""Shares the subscriptions to read events and to requests among all processes, within about a second.

Read events are emitted only while a listener subscribes to them, and its connection may be in another process than the
read. So each process stores the subscriptions of its listeners with an expiry, renews them, and polls those of other
processes. Subscriptions of bucket rules are stored with the buckets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.events import object_event
from lakebed.objects.model import Caller, StoredObject

from ..names import ON_DEMAND, SINGLES
from ..selection import EventSelection
from ..write_behind import MAX_ENTRIES, WriteBehind

log = logging.getLogger("lakebed.events")

ALL_BUCKETS: Final = ""
POLL_SECONDS: Final = 1.0
EXPIRY_MS: Final = 15_000
_RENEW_MS: Final = 5_000

_BITS: Final[Mapping[str, int]] = {name.kind: name.mask for name in SINGLES if name.mask & ON_DEMAND}

_OF_OTHERS: Final = "SELECT bucket, mask FROM event_listeners WHERE holder <> ? AND expires_ms > ?"
_DELETE: Final = "DELETE FROM event_listeners WHERE holder = ? OR expires_ms <= ?"
_REQUEST_SUBSCRIBERS: Final = "SELECT name FROM request_log_cursors LIMIT 1"
_ADD: Final = "INSERT INTO event_listeners (holder, bucket, mask, expires_ms) VALUES (?, ?, ?, ?)"


def read_event_mask(selection: EventSelection) -> tuple[str, int]:
    """The bucket of a selection, or all buckets, and the mask of the read events that it names."""
    return selection.subject.partition("/")[0] or ALL_BUCKETS, mask_of_selection(selection)


def mask_of_selection(selection: EventSelection) -> int:
    """The mask of the read events that a selection names. Selecting all events subscribes to no read events."""
    return sum(bit for kind, bit in _BITS.items() if selection.names_kind(kind))


class ListenerRegistry:
    """Subscriptions to read events and requests. Used from one event loop."""

    def __init__(self, meta: MetaStore, clock: Clock, holder: str) -> None:
        """`holder` identifies this process."""
        self._meta = meta
        self._clock = clock
        self._holder = holder
        self._own: list[tuple[str, int]] = []
        self._of_targets: list[tuple[str, int]] = []
        self._others: dict[str, int] = {}
        self._masks: dict[str, int] = {}
        """The subscriptions of all processes, by bucket."""
        self._stored: dict[str, int] | None = {}
        """The stored subscriptions of this process; None while unknown."""
        self._renew_ms = 0
        self._has_changed = asyncio.Event()
        self.has_request_subscribers = False
        """Whether a target subscribes to requests. Read by every request."""

    def wants(self, bucket: Bucket, kind: str) -> bool:
        """Whether a rule of the bucket or a listener subscribes to a kind of read event."""
        mask = bucket.settings.event_mask
        if self._masks:
            mask |= self._masks.get(bucket.name, 0) | self._masks.get(ALL_BUCKETS, 0)
        return bool(mask & _BITS[kind])

    @contextmanager
    def listening(self, bucket: str, mask: int) -> Iterator[None]:
        """Subscribe to read events of a bucket, or of all buckets, for the duration of a block."""
        subscription = (bucket, mask & ON_DEMAND)
        if not subscription[1]:
            yield
            return
        self._own.append(subscription)
        self._changed()
        try:
            yield
        finally:
            self._own.remove(subscription)
            self._changed()

    def set_target_masks(self, masks: Iterable[tuple[str, int]]) -> None:
        """Replace the subscriptions of the targets that this process serves."""
        merged = sorted(_merged((bucket, mask & ON_DEMAND) for bucket, mask in masks if mask & ON_DEMAND).items())
        if merged != self._of_targets:
            self._of_targets = merged
            self._changed()

    async def run(self) -> None:
        """Exchange subscriptions with other processes until cancelled, then delete those of this process."""
        try:
            while True:
                try:
                    await self.share()
                except LakebedError as error:
                    log.warning("listener refresh failed, retrying", exc_info=error)
                except Exception:
                    # A bug must not stop the refresh for the life of the process.
                    log.exception("listener refresh crashed, retrying")
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._has_changed.wait()
        finally:
            with suppress(LakebedError):
                await asyncio.shield(self._write({}))

    async def share(self) -> None:
        """Store the subscriptions of this process if they changed or need renewal; load those of other processes."""
        self._has_changed.clear()
        now_ms = self._clock.now_ms()
        own = _merged([*self._own, *self._of_targets])
        if own != self._stored or (own and now_ms >= self._renew_ms):
            await self._write(own)
        await self.refresh_request_subscribers()
        self._others = _merged(await self._meta.rows(_OF_OTHERS, self._holder, now_ms))
        self._merge()

    async def refresh_request_subscribers(self) -> None:
        """Load whether a target subscribes to requests."""
        self.has_request_subscribers = await self._meta.row(_REQUEST_SUBSCRIBERS) is not None

    async def _write(self, own: Mapping[str, int]) -> None:
        if not own and self._stored == {}:
            return
        self._stored = None
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await tx.run(_DELETE, self._holder, now_ms)
            for bucket, mask in sorted(own.items()):
                await tx.run(_ADD, self._holder, bucket, mask, now_ms + EXPIRY_MS)

        await self._meta.transact(work)
        self._stored, self._renew_ms = dict(own), now_ms + _RENEW_MS

    def _changed(self) -> None:
        self._merge()
        self._has_changed.set()

    def _merge(self) -> None:
        self._masks = _merged([*self._own, *self._of_targets, *self._others.items()])


def _merged(subscriptions: Iterable[tuple[str, int]]) -> dict[str, int]:
    masks: dict[str, int] = {}
    for bucket, mask in subscriptions:
        masks[bucket] = masks.get(bucket, 0) | mask
    return masks


FLUSH_SECONDS: Final = 0.1


class ReadEvents:
    """Buffers and writes read events. Implements `ReadEventSink`; used from one event loop."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        listeners: ListenerRegistry,
        *,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self._clock = clock
        self._behind = WriteBehind(meta, outbox, "read events", flush_seconds=FLUSH_SECONDS, max_entries=max_entries)
        self.listeners = listeners
        self.wants = listeners.wants
        self.run = self._behind.run
        self.flush = self._behind.flush

    def emit(self, kind: str, bucket: Bucket, stored: StoredObject, caller: Caller) -> None:
        """Emit a read event if it has a subscriber. Returns at once."""
        if not self.wants(bucket, kind):
            return
        if not self._behind.has_room:
            self._behind.drop()
            return
        # Encoded now: the caller references the whole request, which must not stay in memory.
        self._behind.add(object_event(kind, bucket, stored, caller, self._clock.now_ms()))
