"""Delivers events to all targets, in the one process that holds the lease.

Each target has its own tasks, so that slow targets do not delay others. Changes of targets, by any process, are found
by polling.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, Protocol

from lakebed.core.clock import Clock
from lakebed.core.errors import Fenced, LakebedError, NotFound
from lakebed.meta.held_lease import HeldLease
from lakebed.meta.leases import Leases
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction

from ..ids import EventIds
from ..live.listeners import ListenerRegistry, read_event_mask
from ..matching import Matcher
from ..targets.registry import TargetTypes
from ..targets.seam import EventTarget
from . import rows
from .model import DeliveryState, TargetOrigin, TargetRecord, target_id, target_of
from .outbox_reader import OutboxReader
from .queues import EVENTS, REQUESTS, DeliveryQueue, LoopProof, NoBucketRules, queue_of_events, queue_of_requests
from .records import TargetRecords, drop_deliveries
from .request_log import RequestLog
from .sending import SendSlots
from .target_delivery import DeliveryRound, TargetDelivery, lease_check

log = logging.getLogger("lakebed.events")

LEASE: Final = "targets"
LEASE_SECONDS: Final = 20.0
"""After a crash of the delivering process, deliveries resume within this time."""

DEAD_LETTER_RETENTION_MS: Final = 30 * 86_400_000
MAX_DEAD_LETTERS: Final = 10_000
"""Per target and log; older dead letters are deleted."""

_POLL_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 1.0
_DRAIN_SECONDS: Final = 3.0
"""How long a stopping delivery waits for attempts in flight."""

_CLEANUP_MS: Final = 3_600_000
_MEASURE_MS: Final = 5_000


class DeliveryCounts(NamedTuple):
    """Outcomes of deliveries to a target since the previous report."""

    delivered: int
    failed: int
    dead_lettered: int
    skipped: int
    lost: int = 0
    """Requests deleted before delivery, because the request log was full."""


class TargetBacklog(NamedTuple):
    """A target's undelivered events."""

    behind: int
    """Events after the cursor, matching or not."""
    waiting: int
    dead: int
    in_flight: int = 0
    """Groups being sent."""


NO_BACKLOG: Final = TargetBacklog(0, 0, 0)


class DeliveryObserver(Protocol):
    """Receives the metrics of deliveries."""

    def count(self, target: str, counts: DeliveryCounts) -> None:
        """Add the outcomes of a round."""
        ...

    def measure(self, target: str, backlog: TargetBacklog) -> None:
        """Set the backlog; `NO_BACKLOG` once this process no longer serves the target."""
        ...


class _RunningTarget(NamedTuple):
    record: TargetRecord
    task: asyncio.Task[None]


