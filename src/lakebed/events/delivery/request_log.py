"""The request log: cursors of subscribed targets, and retention.

A target that subscribes to requests has a cursor in the log. Without cursors nothing is written
(`events/live/listeners.py` checks). Entries that all cursors have passed are deleted at once. A target that is down or
paused must not fill the disk: beyond a number of requests it loses the oldest, which a log line and a metric report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lakebed.meta.outbox import FIRST_REQUEST, REQUESTS, Outbox
from lakebed.meta.seam import MetaStore, Transaction

from . import rows

MAX_ENTRIES: Final = 1_000_000
"""Requests retained for a target that does not accept them: about 1 GB."""

_TRIM_ROUNDS: Final = 50
_ANY_AGE: Final = 2**62


class RequestLog:
    """The request log of a deployment."""

    def __init__(self, meta: MetaStore, *, max_entries: int = MAX_ENTRIES) -> None:
        self._meta = meta
        self._max_entries = max_entries
        self.log = Outbox(meta, REQUESTS)

    async def set_subscribed(self, tx: Transaction, target: str, *, subscribed: bool) -> None:
        """Create a target's cursor at the end of the log, or delete it with its waiting requests. Idempotent."""
        if subscribed:
            await self.log.open_cursor(tx, target, at_seq=await self.log.last_seq(tx))
        else:
            await self.log.drop_cursor(tx, target)
            await tx.run(rows.DELETE_REQUESTS, target, FIRST_REQUEST)

    async def begin(self, targets: Iterable[str]) -> None:
        """Create missing cursors, so that requests are recorded before the first delivery."""
        known = {name for name, _ in await self.log.cursors(self._meta)}
        missing = sorted(set(targets) - known)
        if not missing:
            return

        async def work(tx: Transaction) -> None:
            for target in missing:
                await self.set_subscribed(tx, target, subscribed=True)

        await self._meta.transact(work)

    async def behind(self, target: str) -> int:
        """The number of requests after a target's cursor."""
        cursor = await self.log.cursor(self._meta, target)
        # A cursor in an empty log is before the first sequence number.
        return 0 if cursor is None else max(0, await self.log.last_seq(self._meta) - max(cursor, FIRST_REQUEST - 1))

    async def trim(self) -> Mapping[str, int]:
        """Delete consumed and surplus entries; return the number of lost requests by target."""
        first = await self.log.first_seq(self._meta)
        if not first:
            return {}
        lost = await self._skip_surplus(first)
        cursors = [seq for _, seq in await self.log.cursors(self._meta)]
        if not cursors or min(cursors) >= first:
            for _ in range(_TRIM_ROUNDS):
                if not await self.log.trim(occurred_before_ms=_ANY_AGE):
                    break
        return lost

    async def _skip_surplus(self, first: int) -> Mapping[str, int]:
        oldest = await self.log.last_seq(self._meta) - self._max_entries
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
