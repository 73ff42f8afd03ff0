"""Targets that are served by hand, on every kind of metadata store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import LakebedError, Unavailable
from lakebed.events.delivery import (
    DeliveryCounts,
    EventDispatcher,
    RequestLog,
    TargetBacklog,
    TargetOrigin,
    TargetRecord,
    TargetRecords,
    TargetService,
    TargetSpec,
    parse_subscription,
)
from lakebed.events.delivery.records import PURPOSE
from lakebed.events.delivery.target_delivery import TargetDelivery
from lakebed.events.live.listeners import ListenerRegistry
from lakebed.events.matching import Matcher
from lakebed.events.requests import RequestEntry, event_of_request
from lakebed.events.rules import RuleMatcher
from lakebed.events.targets.registry import TargetTypes
from lakebed.events.targets.seam import EventMessage, TargetType
from lakebed.events.targets.webhook import webhook_type
from lakebed.governance.credentials.vault import MasterKeys, Vault
from lakebed.meta.outbox import OutboxEvent
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from tests.events.made import IDS
from tests.fixtures.memory_target import NAME, Mailbox, MemorySettings, MemoryTarget
from tests.fixtures.postgres import postgres_dsn, postgres_server
from tests.meta.conftest import address
from tests.objects.stores import ROOT, opened_store

__all__ = ["address", "postgres_dsn", "postgres_server"]


@dataclass
class Receiver:
    """Has what targets were sent, each in a box of its own; refuses what it was told to."""

    refuses: Callable[[str], bool] = lambda subject: False
    boxes: dict[str, Mailbox] = field(default_factory=dict)

    def box(self, place: str = "r") -> Mailbox:
        """What one of the targets has."""
        if place not in self.boxes:
            self.boxes[place] = Mailbox()
            self.boxes[place].failure = self._failure
        return self.boxes[place]

    @property
    def kind(self) -> TargetType[MemorySettings]:
        return TargetType(NAME, MemorySettings, lambda configured: MemoryTarget(self.box(configured.place)))

    @property
    def subjects(self) -> list[str]:
        """Of what arrived at the usual one."""
        return [message.key for message in self.box().got]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Who has got what."""
        return [(place, message.key) for place, box in self.boxes.items() for message in box.got]

    def _failure(self, message: EventMessage) -> LakebedError | None:
        return Unavailable("answered 500") if self.refuses(message.key) else None


@dataclass
class Counts:
    """An observer that remembers."""

    tallies: list[tuple[str, DeliveryCounts]] = field(default_factory=list)
    standings: dict[str, TargetBacklog] = field(default_factory=dict)

    def count(self, target: str, tally: DeliveryCounts) -> None:
        self.tallies.append((target, tally))

    def measure(self, target: str, standing: TargetBacklog) -> None:
        self.standings[target] = standing

    @property
    def delivered(self) -> int:
        return sum(tally.delivered for _, tally in self.tallies)


@dataclass
class Office:
    """Everything about targets of one process."""

    object_context: ObjectContext
    clock: ManualClock
    receiver: Receiver
    records: TargetRecords
    targets: TargetService
    dispatcher: EventDispatcher
    listeners: ListenerRegistry
    requests: RequestLog

    async def tell(self, *subjects: str, kind: str = "TableCommitted", operation: str = "", table: str = "") -> None:
        """Have something happen."""
        payload = msgspec.msgpack.encode({"id": table} if table else {})

        async def work(tx: Transaction) -> None:
            for subject in subjects:
                event = OutboxEvent(kind, subject, payload, self.clock.now_ms(), operation)
                await self.object_context.outbox.append(tx, event)

        await self.object_context.meta.transact(work)

    async def ask(self, *request_ids: str) -> None:
        """Have requests come, and be written down."""

        async def work(tx: Transaction) -> None:
            for request_id in request_ids:
                told = RequestEntry(edge="s3", api="GetObject", request_id=request_id, status=200)
                await self.requests.log.append(tx, event_of_request(told, self.clock.now_ms()))

        await self.object_context.meta.transact(work)

    async def put(self, name: str = "r", kinds: Sequence[str] = ("TableCommitted",), *, requests: bool = False) -> None:
        """Add a target in memory."""
        await self.targets.put(ROOT, name, NAME, TargetSpec({"place": name}, kinds=kinds, requests=requests))

    async def counts(self, name: str = "r") -> tuple[int, int]:
        """What waits for a target, and what was given up."""
        status = await self.targets.get(ROOT, name, NAME)
        return status.waiting, status.dead

    async def delivery(self, name: str = "r") -> TargetDelivery:
        """Somebody who serves a target with events, with the lease that it takes."""
        return (await self.deliveries_of(name))[0]

    async def deliveries_of(self, name: str = "r") -> Sequence[TargetDelivery]:
        """Who serve it with whatever it asks for."""
        assert await self.dispatcher._held.acquire()
        found = await self.records.find(self.object_context.meta, name, NAME)
        assert found is not None
        return self.dispatcher.deliveries_of(found, self.receiver.kind.make(MemorySettings(place=name)))

    async def drain(self, delivery: TargetDelivery) -> None:
        """Rounds until there is nothing to do at once."""
        while (await delivery.step()).more:
            pass


def a_target(name: str = "r", *kinds: str, requests: bool = False) -> TargetRecord:
    """A target of the settings."""
    wanted = parse_subscription(kinds or ("*",), requests=requests)
    return TargetRecord(name, NAME, MemorySettings(place=name), wanted, origin=TargetOrigin.SETTINGS)


def open_office(
    object_context: ObjectContext,
    clock: ManualClock,
    receiver: Receiver,
    *configured: TargetRecord,
    holder: str = "one",
    matcher: Matcher | None = None,
    max_entries: int = 1000,
) -> Office:
    """One process on the store."""
    master = MasterKeys({"first": b"1" * 32}, active="first")
    kinds = TargetTypes([receiver.kind, webhook_type(clock, timeout_seconds=1, allow_http=False)])
    listeners = ListenerRegistry(object_context.meta, clock, holder)
    records = TargetRecords(object_context.meta, Vault(master, PURPOSE), kinds, {one.id: one for one in configured})
    requests = RequestLog(object_context.meta, max_entries=max_entries)
    dispatcher = EventDispatcher(
        object_context.meta,
        object_context.outbox,
        clock,
        records,
        kinds,
        matcher or RuleMatcher(object_context.meta),
        listeners,
        holder,
        Random(1),
        requests,
        lambda message_id: f"proof of {message_id}",
        region=object_context.region,
        ids=IDS,
        max_attempts=3,
    )
    targets = TargetService(object_context, records, kinds, requests, listeners)
    return Office(object_context, clock, receiver, records, targets, dispatcher, listeners, requests)


@pytest.fixture
async def object_context(address: str, tmp_path: Path) -> AsyncIterator[ObjectContext]:
    async with opened_store(address, "memory", tmp_path, ManualClock()) as store:
        yield store.object_context


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def office(object_context: ObjectContext, receiver: Receiver) -> Office:
    """An office without targets of the settings."""
    clock = object_context.clock
    assert isinstance(clock, ManualClock)
    return open_office(object_context, clock, receiver)
