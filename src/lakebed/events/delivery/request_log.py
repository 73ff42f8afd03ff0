"""The log of requests, as far as targets go: who has a place in it, and how much of it is kept for them.

A target that subscribes to requests has a cursor in the log. Without cursors nothing is written
(`events/live/listeners.py` checks); entries that all cursors have passed are removed at once. A target that is down or
paused must not fill the disk: beyond a number of requests it loses the oldest, and a log line and a metric report how
many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lakebed.meta.outbox import FIRST_REQUEST, REQUESTS, Outbox
from lakebed.meta.seam import MetaStore, Transaction

from . import rows

MOST_KEPT: Final = 1_000_000
"""Requests that are kept for a target that does not take them: about a gigabyte."""

_ROUNDS: Final = 50
_EVERY_AGE: Final = 2**62


class RequestLog:
    """The log of requests of a server, for all who are sent some."""

    def __init__(self, meta: MetaStore, *, most_kept: int = MOST_KEPT) -> None:
        self._meta = meta
        self._most_kept = most_kept
        self.log = Outbox(meta, REQUESTS)

    async def set_subscribed(self, tx: Transaction, target: str, *, subscribed: bool) -> None:
        """Give a target a place from now on, or take it, with what waits: as it asks. Idempotent."""
        if subscribed:
            await self.log.open_cursor(tx, target, at_seq=await self.log.last_seq(tx))
        else:
            await self.log.drop_cursor(tx, target)
            await tx.run(rows.FORGET_REQUESTS, target, FIRST_REQUEST)

    async def begin(self, targets: Iterable[str]) -> None:
        """Give these a place from now on: what comes next is written down for them, before anybody serves them."""
        known = {name for name, _ in await self.log.cursors(self._meta)}
        missing = sorted(set(targets) - known)
        if not missing:
            return

        async def work(tx: Transaction) -> None:
            for target in missing:
                await self.set_subscribed(tx, target, subscribed=True)

        await self._meta.transact(work)

    async def behind(self, target: str) -> int:
        """How many requests a target has not been through."""
        place = await self.log.cursor(self._meta, target)
        # One that was given a place in an empty log stands before the first number there is.
        return 0 if place is None else max(0, await self.log.last_seq(self._meta) - max(place, FIRST_REQUEST - 1))

    async def trim(self) -> Mapping[str, int]:
        """Remove what everybody has, and what is too much; by target, how many requests it will not be sent."""
        first = await self.log.first_seq(self._meta)
        if not first:
            return {}
        lost = await self._give_up(first)
        places = [seq for _, seq in await self.log.cursors(self._meta)]
        if not places or min(places) >= first:
            for _ in range(_ROUNDS):
                if not await self.log.trim(occurred_before_ms=_EVERY_AGE):
                    break
        return lost

    async def _give_up(self, first: int) -> Mapping[str, int]:
        oldest = await self.log.last_seq(self._meta) - self._most_kept
        late = {
            name: lost for name, seq in await self.log.cursors(self._meta) if (lost := oldest - max(seq, first - 1)) > 0
        }
        if not late:
            return {}

        async def work(tx: Transaction) -> None:
            for name in late:
                await self.log.advance(tx, name, oldest)

        await self._meta.transact(work)
        return late
