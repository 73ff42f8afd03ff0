"""Requests on their way to targets: as events go, and apart from them."""

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
from tests.events.made import IDS
from tests.fixtures.memory_target import NAME, MemorySettings
from tests.objects.stores import ROOT

from .conftest import Counts, Office, Receiver, a_target, open_office


async def serve(office: Office, name: str = "r") -> None:
    for delivery in await office.deliveries_of(name):
        await office.drain(delivery)


def exists(office: Office) -> bool:
    """Whether its process notes requests."""
    return office.listeners.has_request_subscribers


async def test_who_asks_for_requests_is_sent_each_as_an_entry_of_an_audit_log(office: Office) -> None:
    await office.put(kinds=["TableCommitted"], requests=True)
    await office.ask("R1", "R2")
    await office.tell("lake/ns/t")
    await serve(office)
    assert sorted(office.receiver.subjects) == ["R1", "R2", "lake/ns/t"]
    first = next(message for message in office.receiver.box().got if message.key == "R1")
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
    event = next(message for message in office.receiver.box().got if message.key == "lake/ns/t")
    assert (event.id, event.proof) == (IDS.cursor(2), ""), "an event is as it was"


async def test_a_target_that_does_not_ask_is_sent_none(office: Office) -> None:
    await office.put("r", requests=True)
    await office.put("other", kinds=["*"])
    await office.ask("R1")
    await serve(office, "r")
    await serve(office, "other")
    assert ("other", "R1") not in office.receiver.pairs


async def test_a_request_that_is_refused_waits_is_given_up_and_is_tried_again_when_asked(office: Office) -> None:
    await office.put(requests=True)
    office.receiver.refuses = lambda subject: subject == "R1"
    await office.ask("R1", "R2")
    await serve(office)
    assert office.receiver.subjects == ["R2"], "none waits for another"
    assert await office.counts() == (1, 0)
    for _ in range(2):
        office.clock.advance(3600)
        await serve(office)
    assert await office.counts() == (0, 1)
    (dead,) = await office.targets.deliveries(ROOT, "r", NAME, DeliveryState.DEAD, after_seq=0, limit=10)
    assert (dead.entry.seq, dead.entry.event.subject) == (FIRST_REQUEST, "R1")
    office.receiver.refuses = lambda subject: False
    assert await office.targets.redrive(ROOT, "r", NAME, FIRST_REQUEST) == 1
    await serve(office)
    assert office.receiver.subjects == ["R2", "R1"]
    assert await office.counts() == (0, 0)


async def test_requests_that_wait_are_not_taken_for_events(office: Office) -> None:
    await office.put(requests=True)
    office.receiver.refuses = lambda subject: True
    await office.ask("R1")
    await office.tell("lake/ns/t")
    await serve(office)
    assert await office.counts() == (2, 0)
    events, requests = await office.deliveries_of()
    assert [one.seq for one in await events._waiting()] == [2]
    assert [one.seq for one in await requests._waiting()] == [FIRST_REQUEST]


async def test_a_change_holds_for_the_process_at_once_and_for_others_when_they_look(
    office: Office, object_context: ObjectContext, receiver: Receiver
) -> None:
    assert isinstance(object_context.clock, ManualClock)
    other = open_office(object_context, object_context.clock, receiver, holder="two")
    await office.put()
    assert not exists(office)
    await office.put(requests=True)
    assert exists(office)
    assert not exists(other)
    await other.listeners.share()
    assert exists(other)
    await office.put(requests=False)
    assert not exists(office)
    await office.put(requests=True)
    await office.targets.delete(ROOT, "r", NAME)
    assert not exists(office)


async def test_who_asks_no_more_is_forgotten_with_what_waited(office: Office) -> None:
    await office.put(requests=True)
    office.receiver.refuses = lambda subject: True
    await office.ask("R1")
    await office.tell("lake/ns/t")
    await serve(office)
    await office.put(requests=False)
    assert await office.counts() == (1, 0), "the event waits still"
    await office.put(requests=True)
    office.receiver.refuses = lambda subject: False
    await office.ask("R2")
    await serve(office)
    assert "R1" not in office.receiver.subjects
    assert "R2" in office.receiver.subjects


async def test_what_everybody_has_is_removed_and_a_paused_target_has_it_later(office: Office) -> None:
    await office.put("a", requests=True)
    await office.put("b", requests=True)
    await office.targets.pause(ROOT, "b", NAME, is_paused=True)
    await office.ask("R1", "R2")
    await serve(office, "a")
    assert await office.requests.trim() == {}
    meta = office.object_context.meta
    assert len(await office.requests.log.read_after(meta, 0, 10)) == 2
    assert (await office.targets.get(ROOT, "b", NAME)).requests_behind == 2
    await serve(office, "b")
    assert (await office.targets.get(ROOT, "b", NAME)).requests_behind == 0
    await office.requests.trim()
    assert await office.requests.log.read_after(meta, 0, 10) == []
    await office.ask("R3")
    assert [one.seq for one in await office.requests.log.read_after(meta, 0, 10)] == [FIRST_REQUEST + 2]


async def test_a_target_that_is_too_far_behind_loses_the_oldest_and_that_is_counted(
    object_context: ObjectContext, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(object_context.clock, ManualClock)
    office = open_office(object_context, object_context.clock, receiver, max_entries=3)
    await office.put(requests=True)
    await office.targets.pause(ROOT, "r", NAME, is_paused=True)
    await office.ask(*(f"R{number}" for number in range(10)))
    counts = Counts()
    assert await office.dispatcher._held.acquire()
    await office.dispatcher.refresh(counts)
    assert [(name, tally.lost) for name, tally in counts.tallies] == [("r:memory", 7)]
    assert "target lost requests" in caplog.text
    await office.dispatcher.refresh(counts)
    assert sum(tally.lost for _, tally in counts.tallies) == 7
    await serve(office)
    assert sorted(receiver.subjects) == ["R7", "R8", "R9"]


async def test_a_target_of_the_settings_misses_nothing_from_the_start_on(
    object_context: ObjectContext, receiver: Receiver
) -> None:
    assert isinstance(object_context.clock, ManualClock)
    office = open_office(object_context, object_context.clock, receiver, a_target("r", "TableCommitted", requests=True))
    await office.requests.begin(["r:memory"])
    await office.listeners.refresh_request_subscribers()
    assert exists(office)
    # Before anybody serves it.
    await office.ask("R1")
    assert await office.dispatcher._held.acquire()
    counts = Counts()
    await office.dispatcher.refresh(counts)
    async with asyncio.timeout(30):
        while receiver.subjects != ["R1"]:
            await asyncio.sleep(0)
    await office.dispatcher._stand_by(counts)
    # The settings name it no more.
    after = open_office(object_context, object_context.clock, receiver)
    await after.dispatcher._held.acquire()
    await after.dispatcher.refresh(Counts())
    await after.listeners.refresh_request_subscribers()
    assert not exists(after)


async def test_a_kind_that_has_no_use_for_requests_is_not_sent_any(office: Office) -> None:
    kind = TargetType(NAME, MemorySettings, office.receiver.kind.make, takes_requests=False)
    office.targets._types = TargetTypes([kind])
    with pytest.raises(InvalidInput, match="do not accept requests") as refused:
        await office.targets.put(ROOT, "r", NAME, TargetSpec({"place": "r"}, requests=True))
    assert refused.value.argument == "requests"
