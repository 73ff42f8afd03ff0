"""Events of what changes nothing, for whom has asked for them: noted with the request, written a moment later."""

from __future__ import annotations

from typing import Final

from lakebed.core.clock import Clock
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.events import object_event
from lakebed.objects.model import Caller, StoredObject

from ..write_behind import MOST_WAITING, WriteBehind
from .listeners import ListenerRegistry

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
        self.want = interests.want
        self.run = self._behind.run
        self.flush = self._behind.flush

    def note(self, kind: str, bucket: Bucket, stored: StoredObject, caller: Caller) -> None:
        """Something was done with an object: has an event made of it, if somebody wants one. Returns at once."""
        if not self.want(bucket, kind):
            return
        if not self._behind.has_room:
            self._behind.miss()
            return
        # Made now: the caller leads to the whole request, which must not be kept.
        self._behind.add(object_event(kind, bucket, stored, caller, self._clock.now_ms()))
