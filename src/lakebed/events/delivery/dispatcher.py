"""Runs the deliveries of all targets, in one process of all that share a store.

Whoever holds the lease serves each target in a task of its own, so that none waits for another. Targets that come, go
or change are noticed by looking now and then, whichever process they were changed in.
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
from .target_delivery import DeliveryRound, TargetDelivery, confirmed

log = logging.getLogger("lakebed.events")

LEASE: Final = "targets"
LEASE_SECONDS: Final = 20.0
"""How long events wait after the process that delivers them was killed."""

DEAD_KEPT_MS: Final = 30 * 86_400_000
MOST_DEAD: Final = 10_000
"""Dead letters of a target, of either log; older ones make room."""

_LOOK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 1.0
_ENDING_SECONDS: Final = 3.0
"""How long an attempt that is under way is waited for when nothing more is to be sent."""

_FORGET_MS: Final = 3_600_000
_MEASURE_MS: Final = 5_000


class DeliveryCounts(NamedTuple):
    """What was done for a target since the last one."""

    delivered: int
    failed: int
    dead_lettered: int
    skipped: int
    lost: int = 0
    """Requests that were kept for it for as long as there was room."""


class TargetBacklog(NamedTuple):
    """How far a target's deliveries have come."""

    behind: int
    """Events that it has not been through, asked for or not."""
    waiting: int
    dead: int
    in_flight: int = 0
    """Events that are being sent at this moment."""


NO_BACKLOG: Final = TargetBacklog(0, 0, 0)


class DeliveryObserver(Protocol):
    """Who counts deliveries."""

    def count(self, target: str, tally: DeliveryCounts) -> None:
        """Something was done for a target."""
        ...

    def measure(self, target: str, standing: TargetBacklog) -> None:
        """How a target stands now; `NO_BACKLOG` when it is no longer for this process to tell."""
        ...


class _Served(NamedTuple):
    record: TargetRecord
    task: asyncio.Task[None]


