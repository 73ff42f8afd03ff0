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
from tests.events.made import IDS
from tests.fixtures.memory_target import Mailbox, MemoryTarget


def one(seq: int, subject: str) -> OutgoingEvent:
    return OutgoingEvent(OutboxEntry(seq, OutboxEvent("K", subject, b"\x80", 1)), subject[0])


def lane(first: int, *subjects: str) -> list[OutgoingEvent]:
    return [one(first + number, subject) for number, subject in enumerate(subjects)]


def rendered(outgoing: OutgoingEvent) -> EventMessage:
    return render(outgoing.entry, Form.LAKEBED, region="", ids=IDS)


class Notes:
    """A watch that lets so many be sent, and remembers what it is told."""

    def __init__(self, most: int = 1000) -> None:
        self.left = most
        self.answers = 0
        self.failures = 0

    @property
    def watch(self) -> SendCallbacks:
        return SendCallbacks(self._goes_on, self._answered, self._failed)

    def _goes_on(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def _answered(self) -> None:
        self.answers += 1

    def _failed(self) -> None:
        self.failures += 1


def seqs(ones: list[OutgoingEvent]) -> list[int]:
    return sorted(one.entry.seq for one in ones)


async def sent(
    box: Mailbox, *lanes: list[OutgoingEvent], notes: Notes | None = None, max_in_flight: int = 2
) -> SendResult:
    watch = (notes or Notes()).watch
    return await send_groups(
        MemoryTarget(box, max_in_flight=max_in_flight), lanes, rendered, watch, SendSlots(max_in_flight)
    )


async def test_no_more_lanes_are_under_way_than_may_be() -> None:
    box, stuck = Mailbox(), asyncio.Event()
    box.pause = lambda message: stuck
    sending_them = asyncio.create_task(
        sent(box, *(lane(number, f"{number}x") for number in range(1, 8)), max_in_flight=3)
    )
    async with asyncio.timeout(30):
        while len(box.in_flight) < 3:
            await asyncio.sleep(0)
    stuck.set()
    outcome = await sending_them
    assert box.most_under_way == 3
    assert sorted(outcome.delivered) == [1, 2, 3, 4, 5, 6, 7]


async def test_what_is_new_and_what_is_tried_again_share_what_may_be_under_way() -> None:
    box, slots, stuck = Mailbox(), SendSlots(2), asyncio.Event()
    box.pause = lambda message: stuck
    target = MemoryTarget(box, max_in_flight=2)

    def some(first: int) -> list[list[OutgoingEvent]]:
        return [lane(first + number, f"{first + number}x") for number in range(5)]

    both = asyncio.gather(
        *(send_groups(target, some(first), rendered, Notes().watch, slots) for first in (1, 11)),
    )
    async with asyncio.timeout(30):
        while len(box.in_flight) < 2:
            await asyncio.sleep(0)
    stuck.set()
    assert [sorted(outcome.delivered) for outcome in await both] == [[1, 2, 3, 4, 5], [11, 12, 13, 14, 15]]


async def test_a_failure_ends_its_lane_and_a_final_one_does_not() -> None:
    box, notes = Mailbox(), Notes()
    failures = {"a2": Unavailable("down"), "b1": Undeliverable("never")}
    box.failure = lambda message: failures.get(message.key)
    outcome = await sent(box, lane(1, "a1", "a2", "a3"), lane(11, "b1", "b2"), notes=notes)
    assert sorted(outcome.delivered) == [1, 12]
    assert sorted((failed.event.entry.seq, failed.reason, failed.is_final) for failed in outcome.failed) == [
        (2, "down", False),
        (11, "never", True),
    ]
    assert seqs(outcome.behind) == [3]
    assert outcome.untried == []
    assert outcome.last_tried == 12
    # One that is never taken was answered, all the same.
    assert (notes.answers, notes.failures) == (3, 1)


async def test_what_there_is_no_time_for_is_left_untried() -> None:
    box = Mailbox()
    outcome = await sent(box, lane(1, "a1", "a2"), lane(11, "b1", "b2"), notes=Notes(most=1), max_in_flight=1)
    assert (outcome.delivered, seqs(outcome.untried)) == ([1], [2, 11, 12])


async def test_an_event_that_cannot_be_rendered_is_not_tried_again() -> None:
    def refuse(outgoing: OutgoingEvent) -> EventMessage:
        if outgoing.entry.seq == 1:
            raise InvalidInput("no such form")
        if outgoing.entry.seq == 2:
            raise ZeroDivisionError
        return rendered(outgoing)

    outcome = await send_groups(
        MemoryTarget(Mailbox()), [lane(1, "a", "ab", "abc")], refuse, Notes().watch, SendSlots(1)
    )
    assert [(failed.reason, failed.is_final) for failed in outcome.failed] == [
        ("no such form", True),
        ("the event cannot be rendered: ZeroDivisionError", True),
    ]
    assert outcome.delivered == [3]


@pytest.mark.parametrize("max_in_flight", [1, 2])
async def test_a_target_that_never_answers_does_not_hold_up_the_round_for_ever(
    monkeypatch: pytest.MonkeyPatch, max_in_flight: int
) -> None:
    monkeypatch.setattr(sending, "MAX_SECONDS", 0.01)
    box = Mailbox()
    box.pause = lambda message: asyncio.Event()
    outcome = await sent(box, lane(1, "a1", "a2"), lane(11, "b1"), lane(21, "c1"), max_in_flight=max_in_flight)
    assert {failed.reason for failed in outcome.failed} == {"no response within 0.01 s"}
    assert len(outcome.failed) == max_in_flight
    tried = {failed.event.entry.seq for failed in outcome.failed}
    assert tried | set(seqs(outcome.behind)) | set(seqs(outcome.untried)) == {1, 2, 11, 21}


async def test_others_have_a_turn_while_much_is_sent_to_who_answers_at_once() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await sent(Mailbox(), *(lane(number, f"{number}x") for number in range(1, 1001)), max_in_flight=1)
    task.cancel()
    assert turns >= 1000 // 128
