"""Subscribers that are served by hand, on every kind of metadata store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.core.webhooks import new_secret
from lakebed.events.selection import parse_selection
from lakebed.events.webhooks import Dispatcher, Origin, Subscriber, Webhooks
from lakebed.events.webhooks.delivering import Courier
from lakebed.events.webhooks.subscribers import PURPOSE, Subscribers
from lakebed.governance.vault import MasterKeys, Vault
from lakebed.meta.leases import Leases
from lakebed.meta.outbox import Entry, Event
from lakebed.meta.seam import Transaction
from lakebed.objects.facilities import Facilities
from tests.fixtures.postgres import postgres_dsn, postgres_server
from tests.meta.conftest import address
from tests.objects.stores import opened_store

__all__ = ["address", "postgres_dsn", "postgres_server"]

URL = "https://receiver.example/events"


@dataclass
class Receiver:
    """Has what it was sent, in order; refuses what it was told to."""

    refuses: Callable[[Entry], bool] = lambda entry: False
    got: list[tuple[str, int]] = field(default_factory=list)
    """Subscribers and numbers of events."""
    tried: list[int] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    async def send(self, subscriber: Subscriber, entry: Entry) -> None:
        self.tried.append(entry.seq)
        if self.refuses(entry):
            raise Unavailable("answered 500")
        self.got.append((subscriber.name, entry.seq))
        self.entries.append(entry)

    @property
    def subjects(self) -> list[str]:
        """Of what arrived."""
        return [entry.event.subject for entry in self.entries]


@dataclass
class Office:
    """Everything about webhooks of one process."""

    facilities: Facilities
    clock: ManualClock
    receiver: Receiver
    subscribers: Subscribers
    webhooks: Webhooks
    dispatcher: Dispatcher

    async def tell(self, *subjects: str, kind: str = "TableCommitted", operation: str = "", table: str = "") -> None:
        """Have something happen."""
        payload = msgspec.msgpack.encode({"id": table} if table else {})

        async def work(tx: Transaction) -> None:
            for subject in subjects:
                event = Event(kind, subject, payload, self.clock.now_ms(), operation)
                await self.facilities.outbox.append(tx, event)

        await self.facilities.meta.transact(work)

    async def courier(self, name: str = "r") -> Courier:
        """Somebody who serves a subscriber, with the lease that it takes."""
        assert await self.dispatcher._held.take()
        found = await self.subscribers.find(self.facilities.meta, name)
        assert found is not None
        return self.dispatcher.courier(found)

    async def drain(self, courier: Courier) -> None:
        """Rounds until there is nothing to do at once."""
        while (await courier.step()).more:
            pass


def a_subscriber(name: str = "r", kinds: str = "*", url: str = URL) -> Subscriber:
    """A subscriber of the settings."""
    words = tuple(kinds.split(","))
    return Subscriber(name, url, new_secret(), words, parse_selection(kinds), Origin.SETTINGS)


def open_office(
    facilities: Facilities, clock: ManualClock, receiver: Receiver, *stated: Subscriber, holder: str = "one"
) -> Office:
    """One process on the store."""
    master = MasterKeys({"first": b"1" * 32}, active="first")
    subscribers = Subscribers(facilities.meta, Vault(master, PURPOSE), {one.name: one for one in stated})
    dispatcher = Dispatcher(
        facilities, subscribers, receiver, Leases(facilities.meta, clock), holder, Random(1), max_attempts=3
    )
    webhooks = Webhooks(facilities, subscribers, allow_http=False)
    return Office(facilities, clock, receiver, subscribers, webhooks, dispatcher)


@pytest.fixture
async def facilities(address: str, tmp_path: Path) -> AsyncIterator[Facilities]:
    async with opened_store(address, "memory", tmp_path, ManualClock()) as store:
        yield store.facilities


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def office(facilities: Facilities, receiver: Receiver) -> Office:
    """An office without subscribers of the settings."""
    clock = facilities.clock
    assert isinstance(clock, ManualClock)
    return open_office(facilities, clock, receiver)
