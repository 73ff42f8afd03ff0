"""A harness that runs deliveries step by step, on each metadata store."""

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
from tests.events.samples import IDS
from tests.fixtures.memory_target import NAME, Inbox, MemorySettings, MemoryTarget
from tests.fixtures.postgres import postgres_dsn, postgres_server
from tests.meta.conftest import address
from tests.objects.stores import ROOT, opened_store

__all__ = ["address", "postgres_dsn", "postgres_server"]


@dataclass
class FakeTargets:
    """In-memory targets by destination; `rejects` makes deliveries of subjects fail."""

    rejects: Callable[[str], bool] = lambda subject: False
    inboxes: dict[str, Inbox] = field(default_factory=dict)

    def inbox(self, destination: str = "r") -> Inbox:
        """The inbox of a destination."""
        if destination not in self.inboxes:
            self.inboxes[destination] = Inbox()
            self.inboxes[destination].failure = self._failure
        return self.inboxes[destination]

    @property
    def kind(self) -> TargetType[MemorySettings]:
        return TargetType(NAME, MemorySettings, lambda configured: MemoryTarget(self.inbox(configured.destination)))

    @property
    def subjects(self) -> list[str]:
        """Subjects received by the default target."""
        return [message.key for message in self.inbox().received]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Destinations with received subjects."""
        return [(destination, message.key) for destination, inbox in self.inboxes.items() for message in inbox.received]

    def _failure(self, message: EventMessage) -> LakebedError | None:
        return Unavailable("answered 500") if self.rejects(message.key) else None


@dataclass
class RecordingObserver:
    """An observer that records its calls."""

    counts: list[tuple[str, DeliveryCounts]] = field(default_factory=list)
    backlogs: dict[str, TargetBacklog] = field(default_factory=dict)

    def count(self, target: str, counts: DeliveryCounts) -> None:
        self.counts.append((target, counts))

    def measure(self, target: str, backlog: TargetBacklog) -> None:
        self.backlogs[target] = backlog

    @property
    def delivered(self) -> int:
        return sum(counts.delivered for _, counts in self.counts)


@dataclass
class DeliveryHarness:
    """The delivery components of one process."""

    object_context: ObjectContext
    clock: ManualClock
    fake_targets: FakeTargets
    records: TargetRecords
    targets: TargetService
    dispatcher: EventDispatcher
    listeners: ListenerRegistry
    requests: RequestLog

    async def emit(self, *subjects: str, kind: str = "TableCommitted", operation: str = "", table: str = "") -> None:
        """Append events to the outbox."""
        payload = msgspec.msgpack.encode({"id": table} if table else {})

        async def work(tx: Transaction) -> None:
            for subject in subjects:
                event = OutboxEvent(kind, subject, payload, self.clock.now_ms(), operation)
                await self.object_context.outbox.append(tx, event)

        await self.object_context.meta.transact(work)

    async def record_requests(self, *request_ids: str) -> None:
        """Append entries to the request log."""

        async def work(tx: Transaction) -> None:
            for request_id in request_ids:
                payload = RequestEntry(edge="s3", api="GetObject", request_id=request_id, status=200)
                await self.requests.log.append(tx, event_of_request(payload, self.clock.now_ms()))

        await self.object_context.meta.transact(work)

    async def put(self, name: str = "r", kinds: Sequence[str] = ("TableCommitted",), *, requests: bool = False) -> None:
        """Add an in-memory target."""
        await self.targets.put(ROOT, name, NAME, TargetSpec({"destination": name}, kinds=kinds, requests=requests))

    async def counts(self, name: str = "r") -> tuple[int, int]:
        """The numbers of waiting events and dead letters of a target."""
        status = await self.targets.get(ROOT, name, NAME)
        return status.waiting, status.dead

    async def delivery(self, name: str = "r") -> TargetDelivery:
        """Acquire the lease, and return the delivery of events to a target."""
        return (await self.deliveries_of(name))[0]

    async def deliveries_of(self, name: str = "r") -> Sequence[TargetDelivery]:
        """Acquire the lease, and return all deliveries to a target."""
        assert await self.dispatcher._held.acquire()
        found = await self.records.find(self.object_context.meta, name, NAME)
        assert found is not None
        return self.dispatcher.deliveries_of(found, self.fake_targets.kind.make(MemorySettings(destination=name)))

    async def drain(self, delivery: TargetDelivery) -> None:
        """Run rounds until none has more work."""
        while (await delivery.step()).more:
            pass


def a_target(name: str = "r", *kinds: str, requests: bool = False) -> TargetRecord:
    """A target from the settings."""
    subscription = parse_subscription(kinds or ("*",), requests=requests)
    return TargetRecord(name, NAME, MemorySettings(destination=name), subscription, origin=TargetOrigin.SETTINGS)


def open_harness(
    object_context: ObjectContext,
    clock: ManualClock,
    fake_targets: FakeTargets,
    *configured: TargetRecord,
    holder: str = "one",
    matcher: Matcher | None = None,
    max_entries: int = 1000,
) -> DeliveryHarness:
    """A harness for one process; `configured` are targets from its settings."""
    master = MasterKeys({"first": b"1" * 32}, active="first")
    kinds = TargetTypes([fake_targets.kind, webhook_type(clock, timeout_seconds=1, allow_http=False)])
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
    return DeliveryHarness(object_context, clock, fake_targets, records, targets, dispatcher, listeners, requests)


@pytest.fixture
async def object_context(address: str, tmp_path: Path) -> AsyncIterator[ObjectContext]:
    async with opened_store(address, "memory", tmp_path, ManualClock()) as store:
        yield store.object_context


@pytest.fixture
def fake_targets() -> FakeTargets:
    return FakeTargets()


@pytest.fixture
def harness(object_context: ObjectContext, fake_targets: FakeTargets) -> DeliveryHarness:
    """A harness without targets in the settings."""
    clock = object_context.clock
    assert isinstance(clock, ManualClock)
    return open_harness(object_context, clock, fake_targets)
