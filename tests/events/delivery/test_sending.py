from __future__ import annotations

import asyncio

import pytest

from lakebed.core.errors import InvalidInput, Unavailable, Undeliverable
from lakebed.events.delivery import sending
from lakebed.events.delivery.ordering import OutgoingEvent
from lakebed.events.delivery.sending import SendCallbacks, SendResult, SendSlots, send_groups
from lakebed.events.forms import Form, render
from lakebed.events.targets.seam import EventMessage
from lakebed.meta.outbox import OutboxEntry, OutboxEvent
from tests.events.samples import IDS
from tests.fixtures.memory_target import Inbox, MemoryTarget


def event(seq: int, subject: str) -> OutgoingEvent:
    return OutgoingEvent(OutboxEntry(seq, OutboxEvent("K", subject, b"\x80", 1)), subject[0])


def group(first: int, *subjects: str) -> list[OutgoingEvent]:
    return [event(first + number, subject) for number, subject in enumerate(subjects)]


def rendered(outgoing: OutgoingEvent) -> EventMessage:
    return render(outgoing.entry, Form.LAKEBED, region="", ids=IDS)


class Recorder:
    """Permits a number of events, and counts responses and failures."""

    def __init__(self, most: int = 1000) -> None:
        self.left = most
        self.responses = 0
        self.failures = 0

    @property
    def callbacks(self) -> SendCallbacks:
        return SendCallbacks(self._may_send, self._on_response, self._on_failure)

    def _may_send(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def _on_response(self) -> None:
        self.responses += 1

    def _on_failure(self) -> None:
        self.failures += 1


def seqs(events: list[OutgoingEvent]) -> list[int]:
    return sorted(event.entry.seq for event in events)


async def sent(
    inbox: Inbox, *groups: list[OutgoingEvent], recorder: Recorder | None = None, max_in_flight: int = 2
) -> SendResult:
    callbacks = (recorder or Recorder()).callbacks
    return await send_groups(
        MemoryTarget(inbox, max_in_flight=max_in_flight), groups, rendered, callbacks, SendSlots(max_in_flight)
    )


async def test_concurrent_groups_do_not_exceed_max_in_flight() -> None:
    inbox, stuck = Inbox(), asyncio.Event()
    inbox.pause = lambda message: stuck
    sending_them = asyncio.create_task(
        sent(inbox, *(group(number, f"{number}x") for number in range(1, 8)), max_in_flight=3)
    )
    async with asyncio.timeout(30):
        while len(inbox.in_flight) < 3:
            await asyncio.sleep(0)
    stuck.set()
    outcome = await sending_them
    assert inbox.max_concurrent == 3
    assert sorted(outcome.delivered) == [1, 2, 3, 4, 5, 6, 7]


async def test_concurrent_rounds_share_the_slots_of_a_target() -> None:
    inbox, slots, stuck = Inbox(), SendSlots(2), asyncio.Event()
    inbox.pause = lambda message: stuck
    target = MemoryTarget(inbox, max_in_flight=2)

    def some(first: int) -> list[list[OutgoingEvent]]:
        return [group(first + number, f"{first + number}x") for number in range(5)]

    both = asyncio.gather(
        *(send_groups(target, some(first), rendered, Recorder().callbacks, slots) for first in (1, 11)),
    )
    async with asyncio.timeout(30):
        while len(inbox.in_flight) < 2:
            await asyncio.sleep(0)
    stuck.set()
    assert [sorted(outcome.delivered) for outcome in await both] == [[1, 2, 3, 4, 5], [11, 12, 13, 14, 15]]


async def test_retryable_failure_stops_its_group_and_final_failure_does_not() -> None:
    inbox, recorder = Inbox(), Recorder()
    failures = {"a2": Unavailable("down"), "b1": Undeliverable("never")}
    inbox.failure = lambda message: failures.get(message.key)
    outcome = await sent(inbox, group(1, "a1", "a2", "a3"), group(11, "b1", "b2"), recorder=recorder)
    assert sorted(outcome.delivered) == [1, 12]
    assert sorted((failed.event.entry.seq, failed.reason, failed.is_final) for failed in outcome.failed) == [
        (2, "down", False),
        (11, "never", True),
    ]
    assert seqs(outcome.behind) == [3]
    assert outcome.untried == []
    assert outcome.last_tried == 12
    # An undeliverable event counts as a response.
    assert (recorder.responses, recorder.failures) == (3, 1)


async def test_events_after_the_end_of_the_round_are_untried() -> None:
    inbox = Inbox()
    outcome = await sent(inbox, group(1, "a1", "a2"), group(11, "b1", "b2"), recorder=Recorder(most=1), max_in_flight=1)
    assert (outcome.delivered, seqs(outcome.untried)) == ([1], [2, 11, 12])


async def test_rendering_failure_is_final() -> None:
    def refuse(outgoing: OutgoingEvent) -> EventMessage:
        if outgoing.entry.seq == 1:
            raise InvalidInput("no such form")
        if outgoing.entry.seq == 2:
            raise ZeroDivisionError
        return rendered(outgoing)

    outcome = await send_groups(
        MemoryTarget(Inbox()), [group(1, "a", "ab", "abc")], refuse, Recorder().callbacks, SendSlots(1)
    )
    assert [(failed.reason, failed.is_final) for failed in outcome.failed] == [
        ("no such form", True),
        ("the event cannot be rendered: ZeroDivisionError", True),
    ]
    assert outcome.delivered == [3]


@pytest.mark.parametrize("max_in_flight", [1, 2])
async def test_hanging_target_times_out(monkeypatch: pytest.MonkeyPatch, max_in_flight: int) -> None:
    monkeypatch.setattr(sending, "MAX_SECONDS", 0.01)
    inbox = Inbox()
    inbox.pause = lambda message: asyncio.Event()
    outcome = await sent(inbox, group(1, "a1", "a2"), group(11, "b1"), group(21, "c1"), max_in_flight=max_in_flight)
    assert {failed.reason for failed in outcome.failed} == {"no response within 0.01 s"}
    assert len(outcome.failed) == max_in_flight
    attempts = {failed.event.entry.seq for failed in outcome.failed}
    assert attempts | set(seqs(outcome.behind)) | set(seqs(outcome.untried)) == {1, 2, 11, 21}


async def test_sending_yields_to_the_event_loop() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await sent(Inbox(), *(group(number, f"{number}x") for number in range(1, 1001)), max_in_flight=1)
    task.cancel()
    assert turns >= 1000 // 128
