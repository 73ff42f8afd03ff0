from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Fenced, LakebedError, NotFound, Undeliverable
from lakebed.events.delivery import DeliveryState, TargetSpec
from lakebed.events.delivery import target_delivery as module
from lakebed.events.delivery.circuit_breaker import FAILURE_THRESHOLD
from lakebed.events.delivery.ordering import OutgoingEvent
from lakebed.events.delivery.outbox_reader import OutboxReader
from lakebed.events.delivery.sending import FailedEvent, SendResult
from lakebed.events.ids import EventIds
from lakebed.events.rules import RuleMatcher
from lakebed.events.targets.seam import EventMessage
from lakebed.meta.outbox import OutboxEntry, OutboxEvent
from tests.fixtures.memory_target import NAME
from tests.objects.stores import ROOT, opened_store

from .conftest import Office, Receiver, open_office


async def test_what_happens_after_it_was_added_arrives_in_order(office: Office, receiver: Receiver) -> None:
    await office.tell("before")
    await office.put(kinds=["Table*"])
    await office.tell("a", "b", "c", table="T")
    await office.tell("x", kind="UserCreated")
    await office.drain(await office.delivery())
    assert receiver.subjects == ["a", "b", "c"]
    status = await office.targets.get(ROOT, "r", NAME)
    assert (status.waiting, status.dead, status.failure) == (0, 0, "")


