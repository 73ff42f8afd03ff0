"""Reads the outbox for all couriers: those that are level with each other share one read, and one look at the rules.

Held here is the newest batch and no other: whoever is behind it reads for itself.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.meta.outbox import Outbox, OutboxEntry

from ..matching import Matcher

BATCH: Final = 1000
"""Events of a read: how many may be sent twice after a crash."""


class Batch(NamedTuple):
    """All events behind a number up to the last of these, with the targets that bucket rules name for each."""

    after: int
    entries: Sequence[OutboxEntry] = ()
    rules: Sequence[Mapping[str, str]] = ()
    has_followers: bool = False
    """Whether there were more events than a batch takes."""

    @property
    def last_seq(self) -> int:
        """The last event, or where the batch begins if there is none."""
        return self.entries[-1].seq if self.entries else self.after

    def behind(self, seq: int) -> Batch:
        """What of it is behind a number in it."""
        start = bisect_right(self.entries, seq, key=lambda entry: entry.seq)
        return self if not start else self._replace(after=seq, entries=self.entries[start:], rules=self.rules[start:])

    def pairs(self) -> Iterator[tuple[OutboxEntry, Mapping[str, str]]]:
        """Events, each with who is named for it."""
        return zip(self.entries, self.rules, strict=True)


class OutboxReader:
    """The outbox as couriers read it."""

    def __init__(self, outbox: Outbox, matcher: Matcher, *, batch: int = BATCH) -> None:
        self._outbox = outbox
        self._matcher = matcher
        self._batch = batch
        self._newest = Batch(0)
        self._reading: dict[int, asyncio.Task[Batch]] = {}

    async def after(self, seq: int) -> Batch:
        """Some events behind a number, oldest first, that will still be there after a power loss."""
        newest = self._newest
        if newest.after <= seq < newest.last_seq:
            return newest.behind(seq)
        reading = self._reading.get(seq)
        if reading is None:
            reading = self._reading[seq] = asyncio.create_task(self._read(seq), name=f"events after {seq}")
            reading.add_done_callback(lambda done: self._forget(seq, done))
        # Whoever stops waiting must not take it from the others.
        return await asyncio.shield(reading)

    async def _read(self, seq: int) -> Batch:
        entries = await self._outbox.read_durable(seq, self._batch)
        rules = await self._matcher.matches(entries) if entries else ()
        batch = Batch(seq, entries, rules, has_followers=len(entries) == self._batch)
        if entries and seq >= self._newest.after:
            self._newest = batch
        return batch

    def _forget(self, seq: int, done: asyncio.Task[Batch]) -> None:
        del self._reading[seq]
        if not done.cancelled():
            # Seen, should nobody wait for it any more.
            done.exception()
