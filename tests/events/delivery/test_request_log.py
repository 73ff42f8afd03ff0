"""Delivery of the request log."""

from __future__ import annotations

import asyncio
import json

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidInput
from lakebed.events.delivery import DeliveryState, TargetSpec
from lakebed.events.targets.registry import TargetTypes
from lakebed.events.targets.seam import TargetType
from lakebed.meta.outbox import FIRST_REQUEST
from lakebed.objects.context import ObjectContext
from tests.events.samples import IDS
from tests.fixtures.memory_target import NAME, MemorySettings
from tests.objects.stores import ROOT

from .conftest import DeliveryHarness, FakeTargets, RecordingObserver, a_target, open_harness


async def serve(harness: DeliveryHarness, name: str = "r") -> None:
    for delivery in await harness.deliveries_of(name):
        await harness.drain(delivery)


def records_requests(harness: DeliveryHarness) -> bool:
    """Whether the process records requests."""
    return harness.listeners.has_request_subscribers


async def test_subscriber_to_requests_receives_audit_entries(harness: DeliveryHarness) -> None:
    await harness.put(kinds=["TableCommitted"], requests=True)
    await harness.record_requests("R1", "R2")
    await harness.emit("lake/ns/t")
    await serve(harness)
    assert sorted(harness.fake_targets.subjects) == ["R1", "R2", "lake/ns/t"]
    first = next(message for message in harness.fake_targets.inbox().received if message.key == "R1")
    assert (first.id, first.name) == (f"req_{IDS.deployment}_{FIRST_REQUEST}", "s3:GetObject")
    assert first.proof == f"proof of {first.id}"
    assert json.loads(first.body)["api"] == {
        "name": "GetObject",
        "statusCode": 200,
        "status": "OK",
        "rx": 0,
        "tx": 0,
        "timeToFirstByte": "0ns",
        "timeToFirstByteInNS": "0",
        "timeToResponse": "0ns",
        "timeToResponseInNS": "0",
    }
    event = next(message for message in harness.fake_targets.inbox().received if message.key == "lake/ns/t")
    assert (event.id, event.proof) == (IDS.cursor(2), ""), "events have no loop guard header"


async def test_target_without_subscription_receives_no_requests(harness: DeliveryHarness) -> None:
    await harness.put("r", requests=True)
    await harness.put("other", kinds=["*"])
    await harness.record_requests("R1")
    await serve(harness, "r")
    await serve(harness, "other")
    assert ("other", "R1") not in harness.fake_targets.pairs


async def test_failed_request_entry_is_retried_dead_lettered_and_redriven(
    harness: DeliveryHarness,
) -> None:
    await harness.put(requests=True)
    harness.fake_targets.rejects = lambda subject: subject == "R1"
    await harness.record_requests("R1", "R2")
    await serve(harness)
    assert harness.fake_targets.subjects == ["R2"], "request entries are independent"
    assert await harness.counts() == (1, 0)
    for _ in range(2):
        harness.clock.advance(3600)
        await serve(harness)
    assert await harness.counts() == (0, 1)
    (dead,) = await harness.targets.deliveries(ROOT, "r", NAME, DeliveryState.DEAD, after_seq=0, limit=10)
    assert (dead.entry.seq, dead.entry.event.subject) == (FIRST_REQUEST, "R1")
    harness.fake_targets.rejects = lambda subject: False
    assert await harness.targets.redrive(ROOT, "r", NAME, FIRST_REQUEST) == 1
    await serve(harness)
    assert harness.fake_targets.subjects == ["R2", "R1"]
    assert await harness.counts() == (0, 0)


async def test_waiting_requests_and_events_are_separate(harness: DeliveryHarness) -> None:
    await harness.put(requests=True)
    harness.fake_targets.rejects = lambda subject: True
    await harness.record_requests("R1")
    await harness.emit("lake/ns/t")
    await serve(harness)
    assert await harness.counts() == (2, 0)
    events, requests = await harness.deliveries_of()
    assert [event.seq for event in await events._waiting()] == [2]
    assert [event.seq for event in await requests._waiting()] == [FIRST_REQUEST]


