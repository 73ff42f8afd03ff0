"""What live listeners ask for of what changes nothing, and whether anybody is sent requests: known to every process of
a server within about a second.

Reads are not told of unless somebody asks, and who asks may have connected to another process than the one that
serves the read. So each process writes down, for a short time and again while it lasts, what its listeners ask for,
and looks now and then at what those of the others do. What buckets' rules ask for is with the buckets.
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
from ..write_behind import MOST_WAITING, WriteBehind

log = logging.getLogger("lakebed.events")

ALL_BUCKETS: Final = ""
LOOK_SECONDS: Final = 1.0
KEPT_MS: Final = 15_000
_RENEW_MS: Final = 5_000

_BITS: Final[Mapping[str, int]] = {name.kind: name.mask for name in SINGLES if name.mask & ON_DEMAND}

_OF_OTHERS: Final = "SELECT bucket, mask FROM event_listeners WHERE holder <> ? AND expires_ms > ?"
_FORGET: Final = "DELETE FROM event_listeners WHERE holder = ? OR expires_ms <= ?"
_ASK_FOR_REQUESTS: Final = "SELECT name FROM request_log_cursors LIMIT 1"
_ADD: Final = "INSERT INTO event_listeners (holder, bucket, mask, expires_ms) VALUES (?, ?, ?, ?)"


def read_event_mask(selection: EventSelection) -> tuple[str, int]:
    """The bucket that a selection is about, or all, and what changes nothing and is asked for of it."""
    return selection.subject.partition("/")[0] or ALL_BUCKETS, mask_of_selection(selection)


def mask_of_selection(selection: EventSelection) -> int:
    """What changes nothing and is asked for by name. Who asks for everything asks for what there is."""
    return sum(bit for kind, bit in _BITS.items() if selection.names_kind(kind))


class ListenerRegistry:
    """Who listens for what. Used from one event loop."""

    def __init__(self, meta: MetaStore, clock: Clock, holder: str) -> None:
        """`holder` tells this process from all others."""
        self._meta = meta
        self._clock = clock
        self._holder = holder
        self._own: list[tuple[str, int]] = []
        self._lasting: list[tuple[str, int]] = []
        self._others: dict[str, int] = {}
        self._listened: dict[str, int] = {}
        """By bucket, what anybody listens for."""
        self._written: dict[str, int] | None = {}
        """What the store has of this process; None while that is not known."""
        self._renew_ms = 0
        self._news = asyncio.Event()
        self.wants_requests = False
        """Whether a target is sent every request. Looked at by every request."""

    def wants(self, bucket: Bucket, kind: str) -> bool:
        """Whether a rule of the bucket or a listener asks for events of a kind that changes nothing."""
        mask = bucket.settings.event_mask
        if self._listened:
            mask |= self._listened.get(bucket.name, 0) | self._listened.get(ALL_BUCKETS, 0)
        return bool(mask & _BITS[kind])

    @contextmanager
    def listening(self, bucket: str, mask: int) -> Iterator[None]:
        """Somebody listens to a bucket, or to all, for the time of a block."""
        asked = (bucket, mask & ON_DEMAND)
        if not asked[1]:
            yield
            return
        self._own.append(asked)
        self._changed()
        try:
            yield
        finally:
            self._own.remove(asked)
            self._changed()

    def set_target_masks(self, asked: Iterable[tuple[str, int]]) -> None:
        """What the targets ask for that this process serves, by bucket. In place of what they asked for before."""
        lasting = sorted(_united((bucket, mask & ON_DEMAND) for bucket, mask in asked if mask & ON_DEMAND).items())
        if lasting != self._lasting:
            self._lasting = lasting
            self._changed()

    async def run(self) -> None:
        """Let others know, and look what they ask for, until cancelled; then nobody of this process listens."""
        try:
            while True:
                try:
                    await self.share()
                except LakebedError as error:
                    log.warning("listeners could not be looked up; it is tried again", exc_info=error)
                except Exception:
                    # A mistake of ours must not end this for the life of the process.
                    log.exception("looking up listeners crashed; it is tried again")
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._news.wait()
        finally:
            with suppress(LakebedError):
                await asyncio.shield(self._write({}))

    async def share(self) -> None:
        """Write down what is asked for here, if that has changed or would be forgotten; read what is elsewhere."""
        self._news.clear()
        now_ms = self._clock.now_ms()
        own = _united([*self._own, *self._lasting])
        if own != self._written or (own and now_ms >= self._renew_ms):
            await self._write(own)
        await self.refresh_request_subscribers()
        self._others = _united(await self._meta.rows(_OF_OTHERS, self._holder, now_ms))
        self._unite()

    async def refresh_request_subscribers(self) -> None:
        """See whether a target is sent every request."""
        self.wants_requests = await self._meta.row(_ASK_FOR_REQUESTS) is not None

    async def _write(self, own: Mapping[str, int]) -> None:
        if not own and self._written == {}:
            return
        self._written = None
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await tx.run(_FORGET, self._holder, now_ms)
            for bucket, mask in sorted(own.items()):
                await tx.run(_ADD, self._holder, bucket, mask, now_ms + KEPT_MS)

        await self._meta.transact(work)
        self._written, self._renew_ms = dict(own), now_ms + _RENEW_MS

    def _changed(self) -> None:
        self._unite()
        self._news.set()

    def _unite(self) -> None:
        self._listened = _united([*self._own, *self._lasting, *self._others.items()])


def _united(asked: Iterable[tuple[str, int]]) -> dict[str, int]:
    masks: dict[str, int] = {}
    for bucket, mask in asked:
        masks[bucket] = masks.get(bucket, 0) | mask
    return masks


FLUSH_SECONDS: Final = 0.1


class ReadEvents:
    """Notes and writes. The `Onlookers` of a server; used from one event loop."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        interests: ListenerRegistry,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._clock = clock
        self._behind = WriteBehind(
            meta, outbox, "events of reads", flush_seconds=FLUSH_SECONDS, most_waiting=most_waiting
        )
        self.interests = interests
        self.wants = interests.wants
        self.run = self._behind.run
        self.flush = self._behind.flush

    def emit(self, kind: str, bucket: Bucket, stored: StoredObject, caller: Caller) -> None:
        """Something was done with an object: has an event made of it, if somebody wants one. Returns at once."""
        if not self.wants(bucket, kind):
            return
        if not self._behind.has_room:
            self._behind.miss()
            return
        # Made now: the caller leads to the whole request, which must not be kept.
        self._behind.add(object_event(kind, bucket, stored, caller, self._clock.now_ms()))
