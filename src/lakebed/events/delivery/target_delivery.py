"""Delivers one log, the outbox or the request log, to one target.

A round sends new events or due retries and commits the outcome in one transaction: the cursor moves past the batch, and
failed events are stored as copies that wait for a retry. So a crash loses nothing; events that the interrupted round
had sent are sent again. The transaction checks the lease, which fences former holders.

Delivered events cost one write per batch, the cursor's. Up to two thousand events of a target wait for a retry; then no
more are read until some are delivered or become dead letters. Nothing is read while the circuit breaker is open either.
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

MAX_WAITING: Final = 1000
"""No new events are read while this many wait."""
MAX_RETRIES: Final = 200
"""Retries per round."""
ROUND_SECONDS: Final = 5.0
"""A round starts no attempts after this time, so that a slow target does not stop the cursor."""

_IDLE_CURSOR_MS: Final = 5_000
"""The interval of cursor updates past events that do not match."""

_MIN_WAIT_SECONDS: Final = 0.01
_BATCHING_SECONDS: Final = 0.1
"""Pause after a round that reached the end of the log. Each round syncs the log and moves the cursor, and PUTs wait for
both: with the pause, hundreds of events share a round on a busy server."""

LeaseCheck = Callable[[Transaction], Awaitable[None]]
"""Raises Fenced unless this process holds the lease in the transaction."""


class DeliveryRound(NamedTuple):
    """The outcome of a round."""

    delivered: int = 0
    failed: int = 0
    dead_lettered: int = 0
    skipped: int = 0
    """Events read that do not match."""
    more: bool = False
    """Whether another round may have work."""
    is_caught_up: bool = False
    """Whether the round reached the end of the log."""
    is_blocked: bool = False
    """Whether no events were read, because too many wait or the circuit breaker is open."""
    next_due_ms: int | None = None
    """The time of the next retry, if known."""


class _WaitingEvent(NamedTuple):
    seq: int
    ordering_key: str
    due_ms: int


class TargetDelivery:
    """Delivers one log to one target."""

    def __init__(
        self,
        record: TargetRecord,
        target: EventTarget,
        queue: DeliveryQueue,
        meta: MetaStore,
        clock: Clock,
        random: Random,
        check_lease: LeaseCheck,
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
        self._check_lease = check_lease
        self._region = region
        self._ids = ids
        self._max_attempts = max_attempts
        # Separate, so that events that fail again and again do not stop new events.
        self._breaker_new = CircuitBreaker()
        self._breaker_retries = CircuitBreaker()
        self._read_seq: int | None = None
        """The last event read; None until the cursor is loaded."""
        self._cursor_seq = 0
        """The stored cursor."""
        self._moved_ms = 0
        self._is_finishing = False

    def finish(self) -> None:
        """Start no more attempts. The current round commits the outcome of those in flight."""
        self._is_finishing = True

    async def step(self) -> DeliveryRound:
        """One round of retries and new events. Raises Fenced, NotFound for a deleted target, and store errors."""
        retries, new = await self.send_retries(), await self.send_new()
        return DeliveryRound(
            retries.delivered + new.delivered,
            retries.failed + new.failed,
            retries.dead_lettered + new.dead_lettered,
            new.skipped,
            retries.more or new.more,
        )

    async def wait_until_due(self, done: DeliveryRound, max_seconds: float) -> None:
        """Wait until a retry may be due."""
        if not done.more:
            left_ms = max_seconds * 1000 if done.next_due_ms is None else done.next_due_ms - self._clock.now_ms()
            await asyncio.sleep(min(max_seconds, max(_MIN_WAIT_SECONDS, left_ms / 1000)))

    async def wait_for_event(self, done: DeliveryRound, max_seconds: float) -> None:
        """Wait until a round may have new events to send."""
        if done.is_blocked:
            await asyncio.sleep(max_seconds)
        elif done.is_caught_up:
            await asyncio.sleep(min(max_seconds, _BATCHING_SECONDS))
        elif not done.more:
            await self._queue.log.wait_for_event(self._read_seq or 0, max_seconds)

    async def _waiting(self) -> list[_WaitingEvent]:
        seqs = self._queue.seqs
        found = await self._meta.rows(rows.WAITING, self._record.id, seqs.start, seqs.stop)
        return [_WaitingEvent(*row) for row in found]

    # -- retries ------------------------------------------------------------------------------------------------

    async def send_retries(self) -> DeliveryRound:
        """Retry the ordering keys that are due, each up to its first failure. Raises as `step`."""
        now_ms = self._clock.now_ms()
        waiting = await self._waiting()
        if not waiting or not self._breaker_retries.start_round(now_ms):
            return DeliveryRound()
        groups = [list(group) for _, group in groupby(waiting, lambda event: event.ordering_key)]
        groups.sort(key=lambda group: group[0].due_ms)
        due = [group for group in groups if group[0].due_ms <= now_ms]
        if self._breaker_retries.is_open:
            due = groups[:1]  # the probe, due or not
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

    async def _loaded(self, groups: Iterable[Sequence[_WaitingEvent]]) -> list[list[OutgoingEvent]]:
        """Load the events of some groups, up to `MAX_RETRIES`."""
        found: list[list[OutgoingEvent]] = []
        room = MAX_RETRIES
        for group in groups:
            loaded: list[OutgoingEvent] = []
            for event in group[:room]:
                row = await self._meta.row(rows.DELIVERY, self._record.id, event.seq)
                if row is not None:
                    delivery = delivery_from(row)
                    loaded.append(OutgoingEvent(delivery.entry, event.ordering_key, delivery.rule, delivery.attempts))
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
            state, attempts, due_ms = self._next_state(failed, now_ms)
            dead_lettered += state is DeliveryState.DEAD
            await tx.run(
                rows.FAILED,
                state.value,
                attempts,
                due_ms,
                failed.reason,
                now_ms,
                self._record.id,
                failed.event.entry.seq,
            )
        return dead_lettered

    def _next_state(self, failed: FailedEvent, now_ms: int) -> tuple[DeliveryState, int, int]:
        """The state, number of attempts and time of the next attempt after a failure."""
        attempts = failed.event.attempts + 1
        is_dead = failed.is_final or attempts >= self._max_attempts
        due_ms = now_ms + round(retry_delay_seconds(attempts, self._random.random()) * 1000)
        return DeliveryState.DEAD if is_dead else DeliveryState.WAITING, attempts, due_ms

    # -- new events ---------------------------------------------------------------------------------------------

    async def send_new(self) -> DeliveryRound:
        """Send unread events, except behind waiting events of their ordering keys. Raises as `step`."""
        if self._read_seq is None:
            self._read_seq = await self._queue.log.cursor(self._meta, self._queue.cursor)
            self._cursor_seq = self._read_seq or 0
        if self._read_seq is None:
            raise self._not_found()
        if not self._breaker_new.start_round(self._clock.now_ms()):
            return DeliveryRound(is_blocked=True)
        waiting = await self._waiting()
        if len(waiting) >= MAX_WAITING:
            return DeliveryRound(is_blocked=True)
        batch = await self._queue.reader.after(self._read_seq)
        if not batch.entries:
            if self._read_seq > self._cursor_seq:
                await self._move(self._read_seq, SendResult(), [])
            return DeliveryRound()
        groups, behind = group_by_ordering_key(self._matching(batch), {event.ordering_key for event in waiting})
        outcome = await self._send(list(groups.values()), self._breaker_new)
        seq, deferred = consumed(batch.last_seq, outcome, behind)
        if seq is None:
            return DeliveryRound(is_blocked=True)
        dead_lettered = await self._move(seq, outcome, deferred)
        skipped = 0
        if not outcome.untried:
            skipped = len(batch.entries) - sum(map(len, groups.values())) - len(behind)
        is_caught_up = not batch.is_full and not outcome.untried
        return DeliveryRound(
            len(outcome.delivered), len(outcome.failed), dead_lettered, skipped, more=True, is_caught_up=is_caught_up
        )

    def _matching(self, batch: Batch) -> Iterator[tuple[OutboxEntry, str]]:
        """The events for this target, each with the bucket rule that matched it, or empty."""
        target, matches = self._record.id, self._queue.matches
        for entry, rules in batch.pairs():
            rule = rules.get(target)
            if rule is not None:
                yield entry, rule
            elif matches(entry.event):
                yield entry, ""

    async def _move(self, seq: int, outcome: SendResult, deferred: Sequence[OutgoingEvent]) -> int:
        """Move the cursor, and store failed and deferred events; return the number of dead letters."""
        now_ms = self._clock.now_ms()
        is_idle = not (outcome.delivered or outcome.failed or deferred)
        if is_idle and now_ms - self._moved_ms < _IDLE_CURSOR_MS:
            self._read_seq = seq
            return 0

        async def work(tx: Transaction) -> int:
            await self._check(tx)
            dead_lettered = 0
            for failed in outcome.failed:
                state, attempts, due_ms = self._next_state(failed, now_ms)
                dead_lettered += state is DeliveryState.DEAD
                await self._add(tx, failed.event, state, attempts, due_ms, failed.reason, now_ms)
            for event in deferred:
                await self._add(tx, event, DeliveryState.WAITING, 0, now_ms, "", now_ms)
            await self._queue.log.advance(tx, self._queue.cursor, seq)
            return dead_lettered

        dead_lettered = await self._meta.transact(work)
        self._read_seq = self._cursor_seq = seq
        self._moved_ms = now_ms
        return dead_lettered

    async def _add(
        self,
        tx: Transaction,
        outgoing: OutgoingEvent,
        state: DeliveryState,
        attempts: int,
        due_ms: int,
        failure: str,
        now_ms: int,
    ) -> None:
        event = outgoing.entry.event
        await tx.run(
            rows.ADD,
            self._record.id,
            outgoing.entry.seq,
            outgoing.ordering_key,
            event.kind,
            event.subject,
            event.payload,
            event.occurred_ms,
            event.operation,
            outgoing.rule,
            state.value,
            attempts,
            due_ms,
            failure,
            now_ms,
        )

    # -- both ---------------------------------------------------------------------------------------------------

    async def _send(self, groups: Sequence[Sequence[OutgoingEvent]], breaker: CircuitBreaker) -> SendResult:
        """Send groups; if the circuit breaker is open, only the first, as a probe."""
        end = self._clock.monotonic() + ROUND_SECONDS
        was_open, was_long_open = breaker.is_open, breaker.is_long_open
        tried, rest = (groups[:1], groups[1:]) if was_open else (groups, ())

        def may_send() -> bool:
            return not self._is_finishing and breaker.may_send() and self._clock.monotonic() < end

        def on_response() -> None:
            self._breaker_new.record_success()
            self._breaker_retries.record_success()

        def on_failure() -> None:
            breaker.record_failure(self._clock.now_ms(), self._random.random())

        outcome = await send_groups(
            self._target, tried, self._render, SendCallbacks(may_send, on_response, on_failure), self._slots
        )
        outcome.untried.extend(chain.from_iterable(rest))
        if was_long_open and not breaker.is_open:
            # The target recovered: retry now, not at the times scheduled during the outage.
            now_ms = self._clock.now_ms()
            await self._meta.transact(lambda tx: tx.run(rows.ALL_DUE, now_ms, self._record.id, now_ms))
        return outcome

    def _render(self, event: OutgoingEvent) -> EventMessage:
        queue = self._queue
        form = parse_form(queue.form_for(event.rule))
        message = render(event.entry, form, event.rule, region=self._region, ids=self._ids)
        proof = "" if queue.prove is None else queue.prove(message.id)
        return replace(message, target=self._record.id, proof=proof)

    async def _check(self, tx: Transaction) -> None:
        await self._check_lease(tx)
        if await self._queue.log.cursor(tx, self._queue.cursor) is None:
            raise self._not_found()

    def _not_found(self) -> NotFound:
        return NotFound(f"no such target. target={self._record.id}")


def consumed(
    last_seq: int, outcome: SendResult, behind: Sequence[OutgoingEvent]
) -> tuple[int | None, Sequence[OutgoingEvent]]:
    """The new cursor after a batch, and the events up to it that must wait. None if no event was tried.

    Events after the last attempt are read again.
    """
    deferred = [*behind, *outcome.behind]
    if not outcome.untried:
        return last_seq, deferred
    tried = outcome.last_tried
    if tried is None:
        return None, ()
    return tried, [event for event in chain(deferred, outcome.untried) if event.entry.seq < tried]


def lease_check(leases: Leases, held: HeldLease) -> LeaseCheck:
    """Checks the held lease inside a transaction."""

    async def check(tx: Transaction) -> None:
        await leases.check(tx, held.lease)

    return check