async def test_subscription_change_applies_here_at_once_and_elsewhere_after_polling(
    harness: DeliveryHarness, object_context: ObjectContext, fake_targets: FakeTargets
) -> None:
    assert isinstance(object_context.clock, ManualClock)
    other = open_harness(object_context, object_context.clock, fake_targets, holder="two")
    await harness.put()
    assert not records_requests(harness)
    await harness.put(requests=True)
    assert records_requests(harness)
    assert not records_requests(other)
    await other.listeners.share()
    assert records_requests(other)
    await harness.put(requests=False)
    assert not records_requests(harness)
    await harness.put(requests=True)
    await harness.targets.delete(ROOT, "r", NAME)
    assert not records_requests(harness)


async def test_unsubscribing_deletes_waiting_requests(harness: DeliveryHarness) -> None:
    await harness.put(requests=True)
    harness.fake_targets.rejects = lambda subject: True
    await harness.record_requests("R1")
    await harness.emit("lake/ns/t")
    await serve(harness)
    await harness.put(requests=False)
    assert await harness.counts() == (1, 0), "the event still waits"
    await harness.put(requests=True)
    harness.fake_targets.rejects = lambda subject: False
    await harness.record_requests("R2")
    await serve(harness)
    assert "R1" not in harness.fake_targets.subjects
    assert "R2" in harness.fake_targets.subjects


async def test_requests_are_trimmed_once_all_targets_have_them(harness: DeliveryHarness) -> None:
    await harness.put("a", requests=True)
    await harness.put("b", requests=True)
    await harness.targets.pause(ROOT, "b", NAME, is_paused=True)
    await harness.record_requests("R1", "R2")
    await serve(harness, "a")
    assert await harness.requests.trim() == {}
    meta = harness.object_context.meta
    assert len(await harness.requests.log.read_after(meta, 0, 10)) == 2
    assert (await harness.targets.get(ROOT, "b", NAME)).requests_behind == 2
    await serve(harness, "b")
    assert (await harness.targets.get(ROOT, "b", NAME)).requests_behind == 0
    await harness.requests.trim()
    assert await harness.requests.log.read_after(meta, 0, 10) == []
    await harness.record_requests("R3")
    assert [event.seq for event in await harness.requests.log.read_after(meta, 0, 10)] == [FIRST_REQUEST + 2]


async def test_target_too_far_behind_loses_the_oldest_requests(
    object_context: ObjectContext, fake_targets: FakeTargets, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(object_context.clock, ManualClock)
    harness = open_harness(object_context, object_context.clock, fake_targets, max_entries=3)
    await harness.put(requests=True)
    await harness.targets.pause(ROOT, "r", NAME, is_paused=True)
    await harness.record_requests(*(f"R{number}" for number in range(10)))
    observer = RecordingObserver()
    assert await harness.dispatcher._held.acquire()
    await harness.dispatcher.refresh(observer)
    assert [(name, counts.lost) for name, counts in observer.counts] == [("r:memory", 7)]
    assert "target lost requests" in caplog.text
    await harness.dispatcher.refresh(observer)
    assert sum(counts.lost for _, counts in observer.counts) == 7
    await serve(harness)
    assert sorted(fake_targets.subjects) == ["R7", "R8", "R9"]


async def test_target_of_settings_receives_requests_from_startup(
    object_context: ObjectContext, fake_targets: FakeTargets
) -> None:
    assert isinstance(object_context.clock, ManualClock)
    harness = open_harness(
        object_context, object_context.clock, fake_targets, a_target("r", "TableCommitted", requests=True)
    )
    await harness.requests.begin(["r:memory"])
    await harness.listeners.refresh_request_subscribers()
    assert records_requests(harness)
    # Before the first refresh.
    await harness.record_requests("R1")
    assert await harness.dispatcher._held.acquire()
    observer = RecordingObserver()
    await harness.dispatcher.refresh(observer)
    async with asyncio.timeout(30):
        while fake_targets.subjects != ["R1"]:
            await asyncio.sleep(0)
    await harness.dispatcher._stand_by(observer)
    # The settings no longer have the target.
    after = open_harness(object_context, object_context.clock, fake_targets)
    await after.dispatcher._held.acquire()
    await after.dispatcher.refresh(RecordingObserver())
    await after.listeners.refresh_request_subscribers()
    assert not records_requests(after)


async def test_target_type_without_request_support_rejects_subscription(harness: DeliveryHarness) -> None:
    kind = TargetType(NAME, MemorySettings, harness.fake_targets.kind.make, takes_requests=False)
    harness.targets._types = TargetTypes([kind])
    with pytest.raises(InvalidInput, match="do not accept requests") as raised:
        await harness.targets.put(ROOT, "r", NAME, TargetSpec({"destination": "r"}, requests=True))
    assert raised.value.argument == "requests"