async def test_who_has_sent_all_there_was_rests_and_who_is_behind_does_not(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.put()
    await office.tell(*"ab")
    delivery = await office.delivery()
    delivery._queue = replace(
        delivery._queue,
        reader=OutboxReader(office.object_context.outbox, RuleMatcher(office.object_context.meta), batch=2),
    )
    # Before them is that the target was made.
    behind, level = await delivery.send_new(), await delivery.send_new()
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await delivery.wait_for_event(behind, 1.0)
    assert (behind.delivered, behind.is_caught_up, rests) == (1, False, [])
    await delivery.wait_for_event(level, 1.0)
    assert (level.delivered, level.is_caught_up, rests) == (1, True, [0.1])


async def test_a_new_courier_goes_on_where_the_last_one_stood(office: Office, receiver: Receiver) -> None:
    await office.put(kinds=["*"])
    await office.tell("a")
    first = await office.delivery()
    await office.drain(first)
    done = len(receiver.subjects)
    await office.tell("b")
    await office.drain(await office.delivery())
    assert receiver.subjects[done:] == ["b"]


async def test_a_refused_event_holds_up_its_own_lane_and_no_other(office: Office, receiver: Receiver) -> None:
    await office.put()
    receiver.refuses = lambda subject: subject == "a1"
    await office.tell("a1", table="A")
    await office.tell("b1", table="B")
    await office.tell("a2", table="A")
    await office.tell("b2", table="B")
    delivery = await office.delivery()
    await office.drain(delivery)
    assert receiver.subjects == ["b1", "b2"]
    await office.tell("a3", table="A")
    await office.tell("b3", table="B")
    await office.drain(delivery)
    assert receiver.subjects == ["b1", "b2", "b3"]
    status = await office.targets.get(ROOT, "r", NAME)
    assert (status.waiting, status.failure) == (3, "answered 500")
    receiver.refuses = lambda subject: False
    office.clock.advance(10)
    await office.drain(delivery)
    assert receiver.subjects == ["b1", "b2", "b3", "a1", "a2", "a3"]
    assert await office.counts() == (0, 0)


async def test_attempts_come_with_growing_pauses_and_then_no_more(office: Office, receiver: Receiver) -> None:
    await office.put()
    receiver.refuses = lambda subject: subject == "bad"
    await office.tell("bad", "later", table="A")
    delivery = await office.delivery()
    await office.drain(delivery)
    assert receiver.box().tried == 1
    # Not before its time.
    await office.drain(delivery)
    assert receiver.box().tried == 1
    office.clock.advance(1.01)
    await office.drain(delivery)
    assert receiver.box().tried == 2
    office.clock.advance(2.01)
    await office.drain(delivery)
    # The third was the last: it is a dead letter, and what was behind it goes on.
    (dead,) = await office.targets.deliveries(ROOT, "r", NAME, DeliveryState.DEAD, after_seq=0, limit=10)
    assert (dead.entry.event.subject, dead.attempts, dead.failure) == ("bad", 3, "answered 500")
    assert receiver.subjects == ["later"]
    office.clock.advance(1000)
    await office.drain(delivery)
    assert receiver.subjects == ["later"]
    # Until somebody has it tried again.
    receiver.refuses = lambda subject: False
    assert await office.targets.redrive(ROOT, "r", NAME, dead.entry.seq) == 1
    await office.drain(delivery)
    assert receiver.subjects == ["later", "bad"]
    with pytest.raises(NotFound, match="no such dead letter"):
        await office.targets.redrive(ROOT, "r", NAME, dead.entry.seq)


async def test_what_a_target_will_never_take_is_a_dead_letter_at_once_and_holds_nothing_up(
    office: Office, receiver: Receiver
) -> None:
    await office.put()
    receiver.box().failure = lambda message: Undeliverable("too large") if message.key == "huge" else None
    await office.tell("huge", "next", table="A")
    delivery = await office.delivery()
    await office.drain(delivery)
    assert receiver.subjects == ["next"]
    (dead,) = await office.targets.deliveries(ROOT, "r", NAME, DeliveryState.DEAD, after_seq=0, limit=10)
    assert (dead.entry.event.subject, dead.attempts, dead.failure) == ("huge", 1, "too large")
    # No more when it comes to it again.
    assert await office.targets.redrive(ROOT, "r", NAME, None) == 1
    await office.drain(delivery)
    assert await office.counts() == (0, 1)


async def test_what_waits_survives_the_outbox(office: Office, receiver: Receiver) -> None:
    await office.put()
    receiver.refuses = lambda subject: True
    await office.tell("a", operation="UPDATE_TABLE", table="T")
    await office.drain(await office.delivery())
    office.clock.advance(5)
    assert await office.object_context.outbox.trim(occurred_before_ms=office.clock.now_ms()) > 0
    assert await office.object_context.outbox.read_after(office.object_context.meta, 0, 10) == []
    receiver.refuses = lambda subject: False
    await office.drain(await office.delivery())
    (message,) = receiver.box().got
    assert message.key == "a"
    assert b"AFTER_UPDATE_TABLE" in message.body


async def test_no_more_is_read_while_too_much_waits(
    office: Office, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    office.dispatcher._events_reader = OutboxReader(
        office.object_context.outbox, RuleMatcher(office.object_context.meta), batch=2
    )
    await office.put()
    receiver.refuses = lambda subject: True
    subjects = [f"s{number}" for number in range(10)]
    await office.tell(*subjects)
    delivery = await office.delivery()
    await office.drain(delivery)
    # The first two of the log were that of the target itself, and one of these.
    assert (await office.counts())[0] == 3
    assert receiver.box().tried == 3
    assert (await delivery.send_new()).is_blocked
    receiver.refuses = lambda subject: False
    office.clock.advance(10)
    for _ in range(10):
        await office.drain(delivery)
    assert sorted(receiver.subjects) == subjects


async def test_the_outbox_is_not_kept_for_who_asks_for_other_events(office: Office) -> None:
    await office.put(kinds=["Nothing"])
    delivery = await office.delivery()
    await office.drain(delivery)
    await office.tell("a", "b")
    await office.drain(delivery)
    # Not for each of them at once,
    last = await office.object_context.outbox.last_seq(office.object_context.meta)
    assert (await office.targets.get(ROOT, "r", NAME)).after == last - 2
    office.clock.advance(6)
    await office.drain(delivery)
    # but soon, though nothing else happens.
    assert (await office.targets.get(ROOT, "r", NAME)).after == last


async def test_who_has_lost_the_lease_commits_nothing(office: Office, receiver: Receiver) -> None:
    await office.put()
    await office.tell("a")
    delivery = await office.delivery()
    office.clock.advance(60)
    other = open_office(office.object_context, office.clock, Receiver(), holder="two")
    assert await other.dispatcher._held.acquire()
    with pytest.raises(Fenced):
        await delivery.step()
    # It was sent, and is sent again: at least once.
    await other.drain(await other.delivery())
    assert receiver.subjects == other.receiver.subjects == ["a"]


async def test_a_courier_of_a_target_that_is_gone_leaves_nothing_behind(office: Office, receiver: Receiver) -> None:
    await office.put(kinds=["*"])
    receiver.refuses = lambda subject: True
    delivery = await office.delivery()
    await office.drain(delivery)
    await office.targets.delete(ROOT, "r", NAME)
    with pytest.raises(NotFound):
        await office.drain(delivery)
    assert await office.object_context.meta.rows("SELECT * FROM deliveries") == []
    assert await office.object_context.outbox.cursors(office.object_context.meta) == []


# -- rules ------------------------------------------------------------------------------------------------------


class Rules:
    """Rules that name a target for subjects."""

    def __init__(self, rules: Mapping[str, Mapping[str, str]]) -> None:
        self._rules = rules
        self.asked = 0

    async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
        self.asked += len(entries)
        return [self._rules.get(entry.event.subject, {}) for entry in entries]


async def test_bucket_rules_and_its_own_wish_send_an_event_once(office: Office, receiver: Receiver) -> None:
    rules = Rules({"b/one": {"r:memory": "first"}, "b/two": {"other:memory": "second"}, "b/three": {"r:memory": "x"}})
    office = open_office(office.object_context, office.clock, receiver, matcher=rules)
    await office.targets.put(ROOT, "r", NAME, TargetSpec({"place": "r"}, kinds=["Table*"], form="lakebed"))
    await office.tell("b/one", "b/two", kind="ObjectCreated:Put")
    await office.tell("b/three", "t")
    await office.drain(await office.delivery())
    assert sorted(receiver.subjects) == ["b/one", "b/three", "t"]


async def test_a_rule_is_told_in_every_attempt(
    office: Office, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str, str]] = []

    def render(entry: OutboxEntry, form: str, rule: str, *, region: str, ids: EventIds) -> EventMessage:
        told.append((entry.event.subject, form, rule))
        return EventMessage(ids.of(entry), "n", entry.event.subject, False, 1, b"")

    monkeypatch.setattr(module, "render", render)
    monkeypatch.setattr(module, "parse_form", str)
    rules = Rules({"b/one": {"r:memory": "first"}})
    office = open_office(office.object_context, office.clock, receiver, matcher=rules)
    await office.put()
    receiver.refuses = lambda subject: subject == "b/one"
    await office.tell("b/one", kind="ObjectCreated:Put")
    await office.tell("t")
    delivery = await office.delivery()
    await office.drain(delivery)
    office.clock.advance(10)
    await office.drain(delivery)
    # What a rule asks for is in S3's form, what the target asks for by itself in ours.
    assert told == [("b/one", "s3", "first"), ("t", "lakebed", ""), ("b/one", "s3", "first")]


async def test_two_targets_are_sent_an_event_by_the_same_id_and_under_their_own_names(
    office: Office, receiver: Receiver
) -> None:
    for name in ("one", "two"):
        await office.put(name)
    await office.tell("t")
    for name in ("one", "two"):
        await office.drain(await office.delivery(name))
    (first,), (second,) = receiver.box("one").got, receiver.box("two").got
    assert first.id == second.id
    assert (first.target, second.target) == ("one:memory", "two:memory")
    assert first.deduplication_key != second.deduplication_key


# -- targets that are down, or slow -----------------------------------------------------------------------------


async def test_a_target_that_is_down_is_asked_now_and_then_and_the_outbox_keeps_the_rest(
    office: Office, receiver: Receiver
) -> None:
    await office.put()
    receiver.box().is_down = True
    subjects = [f"s{number:03}" for number in range(300)]
    await office.tell(*subjects)
    delivery = await office.delivery()
    await office.drain(delivery)
    tried = receiver.box().tried
    assert (
        FAILURE_THRESHOLD <= tried < FAILURE_THRESHOLD + receiver.kind.make(receiver.kind.settings()).max_in_flight + 1
    )
    assert (await office.counts())[0] == tried
    for _ in range(20):
        office.clock.advance(31)
        await office.drain(delivery)
    # What waits is found to be as hopeless as what is new; then a probe of each, every time.
    assert receiver.box().tried <= 2 * tried + 40
    receiver.box().is_down = False
    for _ in range(10):
        office.clock.advance(31)
        await office.drain(delivery)
    waiting, dead = await office.counts()
    assert waiting == 0
    assert len(receiver.subjects) + dead == len(subjects)
    assert len(set(receiver.subjects)) == len(receiver.subjects)


async def test_events_that_are_refused_again_and_again_do_not_keep_others_from_being_tried(
    office: Office, receiver: Receiver
) -> None:
    await office.put()
    receiver.refuses = lambda subject: subject.startswith("bad")
    await office.tell(*(f"bad{number}" for number in range(2 * FAILURE_THRESHOLD)))
    delivery = await office.delivery()
    await office.drain(delivery)
    await office.tell("good")
    for _ in range(6 * FAILURE_THRESHOLD):
        office.clock.advance(31)
        await office.drain(delivery)
    assert receiver.subjects == ["good"]
    assert await office.counts() == (0, 2 * FAILURE_THRESHOLD)


async def test_a_slow_target_does_not_keep_the_cursor_from_moving(office: Office, receiver: Receiver) -> None:
    await office.put()

    def slow(message: EventMessage) -> LakebedError | None:
        office.clock.advance(2)
        return None

    receiver.box().failure = slow
    # Two lanes, and more in them than there is time for.
    await office.tell(*(f"a{number}" for number in range(5)), table="A")
    await office.tell(*(f"b{number}" for number in range(5)), table="B")
    delivery = await office.delivery()
    await delivery.send_new()
    arrived = len(receiver.subjects)
    assert 0 < arrived < 10
    last = await office.object_context.outbox.last_seq(office.object_context.meta)
    after = (await office.targets.get(ROOT, "r", NAME)).after
    assert after is not None
    assert after < last
    receiver.box().failure = lambda message: None
    await office.drain(delivery)
    for lane in "ab":
        assert [one for one in receiver.subjects if one.startswith(lane)] == [f"{lane}{number}" for number in range(5)]
    assert len(receiver.subjects) == 10


async def test_who_is_killed_in_the_midst_of_a_batch_sends_it_again_and_nothing_is_lost(
    office: Office, receiver: Receiver
) -> None:
    await office.put()
    stuck = asyncio.Event()
    receiver.box().pause = lambda message: stuck if message.key == "s7" else None
    await office.tell(*(f"s{number}" for number in range(20)))
    killed = asyncio.create_task((await office.delivery()).step())
    async with asyncio.timeout(30):
        while len(receiver.subjects) < 19:
            await asyncio.sleep(0.001)
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    before = len(receiver.subjects)
    receiver.box().pause = lambda message: None
    await office.drain(await office.delivery())
    assert set(receiver.subjects) == {f"s{number}" for number in range(20)}
    assert len(receiver.subjects) == before + 20
    ids = [message.id for message in receiver.box().got]
    # Whoever has handled one exists it when it comes again.
    assert len(set(ids)) == 20


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.booleans()), min_size=1, max_size=12),
    st.lists(st.sampled_from(["step", "crash", "later"]), max_size=12),
)
async def test_whatever_fails_and_whoever_crashes_each_table_arrives_in_order_and_whole(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, bool]], acts: list[str]
) -> None:
    """Each event is refused once if it is to be; couriers are replaced at any time; then all is let be."""
    folder: Path = tmp_path_factory.mktemp("targets")
    async with opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, ManualClock()) as store:
        receiver = Receiver()
        office = open_office(store.object_context, store.clock, receiver)
        await office.put()
        refused: set[str] = set()

        def refuses(subject: str) -> bool:
            if subject.endswith("!") and subject not in refused:
                refused.add(subject)
                return True
            return False

        receiver.refuses = refuses
        subjects: dict[str, list[str]] = {}
        for number, (table, fails) in enumerate(events):
            subject = f"{table}{number}{'!' * fails}"
            subjects.setdefault(table, []).append(subject)
            await office.tell(subject, table=table)
        delivery = await office.delivery()
        for act in acts:
            if act == "step":
                await delivery.step()
            elif act == "crash":
                delivery = await office.delivery()
            else:
                office.clock.advance(3)
        for _ in range(2 * len(events)):
            office.clock.advance(400)
            await office.drain(await office.delivery())
        for table, expected in subjects.items():
            arrived = [subject for subject in receiver.subjects if subject.startswith(table)]
            # Some may have come twice, but never one behind a later one for the first time.
            assert list(dict.fromkeys(arrived)) == expected


