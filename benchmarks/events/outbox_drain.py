"""Fills the outbox and delivers it as a server does: with a lease and a durable cursor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from tests.fixtures.memory_target import MemorySettings

from lakebed.core.clock import SystemClock
from lakebed.core.ids import new_deployment_id
from lakebed.events.delivery.model import TargetRecord, parse_subscription
from lakebed.events.delivery.outbox_reader import OutboxReader
from lakebed.events.delivery.queues import queue_of_events
from lakebed.events.delivery.sending import SendSlots
from lakebed.events.delivery.target_delivery import TargetDelivery, lease_check
from lakebed.events.ids import EventIds
from lakebed.events.rules import RuleMatcher
from lakebed.events.targets.seam import EventMessage
from lakebed.meta.held_lease import HeldLease
from lakebed.meta.leases import Leases
from lakebed.meta.migrations import migrate
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.meta.sqlite.store import SqliteStore
from lakebed.objects.events import ObjectEvent

_FILL: Final = 5_000
_INSERT: Final = "INSERT INTO outbox (kind, subject, payload, occurred_ms, operation) VALUES (?, ?, ?, ?, '')"


@dataclass(frozen=True, slots=True)
class DrainResult:
    """The result of a delivery run."""

    events: int
    targets: int
    seconds: float
    processor_seconds: float
    resident_before: int
    resident_most: int
    """Resident bytes of this process: before the first delivery, and the highest value after it."""

    def describe(self) -> str:
        """Format as one line."""
        sent = self.events * self.targets
        mebibyte = 1024 * 1024
        return (
            f"{self.events:,} events to {self.targets} targets: {self.seconds:.1f} s, "
            f"{sent / self.seconds:,.0f} a second, {1e6 * self.processor_seconds / sent:.1f} µs of processor each; "
            f"resident {self.resident_before / mebibyte:.0f} MiB before, "
            f"{self.resident_most / mebibyte:.0f} MiB at most"
        )


class CountingTarget:
    """A target that accepts and counts events."""

    max_in_flight = 16

    def __init__(self) -> None:
        self.count = 0

    async def send(self, message: EventMessage) -> None:
        self.count += 1

    async def check(self) -> None:
        """Always reachable."""

    async def close(self) -> None:
        """Nothing to close."""


async def drain(folder: Path, *, events: int, targets: int) -> DrainResult:
    """Fill the outbox, then measure its delivery."""
    store, clock = await SqliteStore.open(folder / "meta.db"), SystemClock()
    try:
        await migrate(store)
        outbox, leases = Outbox(store), Leases(store, clock)
        held = HeldLease(store, leases, clock, "targets", "benchmark", 3600)
        assert await held.acquire()
        feed = OutboxReader(outbox, RuleMatcher(store))
        counters = [CountingTarget() for _ in range(targets)]
        records = [
            TargetRecord(f"t{number}", "memory", MemorySettings(), parse_subscription(["Object*"]))
            for number in range(targets)
        ]
        await _open_cursors(store, outbox, records)
        await _fill(store, events)
        deliveries = [
            TargetDelivery(
                record,
                counter,
                queue_of_events(record, outbox, feed),
                store,
                clock,
                Random(1),
                lease_check(leases, held),
                SendSlots(counter.max_in_flight),
                region="us-east-1",
                ids=EventIds(new_deployment_id()),
                max_attempts=3,
            )
            for record, counter in zip(records, counters, strict=True)
        ]
        before, most = _resident(), 0
        done = asyncio.Event()

        async def watch() -> None:
            nonlocal most
            while not done.is_set():
                most = max(most, _resident())
                await asyncio.sleep(0.1)

        watching = asyncio.create_task(watch())
        started, processor = time.perf_counter(), time.process_time()
        await asyncio.gather(*map(_deliver, deliveries))
        seconds, processor = time.perf_counter() - started, time.process_time() - processor
        done.set()
        await watching
        assert all(counter.count == events for counter in counters)
        return DrainResult(events, targets, seconds, processor, before, max(most, _resident()))
    finally:
        await store.close()


async def _deliver(delivery: TargetDelivery) -> None:
    while (await delivery.send_new()).more:
        pass


async def _open_cursors(store: MetaStore, outbox: Outbox, records: list[TargetRecord]) -> None:
    async def work(tx: Transaction) -> None:
        for record in records:
            await outbox.open_cursor(tx, record.cursor)

    await store.transact(work)


async def _fill(store: MetaStore, events: int) -> None:
    """Insert one event for each of so many objects."""
    for first in range(0, events, _FILL):

        async def work(tx: Transaction, first: int = first) -> None:
            for event in _events(range(first, min(first + _FILL, events))):
                await tx.run(_INSERT, event.kind, event.subject, event.payload, event.occurred_ms)

        await store.transact(work)


def _events(numbers: range) -> Iterator[OutboxEvent]:
    for number in numbers:
        key = f"2026/11/15/part-{number:08}.parquet"
        payload = ObjectEvent(
            bucket="landing",
            key=key,
            version="3c1e0f9a2b7d4c55",
            size=4096,
            etag="9a0364b9e99bb480dd25e1f0284c8555",
            content_type="application/octet-stream",
            metadata={"team": "ops"},
            principal="loader",
            account="000000000000",
            request_id=f"R{number:016X}",
            source_ip="10.0.0.7",
        )
        yield OutboxEvent(
            "ObjectCreated:Put", f"landing/{key}", msgspec.msgpack.encode(payload), 1_760_000_000_000 + number
        )


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
