"""Reads the outbox for all target deliveries: deliveries at the same position share one read and one match of rules.

Only the newest batch is cached. Slower deliveries read for themselves.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lakebed.meta.outbox import Outbox, OutboxEntry

from ..matching import Matcher

BATCH: Final = 1000
"""Events per read. After a crash, up to one batch is sent again."""


class Batch(NamedTuple):
    """Consecutive events after a sequence number, each with the targets that bucket rules name."""

    after: int
    entries: Sequence[OutboxEntry] = ()
    rules: Sequence[Mapping[str, str]] = ()
    is_full: bool = False
    """Whether the batch has the maximum size, so that more events may follow."""

    @property
    def last_seq(self) -> int:
        """The last event, or `after` for an empty batch."""
        return self.entries[-1].seq if self.entries else self.after

    def rest_after(self, seq: int) -> Batch:
        """The part of the batch after a sequence number."""
        start = bisect_right(self.entries, seq, key=lambda entry: entry.seq)
        return self if not start else self._replace(after=seq, entries=self.entries[start:], rules=self.rules[start:])

    def pairs(self) -> Iterator[tuple[OutboxEntry, Mapping[str, str]]]:
        """Events with the targets that rules name for them."""
        return zip(self.entries, self.rules, strict=True)


class OutboxReader:
    """Shared reads of one log."""

    def __init__(self, outbox: Outbox, matcher: Matcher, *, batch: int = BATCH) -> None:
        self._outbox = outbox
        self._matcher = matcher
        self._batch = batch
        self._newest = Batch(0)
        self._reading: dict[int, asyncio.Task[Batch]] = {}

    async def after(self, seq: int) -> Batch:
        """The next durable events after a sequence number, oldest first."""
        newest = self._newest
        if newest.after <= seq < newest.last_seq:
            return newest.rest_after(seq)
        reading = self._reading.get(seq)
        if reading is None:
            reading = self._reading[seq] = asyncio.create_task(self._read(seq), name=f"events after {seq}")
            reading.add_done_callback(lambda done: self._forget(seq, done))
        # Shielded: cancelling one reader must not cancel the shared read.
        return await asyncio.shield(reading)

    async def _read(self, seq: int) -> Batch:
        entries = await self._outbox.read_durable(seq, self._batch)
        rules = await self._matcher.matches(entries) if entries else ()
        batch = Batch(seq, entries, rules, is_full=len(entries) == self._batch)
        if entries and seq >= self._newest.after:
            self._newest = batch
        return batch

    def _forget(self, seq: int, done: asyncio.Task[Batch]) -> None:
        del self._reading[seq]
        if not done.cancelled():
            done.exception()  # retrieved, in case all readers were cancelled
