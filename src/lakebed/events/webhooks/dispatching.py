"""Runs the deliveries of all subscribers, in one process of all that share a store.

Whoever holds the lease serves each subscriber in a task of its own, so that none waits for another. Subscribers that
come, go or change are noticed by looking now and then, whichever process they were changed in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Final, NamedTuple

from lakebed.core.errors import Fenced, LakebedError, NotFound
from lakebed.meta.holding import HeldLease
from lakebed.meta.leases import Leases
from lakebed.meta.seam import Transaction
from lakebed.objects.facilities import Facilities

from . import rows
from .delivering import Courier, Round, confirmed
from .model import Subscriber, subscriber_of
from .sending import Sender
from .subscribers import Subscribers, release_place

log = logging.getLogger("lakebed.events")

LEASE: Final = "webhooks"
LEASE_SECONDS: Final = 20.0
"""How long events wait after the process that delivers them was killed."""

DEAD_KEPT_MS: Final = 30 * 86_400_000
MOST_DEAD: Final = 10_000
"""Dead letters of a subscriber; older ones make room."""

_LOOK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 1.0
_FORGET_MS: Final = 3_600_000


class Tally(NamedTuple):
    """What was done since the last one."""

    delivered: int
    failed: int
    given_up: int


class _Served(NamedTuple):
    subscriber: Subscriber
    task: asyncio.Task[None]


class Dispatcher:
    """Delivers while it holds the lease. One in each process; one of them works."""

    def __init__(
        self,
        facilities: Facilities,
        subscribers: Subscribers,
        sender: Sender,
        leases: Leases,
        holder: str,
        random: Random,
        *,
        max_attempts: int,
    ) -> None:
        self._f = facilities
        self._subscribers = subscribers
        self._sender = sender
        self._leases = leases
        self._held = HeldLease(facilities.meta, leases, facilities.clock, LEASE, holder, LEASE_SECONDS)
        self._random = random
        self._max_attempts = max_attempts
        self._served: dict[str, _Served] = {}
        self._forgot_ms = 0

    async def run(self, told: Callable[[Tally], None]) -> None:
        """Wait for the lease, and deliver while it is held. Raises what a look at the subscribers raises."""
        keeper = asyncio.create_task(self._held.keep())
        try:
            while True:
                if await self._held.take():
                    await self.look(told)
                    await asyncio.sleep(_LOOK_SECONDS)
                else:
                    await self._stop(list(self._served))
                    await asyncio.sleep(LEASE_SECONDS / 4)
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            await self._stop(list(self._served))
            await self._held.release()

    async def look(self, told: Callable[[Tally], None]) -> None:
        """Serve those who are there now, and nobody else. For whoever holds the lease."""
        present = {one.name: one for one in await self._subscribers.all()}
        changed = [name for name, served in self._served.items() if present.get(name) != served.subscriber]
        ended = [name for name, served in self._served.items() if served.task.done()]
        await self._stop({*changed, *ended})
        await self._settle_cursors(present)
        for name, subscriber in present.items():
            if name not in self._served:
                task = asyncio.create_task(self._serve(subscriber, told), name=f"webhook {name}")
                self._served[name] = _Served(subscriber, task)
        await self._forget(present)

    def courier(self, subscriber: Subscriber) -> Courier:
        """Somebody who serves a subscriber under this process's lease."""
        f = self._f
        return Courier(
            subscriber,
            self._sender,
            f.meta,
            f.outbox,
            f.clock,
            self._random,
            confirmed(self._leases, self._held),
            max_attempts=self._max_attempts,
        )

    async def _serve(self, subscriber: Subscriber, told: Callable[[Tally], None]) -> None:
        """What is new and what is tried again do not wait for each other: an attempt may take long."""
        courier = self.courier(subscriber)
        async with asyncio.TaskGroup() as group:
            for step, wait in (
                (courier.send_new, courier.wait_for_news),
                (courier.send_again, courier.wait_until_due),
            ):
                group.create_task(self._repeat(subscriber, step, wait, told))

    async def _repeat(
        self,
        subscriber: Subscriber,
        step: Callable[[], Awaitable[Round]],
        wait: Callable[[Round, float], Awaitable[None]],
        told: Callable[[Tally], None],
    ) -> None:
        facts = {"webhook": subscriber.name}
        while True:
            done = Round()
            try:
                done = await step()
            except Fenced:
                self._held.lose()
                return
            except NotFound:
                return
            except LakebedError as error:
                log.warning("events could not be delivered; it is tried again", extra=facts, exc_info=error)
                await asyncio.sleep(_PAUSE_SECONDS)
            except Exception:
                # A mistake of ours must not end the deliveries for the life of the process.
                log.exception("the delivery of events crashed; it is tried again", extra=facts)
                await asyncio.sleep(_PAUSE_SECONDS)
            told(Tally(done.delivered, done.failed, done.given_up))
            await wait(done, _LOOK_SECONDS)

    async def _settle_cursors(self, present: dict[str, Subscriber]) -> None:
        """Give those of the settings a place in the outbox, and take it from those whom the settings name no more.

        A new one begins at the end. Those of the API have theirs from when they were made to when they are removed.
        """
        outbox = self._f.outbox
        known = {name for cursor, _ in await outbox.cursors(self._f.meta) if (name := subscriber_of(cursor))}
        missing, left = present.keys() - known, known - present.keys()
        if not missing and not left:
            return

        async def work(tx: Transaction) -> None:
            await self._leases.check(tx, self._held.lease)
            # As it is inside the transaction: one may just have been made, or removed, by the API.
            stored = {row[0] for row in await tx.rows(rows.SUBSCRIBERS)}
            last_seq = await outbox.last_seq(tx)
            for name in missing:
                if name in stored or name in self._subscribers.stated:
                    await outbox.open_cursor(tx, present[name].cursor, at_seq=last_seq)
            for name in left - stored:
                await release_place(outbox, tx, name)

        await self._f.meta.transact(work)

    async def _forget(self, present: dict[str, Subscriber]) -> None:
        """Remove dead letters that are too old, or too many."""
        now_ms = self._f.clock.now_ms()
        if now_ms - self._forgot_ms < _FORGET_MS:
            return
        self._forgot_ms = now_ms

        async def work(tx: Transaction) -> None:
            await tx.run(rows.FORGET_DEAD, now_ms - DEAD_KEPT_MS)
            for name in present:
                await tx.run(rows.FORGET_MANY_DEAD, name, name, MOST_DEAD)

        await self._f.meta.transact(work)

    async def _stop(self, names: Iterable[str]) -> None:
        tasks = [self._served.pop(name).task for name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