class EventDispatcher:
    """Delivers while it holds the lease. Every process has one; one of them is active."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        records: TargetRecords,
        types: TargetTypes,
        matcher: Matcher,
        listeners: ListenerRegistry,
        holder: str,
        random: Random,
        requests: RequestLog,
        prove: LoopProof,
        *,
        region: str,
        ids: EventIds,
        max_attempts: int,
    ) -> None:
        """`holder` identifies this dispatcher in the lease: a successor with the same name takes over at once."""
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._records = records
        self._types = types
        self._events_reader = OutboxReader(outbox, matcher)
        self._requests = requests
        self._requests_reader = OutboxReader(requests.log, NoBucketRules())
        self._prove = prove
        self._listeners = listeners
        self._leases = Leases(meta, clock)
        self._held = HeldLease(meta, self._leases, clock, LEASE, holder, LEASE_SECONDS)
        self._random = random
        self._region = region
        self._ids = ids
        self._max_attempts = max_attempts
        self._running: dict[str, _RunningTarget] = {}
        self._slots: dict[str, SendSlots] = {}
        self._measured: set[str] = set()
        self._cleaned_ms = 0
        self._measured_ms = 0

    async def run(self, observer: DeliveryObserver) -> None:
        """Acquire the lease and deliver while it is held. Raises the errors of `refresh`."""
        keeper = asyncio.create_task(self._held.keep_renewed())
        try:
            while True:
                if await self._held.acquire():
                    await self.refresh(observer)
                    await asyncio.sleep(_POLL_SECONDS)
                else:
                    await self._stand_by(observer)
                    await asyncio.sleep(LEASE_SECONDS / 4)
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            await self._stand_by(observer)
            await self._held.release()

    async def refresh(self, observer: DeliveryObserver) -> None:
        """Start and stop deliveries to match the configured targets. Requires the lease."""
        records = {record.id: record for record in await self._records.all()}
        changed = [name for name, running in self._running.items() if records.get(name) != running.record]
        ended = [name for name, running in self._running.items() if running.task.done()]
        await self._stop({*changed, *ended})
        await self._reconcile_cursors(records)
        # Paused targets too: their events are kept until they resume.
        selections = (selection for record in records.values() for selection in record.subscription.selections)
        self._listeners.set_target_masks(map(read_event_mask, selections))
        for name, record in records.items():
            if name not in self._running and not record.is_paused:
                task = asyncio.create_task(self._serve(record, observer), name=f"target {name}")
                self._running[name] = _RunningTarget(record, task)
        await self._delete_dead_letters(records)
        await self._trim_requests(observer)
        await self._measure(records, observer)

    def deliveries_of(self, record: TargetRecord, target: EventTarget) -> Sequence[TargetDelivery]:
        """The deliveries to a target: events, and requests if it subscribes to them."""
        queues = [queue_of_events(record, self._outbox, self._events_reader)]
        if record.subscription.requests:
            queues.append(queue_of_requests(record, self._requests.log, self._requests_reader, self._prove))
        # Shared: the limit is per target.
        slots = self._slots[record.id] = SendSlots(target.max_in_flight)
        return [self._delivery(record, target, queue, slots) for queue in queues]

    def _delivery(
        self, record: TargetRecord, target: EventTarget, queue: DeliveryQueue, slots: SendSlots
    ) -> TargetDelivery:
        return TargetDelivery(
            record,
            target,
            queue,
            self._meta,
            self._clock,
            self._random,
            lease_check(self._leases, self._held),
            slots,
            region=self._region,
            ids=self._ids,
            max_attempts=self._max_attempts,
        )

    async def _serve(self, record: TargetRecord, observer: DeliveryObserver) -> None:
        """Deliver to a target. New events and retries run concurrently, since attempts can be slow."""
        target = await self._create(record)
        try:
            async with asyncio.TaskGroup() as group:
                for delivery in self.deliveries_of(record, target):
                    for step, wait in (
                        (delivery.send_new, delivery.wait_for_event),
                        (delivery.send_retries, delivery.wait_until_due),
                    ):
                        group.create_task(self._repeat(record, delivery, step, wait, observer))
        finally:
            self._slots.pop(record.id, None)
            await target.close()

    async def _create(self, record: TargetRecord) -> EventTarget:
        """Create the target, retrying until it succeeds."""
        type_ = self._types.find(record.type)
        while True:
            try:
                # Targets of the API were prepared when they were added.
                if type_.prepare is not None and record.origin is TargetOrigin.SETTINGS:
                    await type_.prepare(record.settings)
                return type_.make(record.settings)
            except Exception as error:
                log.warning("target setup failed, retrying", extra={"target": record.id}, exc_info=error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _repeat(
        self,
        record: TargetRecord,
        delivery: TargetDelivery,
        step: Callable[[], Awaitable[DeliveryRound]],
        wait: Callable[[DeliveryRound, float], Awaitable[None]],
        observer: DeliveryObserver,
    ) -> None:
        async def counted() -> DeliveryRound:
            done = await step()
            observer.count(record.id, DeliveryCounts(done.delivered, done.failed, done.dead_lettered, done.skipped))
            return done

        while True:
            done = DeliveryRound()
            try:
                done = await _complete(counted(), delivery)
            except Fenced:
                self._held.mark_lost()
                return
            except NotFound:
                raise  # ends all deliveries to the target; if it still exists, `refresh` restarts them
            except LakebedError as error:
                log.warning("event delivery failed, retrying", extra={"target": record.id}, exc_info=error)
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                # A bug must not stop deliveries for the life of the process.
                log.exception("event delivery crashed, retrying", extra={"target": record.id})
                await asyncio.sleep(_RETRY_SECONDS)
            await wait(done, _POLL_SECONDS)

    async def _reconcile_cursors(self, records: Mapping[str, TargetRecord]) -> None:
        """Create missing cursors at the end of the logs, and delete those of targets removed from the settings.

        Cursors of the API's targets are created and deleted with the targets.
        """
        outbox = self._outbox
        existing = {name for cursor, _ in await outbox.cursors(self._meta) if (name := target_of(cursor))}
        missing, surplus = records.keys() - existing, existing - records.keys()
        subscribers = {name for name, record in records.items() if record.subscription.requests}
        changed = subscribers ^ {name for name, _ in await self._requests.log.cursors(self._meta)}
        if not missing and not surplus and not changed:
            return

        async def work(tx: Transaction) -> None:
            await self._leases.check(tx, self._held.lease)
            # Read again in the transaction: the API may have added or removed targets since.
            stored = {target_id(*row) for row in await tx.rows(rows.IDS)}
            last_seq = await outbox.last_seq(tx)
            for name in missing:
                if name in stored or name in self._records.configured:
                    await outbox.open_cursor(tx, records[name].cursor, at_seq=last_seq)
            for name in surplus - stored:
                await drop_deliveries(outbox, tx, name)
            stored_subscribers = {target_id(*row) for row in await tx.rows(rows.REQUEST_SUBSCRIBERS)}
            for name in changed:
                configured = self._records.configured.get(name)
                subscribed = name in stored_subscribers if configured is None else configured.subscription.requests
                await self._requests.set_subscribed(tx, name, subscribed=subscribed)

        await self._meta.transact(work)

    async def _delete_dead_letters(self, targets: Iterable[str]) -> None:
        """Delete dead letters beyond their maximum age or number."""
        now_ms = self._clock.now_ms()
        if now_ms - self._cleaned_ms < _CLEANUP_MS:
            return
        self._cleaned_ms = now_ms

        async def work(tx: Transaction) -> None:
            await tx.run(rows.DELETE_OLD_DEAD, now_ms - DEAD_LETTER_RETENTION_MS)
            for name in targets:
                # Per log, so that many requests do not displace events.
                for first, end in ((EVENTS.start, EVENTS.stop), (REQUESTS.start, REQUESTS.stop)):
                    await tx.run(rows.DELETE_SURPLUS_DEAD, name, first, name, first, end, MAX_DEAD_LETTERS)

        await self._meta.transact(work)

    async def _trim_requests(self, observer: DeliveryObserver) -> None:
        for name, lost in (await self._requests.trim()).items():
            log.warning("target lost requests: too far behind", extra={"target": name, "lost": lost})
            observer.count(name, DeliveryCounts(0, 0, 0, 0, lost))

    async def _measure(self, records: Mapping[str, TargetRecord], observer: DeliveryObserver) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._measured_ms < _MEASURE_MS:
            return
        self._measured_ms = now_ms
        cursors = {name: seq for cursor, seq in await self._outbox.cursors(self._meta) if (name := target_of(cursor))}
        counts = {(name, state): count for name, state, count in await self._meta.rows(rows.ALL_COUNTS)}
        last_seq = await self._outbox.last_seq(self._meta)
        for name in records:
            backlog = TargetBacklog(
                max(0, last_seq - cursors.get(name, last_seq)) + await self._requests.behind(name),
                counts.get((name, DeliveryState.WAITING.value), 0),
                counts.get((name, DeliveryState.DEAD.value), 0),
                self._slots[name].taken if name in self._slots else 0,
            )
            observer.measure(name, backlog)
        for name in self._measured - records.keys():
            observer.measure(name, NO_BACKLOG)
        self._measured = set(records)

    async def _stand_by(self, observer: DeliveryObserver) -> None:
        """Stop all deliveries: another process may hold the lease."""
        await self._stop(list(self._running))
        self._listeners.set_target_masks(())
        for name in self._measured:
            observer.measure(name, NO_BACKLOG)
        self._measured = set()
        self._measured_ms = 0

    async def _stop(self, names: Iterable[str]) -> None:
        tasks = [self._running.pop(name).task for name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _complete(round_: Coroutine[None, None, DeliveryRound], delivery: TargetDelivery) -> DeliveryRound:
    """Run a round to its end. An interrupted round would not store its deliveries, and repeat them.

    On cancellation, the round starts no more attempts and has a short time for those in flight.
    """
    in_flight = asyncio.create_task(round_)
    try:
        return await asyncio.shield(in_flight)
    except asyncio.CancelledError:
        delivery.finish()
        await asyncio.wait((in_flight,), timeout=_DRAIN_SECONDS)
        in_flight.cancel()
        await asyncio.gather(in_flight, return_exceptions=True)
        raise
