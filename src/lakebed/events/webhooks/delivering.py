"""Delivers the events of one subscriber, behind its cursor in the outbox.

A round sends what is new and what is due again, and writes what came of it: the cursor moves past all that was sent,
and in the same transaction what could not be sent goes to the store, with a copy of itself, to wait. So a crash loses
nothing; what a round had sent before it is sent again. Rounds are those of whoever holds the lease: another's is
refused when it commits.

A subscriber that refuses everything has up to a thousand events waiting; until some of them are delivered or given up,
no more are read, and the outbox keeps them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import groupby
from random import Random
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError, NotFound
from lakebed.meta.holding import HeldLease
from lakebed.meta.leases import Leases
from lakebed.meta.outbox import Entry, Outbox
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.tasks import retry_delay_seconds

from . import rows
from .lanes import sort_into_lanes
from .model import DeliveryState, Subscriber, delivery_from
from .sending import Sender

MOST_WAITING: Final = 1000
BATCH: Final = 100
"""Events of a round: how many may be sent twice after a crash."""
AT_ONCE: Final = 4
"""Lanes of a subscriber that are sent at the same time."""
MAX_FAILURE_CHARS: Final = 500

_CURSOR_REST_MS: Final = 5_000
"""How often the cursor moves past events that are not asked for."""

_SHORTEST_SECONDS: Final = 0.01

ConfirmLease = Callable[[Transaction], Awaitable[None]]
"""Raises Fenced unless the transaction is that of whoever delivers now."""


class Round(NamedTuple):
    """What one round came to."""

    delivered: int = 0
    failed: int = 0
    given_up: int = 0
    more: bool = False
    """Whether there is more to do at once."""
    is_full: bool = False
    """Whether so much waits that nothing new is read."""
    next_due_ms: int | None = None
    """When something is to be tried again, if something is."""


class _Failed(NamedTuple):
    """An event that was tried and not delivered."""

    entry: Entry
    lane: str
    attempts: int
    why: str


class _Waiting(NamedTuple):
    seq: int
    lane: str
    due_ms: int


class Courier:
    """Serves one subscriber."""

    def __init__(
        self,
        subscriber: Subscriber,
        sender: Sender,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        random: Random,
        confirm: ConfirmLease,
        *,
        max_attempts: int,
    ) -> None:
        self._subscriber = subscriber
        self._sender = sender
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._random = random
        self._confirm = confirm
        self._max_attempts = max_attempts
        self._read_seq: int | None = None
        """Up to where events were read; None until it is known where the cursor stands."""
        self._cursor_seq = 0
        """Up to where they are done with, as the store has it."""
        self._moved_ms = 0

    async def step(self) -> Round:
        """One round of both. Raises Fenced, NotFound when the subscriber is gone, and what stores raise."""
        again, new = await self.send_again(), await self.send_new()
        return Round(
            again.delivered + new.delivered,
            again.failed + new.failed,
            again.given_up + new.given_up,
            again.more or new.more,
        )

    async def wait_until_due(self, done: Round, longest_seconds: float) -> None:
        """Wait until something may be due again."""
        if not done.more:
            left_ms = longest_seconds * 1000 if done.next_due_ms is None else done.next_due_ms - self._clock.now_ms()
            await asyncio.sleep(min(longest_seconds, max(_SHORTEST_SECONDS, left_ms / 1000)))

    async def wait_for_news(self, done: Round, longest_seconds: float) -> None:
        """Wait until there may be something new to send."""
        if done.is_full:
            # There is, and nothing can be done about it yet.
            await asyncio.sleep(longest_seconds)
        elif not done.more:
            await self._outbox.wait_for_news(self._read_seq or 0, longest_seconds)

    async def _waiting(self) -> list[_Waiting]:
        return [_Waiting(*row) for row in await self._meta.rows(rows.WAITING, self._subscriber.name)]

    # -- what waits ---------------------------------------------------------------------------------------------

    async def send_again(self) -> Round:
        """Try again what is due: of each lane the first. Raises as `step`."""
        waiting = await self._waiting()
        if not waiting:
            return Round()
        now_ms = self._clock.now_ms()
        heads = [next(of_lane) for _, of_lane in groupby(waiting, lambda one: one.lane)]
        due = sorted((one for one in heads if one.due_ms <= now_ms), key=lambda one: one.due_ms)[:BATCH]
        delivered: list[int] = []
        failed: list[_Failed] = []

        async def try_again(one: _Waiting) -> None:
            row = await self._meta.row(rows.DELIVERY, self._subscriber.name, one.seq)
            if row is None:
                return
            delivery = delivery_from(row)
            why = await self._send(delivery.entry)
            if why is None:
                delivered.append(one.seq)
            else:
                failed.append(_Failed(delivery.entry, one.lane, delivery.attempts + 1, why))

        await _together(try_again(one) for one in due)
        given_up = 0
        if delivered or failed:
            given_up = await self._meta.transact(lambda tx: self._settle(tx, delivered, failed))
        later = [one.due_ms for one in heads if one.due_ms > now_ms]
        return Round(
            len(delivered),
            len(failed),
            given_up,
            # The next of their lanes can go at once.
            more=bool(delivered or given_up),
            next_due_ms=min(later, default=now_ms + 1000 if failed else None),
        )

    async def _settle(self, tx: Transaction, delivered: Sequence[int], failed: Sequence[_Failed]) -> int:
        await self._check(tx)
        given_up = 0
        for seq in delivered:
            await tx.run(rows.DELIVERED, self._subscriber.name, seq)
        for one in failed:
            given_up += await self._put_off(tx, one)
        return given_up

    async def _put_off(self, tx: Transaction, one: _Failed) -> bool:
        """Let it wait for its next attempt, or give it up; whether it was given up."""
        now_ms = self._clock.now_ms()
        is_dead = one.attempts >= self._max_attempts
        state = DeliveryState.DEAD if is_dead else DeliveryState.WAITING
        due_ms = now_ms + round(retry_delay_seconds(one.attempts, self._random.random()) * 1000)
        await tx.run(
            rows.FAILED, state.value, one.attempts, due_ms, one.why, now_ms, self._subscriber.name, one.entry.seq
        )
        return is_dead

    # -- what is new --------------------------------------------------------------------------------------------

    async def send_new(self) -> Round:
        """Send what was not read yet, but for what has to wait behind something of its lane. Raises as `step`."""
        if self._read_seq is None:
            self._read_seq = await self._outbox.cursor(self._meta, self._subscriber.cursor)
            self._cursor_seq = self._read_seq or 0
        if self._read_seq is None:
            raise self._gone()
        waiting = await self._waiting()
        if len(waiting) >= MOST_WAITING:
            return Round(is_full=True)
        entries = await self._outbox.read_durable(self._read_seq, BATCH)
        if not entries:
            if self._read_seq > self._cursor_seq:
                await self._move(self._read_seq, [], [], is_idle=True)
            return Round()
        sorted_out = sort_into_lanes(entries, self._subscriber.selection, {one.lane for one in waiting})
        failed, left, delivered = await self._send_lanes(sorted_out.lanes)
        behind = [*sorted_out.behind, *left]
        is_idle = not (delivered or failed or behind)
        given_up = await self._move(entries[-1].seq, failed, behind, is_idle=is_idle)
        return Round(delivered, len(failed), given_up, more=len(entries) == BATCH)

    async def _send_lanes(
        self, lanes: Mapping[str, Sequence[Entry]]
    ) -> tuple[list[_Failed], list[tuple[str, Entry]], int]:
        """Send each lane up to its first failure: what failed, what is behind that, and how many were delivered."""
        failed: list[_Failed] = []
        left: list[tuple[str, Entry]] = []
        delivered = 0

        async def send_lane(lane: str, entries: Sequence[Entry]) -> None:
            nonlocal delivered
            for position, entry in enumerate(entries):
                why = await self._send(entry)
                if why is not None:
                    failed.append(_Failed(entry, lane, 1, why))
                    left.extend((lane, later) for later in entries[position + 1 :])
                    return
                delivered += 1

        await _together(send_lane(lane, entries) for lane, entries in lanes.items())
        return failed, left, delivered

    async def _move(
        self, seq: int, failed: Sequence[_Failed], behind: Sequence[tuple[str, Entry]], *, is_idle: bool
    ) -> int:
        """Move the cursor past what was read; what was not delivered of it waits, or was given up: how many."""
        now_ms = self._clock.now_ms()
        if is_idle and now_ms - self._moved_ms < _CURSOR_REST_MS:
            self._read_seq = seq
            return 0

        async def work(tx: Transaction) -> int:
            await self._check(tx)
            given_up = 0
            for one in failed:
                await self._wait_for(tx, one.lane, one.entry, now_ms)
                given_up += await self._put_off(tx, one)
            for lane, entry in behind:
                await self._wait_for(tx, lane, entry, now_ms)
            await self._outbox.advance(tx, self._subscriber.cursor, seq)
            return given_up

        given_up = await self._meta.transact(work)
        self._read_seq = self._cursor_seq = seq
        self._moved_ms = now_ms
        return given_up

    async def _wait_for(self, tx: Transaction, lane: str, entry: Entry, now_ms: int) -> None:
        event = entry.event
        await tx.run(
            rows.ADD_WAITING,
            self._subscriber.name,
            entry.seq,
            lane,
            event.kind,
            event.subject,
            event.payload,
            event.occurred_ms,
            event.operation,
            0,
            now_ms,
            "",
            now_ms,
        )

    # -- both ---------------------------------------------------------------------------------------------------

    async def _send(self, entry: Entry) -> str | None:
        """Why it could not be delivered; None if it was."""
        try:
            await self._sender.send(self._subscriber, entry)
        except LakebedError as error:
            return (str(error) or type(error).__name__)[:MAX_FAILURE_CHARS]
        return None

    async def _check(self, tx: Transaction) -> None:
        await self._confirm(tx)
        if await self._outbox.cursor(tx, self._subscriber.cursor) is None:
            raise self._gone()

    def _gone(self) -> NotFound:
        return NotFound(f"no such webhook. name={self._subscriber.name}")


async def _together(sending: Iterable[Coroutine[None, None, None]]) -> None:
    """Run these, a few at a time. Nothing of them is left running if one raises."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(one: Coroutine[None, None, None]) -> None:
        async with turns:
            await one

    try:
        async with asyncio.TaskGroup() as group:
            for one in sending:
                group.create_task(in_turn(one))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several


def confirmed(leases: Leases, held: HeldLease) -> ConfirmLease:
    """Confirms the lease inside a transaction."""

    async def confirm(tx: Transaction) -> None:
        await leases.check(tx, held.lease)

    return confirm
