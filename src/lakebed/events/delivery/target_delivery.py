"""Delivers the events of one target, behind its cursor in the outbox; and requests, behind that in their log.

A round sends what is new and what is due again, and writes what came of it: the cursor moves past all that was sent,
and in the same transaction what could not be sent goes to the store, with a copy of itself, to wait. So a crash loses
nothing; what a round had sent before it is sent again. Rounds are those of whoever holds the lease: another's is
refused when it commits.

What is delivered costs no write but the cursor's, one for a batch. A target that refuses everything has up to two
thousand events waiting; until some of them are delivered or given up, no more are read, and the outbox keeps them. So
it does for one that is found to be down, at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from random import Random
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import NotFound
from lakebed.meta.held_lease import HeldLease
from lakebed.meta.leases import Leases
from lakebed.meta.outbox import OutboxEntry
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.tasks import retry_delay_seconds

from ..forms import parse_form, render
from ..ids import EventIds
from ..targets.seam import EventMessage, EventTarget
from . import rows
from .circuit_breaker import CircuitBreaker
from .model import DeliveryState, TargetRecord, delivery_from
from .ordering import OutgoingEvent, group_by_ordering_key
from .outbox_reader import Batch
from .queues import DeliveryQueue
from .sending import FailedEvent, SendCallbacks, SendResult, SendSlots, send_groups

MOST_WAITING: Final = 1000
MOST_RETRIES: Final = 200
"""Events of a round that are tried again."""
ROUND_SECONDS: Final = 5.0
"""After that a round begins nothing new: a slow target must not keep the cursor from moving."""

_CURSOR_REST_MS: Final = 5_000
"""How often the cursor moves past events that are not asked for."""

_SHORTEST_SECONDS: Final = 0.01
_GATHERING_SECONDS: Final = 0.1
"""Rest behind a round that had sent all there was. Each round syncs the log and moves the cursor, whatever it sends,
and PUTs wait for both: on a busy server hundreds of events share that, instead of the few of the last moment."""

ConfirmLease = Callable[[Transaction], Awaitable[None]]
"""Raises Fenced unless the transaction is that of whoever delivers now."""


class DeliveryRound(NamedTuple):
    """What one round came to."""

    delivered: int = 0
    failed: int = 0
    dead_lettered: int = 0
    skipped: int = 0
    """Events that were read and not asked for."""
    more: bool = False
    """Whether there may be more to do."""
    is_level: bool = False
    """Whether that can only be what has come meanwhile."""
    is_held: bool = False
    """Whether nothing new is read for now: so much waits, or the target is down."""
    next_due_ms: int | None = None
    """When something is to be tried again, if something is."""


class _Waiting(NamedTuple):
    seq: int
    ordering_key: str
    due_ms: int


class TargetDelivery:
    """Serves one target from one log."""

    def __init__(
        self,
        record: TargetRecord,
        target: EventTarget,
        queue: DeliveryQueue,
        meta: MetaStore,
        clock: Clock,
        random: Random,
        confirm: ConfirmLease,
        slots: SendSlots,
        *,
        region: str,
        ids: EventIds,
        max_attempts: int,
    ) -> None:
        self._record = record
        self._target = target
        self._slots = slots
        self._queue = queue
        self._meta = meta
        self._clock = clock
        self._random = random
        self._confirm = confirm
        self._region = region
        self._ids = ids
        self._max_attempts = max_attempts
        # Apart: some events that are refused again and again must not keep new ones from being tried.
        self._breaker_new = CircuitBreaker()
        self._breaker_retries = CircuitBreaker()
        self._read_seq: int | None = None
        """Up to where events were read; None until it is known where the cursor stands."""
        self._cursor_seq = 0
        """Up to where they are done with, as the store has it."""
        self._moved_ms = 0
        self._is_ending = False

    def finish(self) -> None:
        """Begin nothing new: rounds end with what is under way, and write down what came of it."""
        self._is_ending = True

    async def step(self) -> DeliveryRound:
        """One round of both. Raises Fenced, NotFound when the target is gone, and what stores raise."""
        again, new = await self.send_retries(), await self.send_new()
        return DeliveryRound(
            again.delivered + new.delivered,
            again.failed + new.failed,
            again.dead_lettered + new.dead_lettered,
            new.skipped,
            again.more or new.more,
        )

    async def wait_until_due(self, done: DeliveryRound, longest_seconds: float) -> None:
        """Wait until something may be due again."""
        if not done.more:
            left_ms = longest_seconds * 1000 if done.next_due_ms is None else done.next_due_ms - self._clock.now_ms()
            await asyncio.sleep(min(longest_seconds, max(_SHORTEST_SECONDS, left_ms / 1000)))

    async def wait_for_event(self, done: DeliveryRound, longest_seconds: float) -> None:
        """Wait until there may be something new to send."""
        if done.is_held:
            # There is, and nothing can be done about it yet.
            await asyncio.sleep(longest_seconds)
        elif done.is_level:
            await asyncio.sleep(min(longest_seconds, _GATHERING_SECONDS))
        elif not done.more:
            await self._queue.log.wait_for_event(self._read_seq or 0, longest_seconds)

    async def _waiting(self) -> list[_Waiting]:
        numbers = self._queue.numbers
        return [
            _Waiting(*row) for row in await self._meta.rows(rows.WAITING, self._record.id, numbers.start, numbers.stop)
        ]

    # -- what waits ---------------------------------------------------------------------------------------------

    async def send_retries(self) -> DeliveryRound:
        """Try again the lanes that are due, each up to its first failure. Raises as `step`."""
        now_ms = self._clock.now_ms()
        waiting = await self._waiting()
        if not waiting or not self._breaker_retries.start_round(now_ms):
            return DeliveryRound()
        groups = [list(group) for _, group in groupby(waiting, lambda one: one.ordering_key)]
        groups.sort(key=lambda group: group[0].due_ms)
        due = [group for group in groups if group[0].due_ms <= now_ms]
        if self._breaker_retries.is_open:
            # Whichever is due first, though it may not be due yet: it is the target that is asked about.
            due = groups[:1]
        outcome = await self._send(await self._loaded(due), self._breaker_retries)
        dead_lettered = 0
        if outcome.delivered or outcome.failed:
            dead_lettered = await self._meta.transact(lambda tx: self._settle_retries(tx, outcome))
        later = [group[0].due_ms for group in groups if group[0].due_ms > now_ms]
        return DeliveryRound(
            len(outcome.delivered),
            len(outcome.failed),
            dead_lettered,
            more=bool(outcome.delivered or dead_lettered),
            next_due_ms=min(later, default=now_ms + 1000 if outcome.failed else None),
        )

    async def _loaded(self, groups: Iterable[Sequence[_Waiting]]) -> list[list[OutgoingEvent]]:
        """The events of some lanes, in order; of many, the first."""
        found: list[list[OutgoingEvent]] = []
        room = MOST_RETRIES
        for group in groups:
            loaded: list[OutgoingEvent] = []
            for one in group[:room]:
                row = await self._meta.row(rows.DELIVERY, self._record.id, one.seq)
                if row is not None:
                    delivery = delivery_from(row)
                    loaded.append(OutgoingEvent(delivery.entry, one.ordering_key, delivery.rule, delivery.attempts))
            room -= len(loaded)
            found.append(loaded)
            if room <= 0:
                break
        return found

    async def _settle_retries(self, tx: Transaction, outcome: SendResult) -> int:
        await self._check(tx)
        dead_lettered = 0
        for seq in outcome.delivered:
            await tx.run(rows.DELIVERED, self._record.id, seq)
        now_ms = self._clock.now_ms()
        for failed in outcome.failed:
            state, attempts, due_ms = self._verdict(failed, now_ms)
            dead_lettered += state is DeliveryState.DEAD
            await tx.run(
                rows.FAILED,
                state.value,
                attempts,
                due_ms,
                failed.why,
                now_ms,
                self._record.id,
                failed.one.entry.seq,
            )
        return dead_lettered

    def _verdict(self, failed: FailedEvent, now_ms: int) -> tuple[DeliveryState, int, int]:
        """What becomes of an event that failed, how often it was tried, and when it is tried next."""
        attempts = failed.one.attempts + 1
        is_dead = failed.is_final or attempts >= self._max_attempts
        due_ms = now_ms + round(retry_delay_seconds(attempts, self._random.random()) * 1000)
        return DeliveryState.DEAD if is_dead else DeliveryState.WAITING, attempts, due_ms

    # -- what is new --------------------------------------------------------------------------------------------

    async def send_new(self) -> DeliveryRound:
        """Send what was not read yet, but for what has to wait behind something of its lane. Raises as `step`."""
        if self._read_seq is None:
            self._read_seq = await self._queue.log.cursor(self._meta, self._queue.cursor)
            self._cursor_seq = self._read_seq or 0
        if self._read_seq is None:
            raise self._gone()
        if not self._breaker_new.start_round(self._clock.now_ms()):
            return DeliveryRound(is_held=True)
        waiting = await self._waiting()
        if len(waiting) >= MOST_WAITING:
            return DeliveryRound(is_held=True)
        batch = await self._queue.feed.after(self._read_seq)
        if not batch.entries:
            if self._read_seq > self._cursor_seq:
                await self._move(self._read_seq, SendResult(), [])
            return DeliveryRound()
        groups, behind = group_by_ordering_key(self._wanted(batch), {one.ordering_key for one in waiting})
        outcome = await self._send(list(groups.values()), self._breaker_new)
        seq, waits = consumed(batch.last_seq, outcome, behind)
        if seq is None:
            return DeliveryRound(is_held=True)
        dead_lettered = await self._move(seq, outcome, waits)
        skipped = 0
        if not outcome.untried:
            skipped = len(batch.entries) - sum(map(len, groups.values())) - len(behind)
        is_level = not batch.has_followers and not outcome.untried
        return DeliveryRound(
            len(outcome.delivered), len(outcome.failed), dead_lettered, skipped, more=True, is_level=is_level
        )

    def _wanted(self, batch: Batch) -> Iterator[tuple[OutboxEntry, str]]:
        """What it is to be sent, once each, with the rule that asks for it if one does."""
        me, matches = self._record.id, self._queue.matches
        for entry, rules in batch.pairs():
            rule = rules.get(me)
            if rule is not None:
                yield entry, rule
            elif matches(entry.event):
                yield entry, ""

    async def _move(self, seq: int, outcome: SendResult, waits: Sequence[OutgoingEvent]) -> int:
        """Move the cursor to a place; what was not delivered up to there waits, or was given up: how many."""
        now_ms = self._clock.now_ms()
        is_idle = not (outcome.delivered or outcome.failed or waits)
        if is_idle and now_ms - self._moved_ms < _CURSOR_REST_MS:
            self._read_seq = seq
            return 0

        async def work(tx: Transaction) -> int:
            await self._check(tx)
            dead_lettered = 0
            for failed in outcome.failed:
                state, attempts, due_ms = self._verdict(failed, now_ms)
                dead_lettered += state is DeliveryState.DEAD
                await self._add(tx, failed.one, state, attempts, due_ms, failed.why, now_ms)
            for one in waits:
                await self._add(tx, one, DeliveryState.WAITING, 0, now_ms, "", now_ms)
            await self._queue.log.advance(tx, self._queue.cursor, seq)
            return dead_lettered

        dead_lettered = await self._meta.transact(work)
        self._read_seq = self._cursor_seq = seq
        self._moved_ms = now_ms
        return dead_lettered

    async def _add(
        self,
        tx: Transaction,
        one: OutgoingEvent,
        state: DeliveryState,
        attempts: int,
        due_ms: int,
        why: str,
        now_ms: int,
    ) -> None:
        event = one.entry.event
        await tx.run(
            rows.ADD,
            self._record.id,
            one.entry.seq,
            one.ordering_key,
            event.kind,
            event.subject,
            event.payload,
            event.occurred_ms,
            event.operation,
            one.rule,
            state.value,
            attempts,
            due_ms,
            why,
            now_ms,
        )

    # -- both ---------------------------------------------------------------------------------------------------

    async def _send(self, groups: Sequence[Sequence[OutgoingEvent]], breaker: CircuitBreaker) -> SendResult:
        """Send these lanes; if the target is taken to be down, one of them, to see."""
        end = self._clock.monotonic() + ROUND_SECONDS
        was_down, had_lasted = breaker.is_open, breaker.is_long_open
        tried, rest = (groups[:1], groups[1:]) if was_down else (groups, ())

        def may_send() -> bool:
            return not self._is_ending and breaker.may_send() and self._clock.monotonic() < end

        def answered() -> None:
            self._breaker_new.record_success()
            self._breaker_retries.record_success()

        def failed() -> None:
            breaker.record_failure(self._clock.now_ms(), self._random.random())

        outcome = await send_groups(
            self._target, tried, self._render, SendCallbacks(may_send, answered, failed), self._slots
        )
        outcome.untried.extend(chain.from_iterable(rest))
        if had_lasted and not breaker.is_open:
            # What waits was put off for as long as it was down, and need not wait any longer.
            now_ms = self._clock.now_ms()
            await self._meta.transact(lambda tx: tx.run(rows.ALL_DUE, now_ms, self._record.id, now_ms))
        return outcome

    def _render(self, one: OutgoingEvent) -> EventMessage:
        queue = self._queue
        message = render(one.entry, parse_form(queue.form_for(one.rule)), one.rule, region=self._region, ids=self._ids)
        proof = "" if queue.prove is None else queue.prove(message.id)
        return replace(message, target=self._record.id, proof=proof)

    async def _check(self, tx: Transaction) -> None:
        await self._confirm(tx)
        if await self._queue.log.cursor(tx, self._queue.cursor) is None:
            raise self._gone()

    def _gone(self) -> NotFound:
        return NotFound(f"no such target. target={self._record.id}")


def consumed(
    last_seq: int, outcome: SendResult, behind: Sequence[OutgoingEvent]
) -> tuple[int | None, Sequence[OutgoingEvent]]:
    """Up to where a batch is done with, and what of that has to wait; None if nothing of it was begun.

    What comes after the last event that was tried stays where it is: it is read again.
    """
    waits = [*behind, *outcome.behind]
    if not outcome.untried:
        return last_seq, waits
    tried = outcome.last_tried
    if tried is None:
        return None, ()
    return tried, [one for one in chain(waits, outcome.untried) if one.entry.seq < tried]


def confirmed(leases: Leases, held: HeldLease) -> ConfirmLease:
    """Confirms the lease inside a transaction."""

    async def confirm(tx: Transaction) -> None:
        await leases.check(tx, held.lease)

    return confirm