class EventDispatcher:
    """Delivers while it holds the lease. One in each process; one of them works."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        records: TargetRecords,
        kinds: TargetTypes,
        matcher: Matcher,
        interests: ListenerRegistry,
        holder: str,
        random: Random,
        requests: RequestLog,
        prove: LoopProof,
        *,
        region: str,
        ids: EventIds,
        max_attempts: int,
    ) -> None:
        """`holder` is the lease's: whoever delivers under it next takes the place of this one at once."""
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._records = records
        self._kinds = kinds
        self._feed = OutboxReader(outbox, matcher)
        self._requests = requests
        self._requests_feed = OutboxReader(requests.log, NoBucketRules())
        self._prove = prove
        self._interests = interests
        self._leases = Leases(meta, clock)
        self._held = HeldLease(meta, self._leases, clock, LEASE, holder, LEASE_SECONDS)
        self._random = random
        self._region = region
        self._ids = ids
        self._max_attempts = max_attempts
        self._served: dict[str, _Served] = {}
        self._slots: dict[str, SendSlots] = {}
        self._measured: set[str] = set()
        self._forgot_ms = 0
        self._measured_ms = 0

    async def run(self, observer: DeliveryObserver) -> None:
        """Wait for the lease, and deliver while it is held. Raises what a look at the targets raises."""
        keeper = asyncio.create_task(self._held.keep_renewed())
        try:
            while True:
                if await self._held.acquire():
                    await self.refresh(observer)
                    await asyncio.sleep(_LOOK_SECONDS)
                else:
                    await self._rest(observer)
                    await asyncio.sleep(LEASE_SECONDS / 4)
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            await self._rest(observer)
            await self._held.release()

    async def refresh(self, observer: DeliveryObserver) -> None:
        """Serve those who are there now, and nobody else. For whoever holds the lease."""
        present = {one.id: one for one in await self._records.all()}
        changed = [name for name, served in self._served.items() if present.get(name) != served.record]
        ended = [name for name, served in self._served.items() if served.task.done()]
        await self._stop({*changed, *ended})
        await self._settle_cursors(present)
        # Of those who are paused too: what happens meanwhile is kept for them.
        wishes = (selection for record in present.values() for selection in record.subscription.selections)
        self._interests.set_target_masks(map(read_event_mask, wishes))
        for name, record in present.items():
            if name not in self._served and not record.is_paused:
                task = asyncio.create_task(self._serve(record, observer), name=f"target {name}")
                self._served[name] = _Served(record, task)
        await self._forget(present)
        await self._trim_requests(observer)
        await self._measure(present, observer)

    def deliveries_of(self, record: TargetRecord, target: EventTarget) -> Sequence[TargetDelivery]:
        """Who serve a target under this process's lease: with events, and with requests if it asks for these."""
        queues = [queue_of_events(record, self._outbox, self._feed)]
        if record.subscription.requests:
            queues.append(queue_of_requests(record, self._requests.log, self._requests_feed, self._prove))
        # One for both: as many as may be under way to the target are so whatever they are.
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
            confirmed(self._leases, self._held),
            slots,
            region=self._region,
            ids=self._ids,
            max_attempts=self._max_attempts,
        )

    async def _serve(self, record: TargetRecord, observer: DeliveryObserver) -> None:
        """What is new and what is tried again do not wait for each other: an attempt may take long."""
        target = await self._made(record)
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

    async def _made(self, record: TargetRecord) -> EventTarget:
        """The target, ready to be sent to; tried until it is."""
        kind = self._kinds.find(record.type)
        while True:
            try:
                # Those of the API were prepared when they were added.
                if kind.prepare is not None and record.origin is TargetOrigin.SETTINGS:
                    await kind.prepare(record.settings)
                return kind.make(record.settings)
            except Exception as error:
                log.warning("a target cannot be set up; it is tried again", extra=_facts(record), exc_info=error)
            await asyncio.sleep(_PAUSE_SECONDS)

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
                done = await _whole(counted(), delivery)
            except Fenced:
                self._held.mark_lost()
                return
            except NotFound:
                # Whatever else serves it ends too; if it is there after all, it is served anew.
                raise
            except LakebedError as error:
                log.warning("events could not be delivered; it is tried again", extra=_facts(record), exc_info=error)
                await asyncio.sleep(_PAUSE_SECONDS)
            except Exception:
                # A mistake of ours must not end the deliveries for the life of the process.
                log.exception("the delivery of events crashed; it is tried again", extra=_facts(record))
                await asyncio.sleep(_PAUSE_SECONDS)
            await wait(done, _LOOK_SECONDS)

    async def _settle_cursors(self, present: Mapping[str, TargetRecord]) -> None:
        """Give those of the settings a place in the outbox, and take it from those whom the settings name no more.

        A new one begins at the end. Those of the API have theirs from when they were made to when they are removed.
        """
        outbox = self._outbox
        known = {name for cursor, _ in await outbox.cursors(self._meta) if (name := target_of(cursor))}
        missing, left = present.keys() - known, known - present.keys()
        asking = {name for name, record in present.items() if record.subscription.requests}
        unsettled = asking ^ {name for name, _ in await self._requests.log.cursors(self._meta)}
        if not missing and not left and not unsettled:
            return

        async def work(tx: Transaction) -> None:
            await self._leases.check(tx, self._held.lease)
            # As it is inside the transaction: one may just have been made, or removed, by the API.
            stored = {target_id(*row) for row in await tx.rows(rows.IDS)}
            last_seq = await outbox.last_seq(tx)
            for name in missing:
                if name in stored or name in self._records.configured:
                    await outbox.open_cursor(tx, present[name].cursor, at_seq=last_seq)
            for name in left - stored:
                await drop_deliveries(outbox, tx, name)
            who_ask = {target_id(*row) for row in await tx.rows(rows.WHO_ASK_FOR_REQUESTS)}
            for name in unsettled:
                configured = self._records.configured.get(name)
                subscribed = name in who_ask if configured is None else configured.subscription.requests
                await self._requests.set_subscribed(tx, name, subscribed=subscribed)

        await self._meta.transact(work)

    async def _forget(self, present: Iterable[str]) -> None:
        """Remove dead letters that are too old, or too many."""
        now_ms = self._clock.now_ms()
        if now_ms - self._forgot_ms < _FORGET_MS:
            return
        self._forgot_ms = now_ms

        async def work(tx: Transaction) -> None:
            await tx.run(rows.FORGET_DEAD, now_ms - DEAD_KEPT_MS)
            for name in present:
                # Of each log: requests, of which there are many, must not make events give way.
                for first, end in ((EVENTS.start, EVENTS.stop), (REQUESTS.start, REQUESTS.stop)):
                    await tx.run(rows.FORGET_MANY_DEAD, name, first, name, first, end, MOST_DEAD)

        await self._meta.transact(work)

    async def _trim_requests(self, observer: DeliveryObserver) -> None:
        for name, lost in (await self._requests.trim()).items():
            log.warning("a target lost requests: it is too far behind", extra={"target": name, "lost": lost})
            observer.count(name, DeliveryCounts(0, 0, 0, 0, lost))

    async def _measure(self, present: Mapping[str, TargetRecord], observer: DeliveryObserver) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._measured_ms < _MEASURE_MS:
            return
        self._measured_ms = now_ms
        places = {name: seq for cursor, seq in await self._outbox.cursors(self._meta) if (name := target_of(cursor))}
        counts = {(name, state): count for name, state, count in await self._meta.rows(rows.ALL_COUNTS)}
        last_seq = await self._outbox.last_seq(self._meta)
        for name in present:
            standing = TargetBacklog(
                max(0, last_seq - places.get(name, last_seq)) + await self._requests.behind(name),
                counts.get((name, DeliveryState.WAITING.value), 0),
                counts.get((name, DeliveryState.DEAD.value), 0),
                self._slots[name].taken if name in self._slots else 0,
            )
            observer.measure(name, standing)
        for name in self._measured - present.keys():
            observer.measure(name, NO_BACKLOG)
        self._measured = set(present)

    async def _rest(self, observer: DeliveryObserver) -> None:
        """Leave it to others."""
        await self._stop(list(self._served))
        self._interests.set_target_masks(())
        for name in self._measured:
            observer.measure(name, NO_BACKLOG)
        self._measured = set()
        self._measured_ms = 0

    async def _stop(self, names: Iterable[str]) -> None:
        tasks = [self._served.pop(name).task for name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _whole(round_: Coroutine[None, None, DeliveryRound], delivery: TargetDelivery) -> DeliveryRound:
    """A round, to its end: cut off, it would not write down what was sent, which would be sent again.

    Who is cancelled meanwhile begins nothing new, and has a moment for what is under way.
    """
    in_flight = asyncio.create_task(round_)
    try:
        return await asyncio.shield(in_flight)
    except asyncio.CancelledError:
        delivery.finish()
        await asyncio.wait((in_flight,), timeout=_ENDING_SECONDS)
        in_flight.cancel()
        await asyncio.gather(in_flight, return_exceptions=True)
        raise


def _facts(record: TargetRecord) -> dict[str, str]:
    return {"target": record.id}
