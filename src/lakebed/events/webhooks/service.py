"""Webhooks for those who look after them: made, shown, removed; what waits, what was given up, and that tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import NotFound, StateConflict
from lakebed.core.secrets import Secret
from lakebed.core.webhooks import check_secret, new_secret
from lakebed.meta.outbox import Event
from lakebed.meta.seam import Transaction
from lakebed.objects.facilities import Facilities
from lakebed.objects.model import Caller

from ..selection import parse_selection
from . import rows
from .model import Delivery, DeliveryState, Origin, Subscriber, check_name, check_url, delivery_from
from .subscribers import Subscribers, release_place

MANAGE_WEBHOOKS: Final = "lakebed:ManageWebhooks"
"""Whoever may has the server call others: not among the rights of any canned policy but the administrator's."""

MOST_SUBSCRIBERS: Final = 100


class WebhookEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of what happened to a webhook."""

    webhook: str
    url: str = ""
    redriven: int = 0
    principal: str = ""
    account: str = ""
    request_id: str = ""
    source_ip: str = ""


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """A subscriber, and how its deliveries stand."""

    subscriber: Subscriber
    after: int | None
    """The last event that it is done with, or that waits for it; None until it has been served for the first time."""
    last_seq: int
    waiting: int
    dead: int
    failure: str
    """Why the last attempt failed, of what is not delivered yet."""


class Put(NamedTuple):
    """A subscriber that was made or changed."""

    subscriber: Subscriber
    is_new: bool
    secret: Secret | None
    """Set when the secret was made here: it is shown this once."""


class Webhooks:
    """The use cases."""

    def __init__(self, facilities: Facilities, subscribers: Subscribers, *, allow_http: bool) -> None:
        self._f = facilities
        self._subscribers = subscribers
        self._allow_http = allow_http

    async def list(self, caller: Caller) -> Sequence[WebhookStatus]:
        """All of them, by name. Raises AccessDenied."""
        await self._authorize(caller)
        return [await self._status(one) for one in await self._subscribers.all()]

    async def get(self, caller: Caller, name: str) -> WebhookStatus:
        """One of them. Raises NotFound, AccessDenied."""
        await self._authorize(caller)
        return await self._status(await self._found(name))

    async def put(self, caller: Caller, name: str, url: str, kinds: Sequence[str], secret: Secret | None) -> Put:
        """Add a subscriber, or change one. It is told of what happens from now on, or goes on where it stood.

        Without a secret one is made, or the one it has kept. Raises InvalidInput, StateConflict for one of the
        settings, AccessDenied.
        """
        await self._authorize(caller)
        f = self._f
        check_name(name)
        check_url(url, allow_http=self._allow_http)
        words = ",".join(kinds)
        selection = parse_selection(words)
        if secret is not None:
            check_secret(secret)
        fresh = new_secret()
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> Put:
            self._refuse_stated(name)
            before = await self._subscribers.find(tx, name)
            if before is None and len(await tx.rows(rows.SUBSCRIBERS)) >= MOST_SUBSCRIBERS:
                raise StateConflict(f"there are {MOST_SUBSCRIBERS} webhooks already: remove one first")
            kept = secret or (fresh if before is None else before.secret)
            made = Subscriber(name, url, kept, tuple(kinds), selection, Origin.API)
            await tx.run(rows.PUT_SUBSCRIBER, name, url, self._subscribers.sealed(made), words, now_ms, now_ms)
            await f.outbox.open_cursor(tx, made.cursor, at_seq=await f.outbox.last_seq(tx))
            await self._tell(tx, "WebhookCreated" if before is None else "WebhookChanged", caller, name, url=url)
            return Put(made, before is None, fresh if before is None and secret is None else None)

        return await f.meta.transact(work)

    async def delete(self, caller: Caller, name: str) -> None:
        """Remove a subscriber, and what waits for it. Raises NotFound, StateConflict, AccessDenied."""
        await self._authorize(caller)

        async def work(tx: Transaction) -> None:
            self._refuse_stated(name)
            if not await tx.run(rows.DELETE_SUBSCRIBER, name):
                raise _no_such(name)
            await release_place(self._f.outbox, tx, name)
            await self._tell(tx, "WebhookDeleted", caller, name)

        await self._f.meta.transact(work)

    async def deliveries(
        self, caller: Caller, name: str, state: DeliveryState, *, after_seq: int, limit: int
    ) -> Sequence[Delivery]:
        """What waits for it, or was given up, oldest first. Raises NotFound, AccessDenied."""
        await self._authorize(caller)
        await self._found(name)
        found = await self._f.meta.rows(rows.DELIVERIES, name, state.value, after_seq, limit)
        return [delivery_from(row) for row in found]

    async def redrive(self, caller: Caller, name: str, seq: int | None) -> int:
        """Give what was given up all its attempts again, or one of it; how many. Raises NotFound, AccessDenied."""
        await self._authorize(caller)
        await self._found(name)
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> int:
            if seq is None:
                count = await tx.run(rows.REDRIVE_ALL, now_ms, now_ms, name)
            else:
                count = await tx.run(rows.REDRIVE_ONE, now_ms, now_ms, name, seq)
                if not count:
                    raise NotFound(f"no such dead letter. webhook={name} seq={seq}")
            if count:
                await self._tell(tx, "WebhookRedriven", caller, name, redriven=count)
            return count

        return await self._f.meta.transact(work)

    async def _authorize(self, caller: Caller) -> None:
        await self._f.authorize_account(caller, MANAGE_WEBHOOKS, "*")

    def _refuse_stated(self, name: str) -> None:
        if name in self._subscribers.stated:
            raise StateConflict(f"the webhook is one of the settings: change these. name={name}")

    async def _found(self, name: str) -> Subscriber:
        found = await self._subscribers.find(self._f.meta, name)
        if found is None:
            raise _no_such(name)
        return found

    async def _status(self, subscriber: Subscriber) -> WebhookStatus:
        f = self._f
        counts: dict[str, int] = dict(await f.meta.rows(rows.COUNTS, subscriber.name))
        failure = await f.meta.row(rows.LAST_FAILURE, subscriber.name)
        return WebhookStatus(
            subscriber,
            await f.outbox.cursor(f.meta, subscriber.cursor),
            await f.outbox.last_seq(f.meta),
            counts.get(DeliveryState.WAITING.value, 0),
            counts.get(DeliveryState.DEAD.value, 0),
            "" if failure is None else failure[0],
        )

    async def _tell(
        self, tx: Transaction, kind: str, caller: Caller, name: str, *, url: str = "", redriven: int = 0
    ) -> None:
        payload = WebhookEvent(
            webhook=name,
            # Without its query: some receivers are told apart by a token in it.
            url=url.partition("?")[0],
            redriven=redriven,
            principal=caller.principal.name,
            account=caller.principal.account,
            request_id=caller.request_id,
            source_ip=caller.source_ip,
        )
        event = Event(kind, name, msgspec.msgpack.encode(payload), self._f.clock.now_ms())
        await self._f.outbox.append(tx, event)


def _no_such(name: str) -> NotFound:
    return NotFound(f"no such webhook. name={name}")