def outgoing(seq: int) -> OutgoingEvent:
    return OutgoingEvent(OutboxEntry(seq, OutboxEvent("K", f"s{seq}", b"", 1)), f"s{seq}")


@given(st.lists(st.sampled_from(["delivered", "failed", "behind", "untried", "held"]), min_size=1, max_size=20))
def test_of_each_event_of_a_batch_it_is_known_what_becomes_of_it(fates: list[str]) -> None:
    """Done with, waiting, or still in the outbox: exactly one of these."""
    ones = [(outgoing(seq), fate) for seq, fate in enumerate(fates, 1)]
    outcome = SendResult(
        delivered=[one.entry.seq for one, fate in ones if fate == "delivered"],
        failed=[FailedEvent(one, "why") for one, fate in ones if fate == "failed"],
        behind=[one for one, fate in ones if fate == "behind"],
        untried=[one for one, fate in ones if fate == "untried"],
    )
    seq, waits = module.consumed(len(fates), outcome, [one for one, fate in ones if fate == "held"])
    waiting = {one.entry.seq for one in waits}
    for one, fate in ones:
        number = one.entry.seq
        if seq is None or number > seq:
            # Read again: so nothing may have come of it.
            assert fate not in ("delivered", "failed")
            assert number not in waiting
        else:
            assert (number in waiting) == (fate in ("behind", "untried", "held"))


async def test_a_target_that_fails_in_an_unknown_way_says_so_without_its_words(
    office: Office, receiver: Receiver
) -> None:
    await office.put()

    def crash(message: EventMessage) -> LakebedError | None:
        raise KeyError("password=hunter2")

    receiver.box().failure = crash
    await office.tell("a")
    await office.drain(await office.delivery())
    status = await office.targets.get(ROOT, "r", NAME)
    assert (status.waiting, status.failure) == (1, "the target crashed: KeyError")
