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

from .conftest import DeliveryHarness, FakeTargets, open_harness


async def test_matching_events_after_creation_arrive_in_order(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.emit("before")
    await harness.put(kinds=["Table*"])
    await harness.emit("a", "b", "c", table="T")
    await harness.emit("x", kind="UserCreated")
    await harness.drain(await harness.delivery())
    assert fake_targets.subjects == ["a", "b", "c"]
    status = await harness.targets.get(ROOT, "r", NAME)
    assert (status.waiting, status.dead, status.failure) == (0, 0, "")


async def test_only_a_caught_up_delivery_pauses(harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await harness.put()
    await harness.emit(*"ab")
    delivery = await harness.delivery()
    delivery._queue = replace(
        delivery._queue,
        reader=OutboxReader(harness.object_context.outbox, RuleMatcher(harness.object_context.meta), batch=2),
    )
    behind, level = await delivery.send_new(), await delivery.send_new()
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await delivery.wait_for_event(behind, 1.0)
    assert (behind.delivered, behind.is_caught_up, rests) == (1, False, [])
    await delivery.wait_for_event(level, 1.0)
    assert (level.delivered, level.is_caught_up, rests) == (1, True, [0.1])


async def test_new_delivery_resumes_at_the_cursor(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    await harness.put(kinds=["*"])
    await harness.emit("a")
    first = await harness.delivery()
    await harness.drain(first)
    done = len(fake_targets.subjects)
    await harness.emit("b")
    await harness.drain(await harness.delivery())
    assert fake_targets.subjects[done:] == ["b"]


async def test_failed_event_blocks_only_its_ordering_key(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    await harness.put()
    fake_targets.rejects = lambda subject: subject == "a1"
    await harness.emit("a1", table="A")
    await harness.emit("b1", table="B")
    await harness.emit("a2", table="A")
    await harness.emit("b2", table="B")
    delivery = await harness.delivery()
    await harness.drain(delivery)
    assert fake_targets.subjects == ["b1", "b2"]
    await harness.emit("a3", table="A")
    await harness.emit("b3", table="B")
    await harness.drain(delivery)
    assert fake_targets.subjects == ["b1", "b2", "b3"]
    status = await harness.targets.get(ROOT, "r", NAME)
    assert (status.waiting, status.failure) == (3, "answered 500")
    fake_targets.rejects = lambda subject: False
    harness.clock.advance(10)
    await harness.drain(delivery)
    assert fake_targets.subjects == ["b1", "b2", "b3", "a1", "a2", "a3"]
    assert await harness.counts() == (0, 0)


async def test_retries_back_off_and_end_in_a_dead_letter(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    await harness.put()
    fake_targets.rejects = lambda subject: subject == "bad"
    await harness.emit("bad", "later", table="A")
    delivery = await harness.delivery()
    await harness.drain(delivery)
    assert fake_targets.inbox().attempts == 1
    # Not due yet.
    await harness.drain(delivery)
    assert fake_targets.inbox().attempts == 1
    harness.clock.advance(1.01)
    await harness.drain(delivery)
    assert fake_targets.inbox().attempts == 2
    harness.clock.advance(2.01)
    await harness.drain(delivery)
    # The third attempt was the last: the event is a dead letter, and the next one of its key is sent.
    (dead,) = await harness.targets.deliveries(ROOT, "r", NAME, DeliveryState.DEAD, after_seq=0, limit=10)
    assert (dead.entry.event.subject, dead.attempts, dead.failure) == ("bad", 3, "answered 500")
    assert fake_targets.subjects == ["later"]
    harness.clock.advance(1000)
    await harness.drain(delivery)
    assert fake_targets.subjects == ["later"]
    fake_targets.rejects = lambda subject: False
    assert await harness.targets.redrive(ROOT, "r", NAME, dead.entry.seq) == 1
    await harness.drain(delivery)
    assert fake_targets.subjects == ["later", "bad"]
    with pytest.raises(NotFound, match="no such dead letter"):
        await harness.targets.redrive(ROOT, "r", NAME, dead.entry.seq)


async def test_undeliverable_event_is_dead_lettered_at_once_and_blocks_nothing(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put()
    fake_targets.inbox().failure = lambda message: Undeliverable("too large") if message.key == "huge" else None
    await harness.emit("huge", "next", table="A")
    delivery = await harness.delivery()
    await harness.drain(delivery)
    assert fake_targets.subjects == ["next"]
    (dead,) = await harness.targets.deliveries(ROOT, "r", NAME, DeliveryState.DEAD, after_seq=0, limit=10)
    assert (dead.entry.event.subject, dead.attempts, dead.failure) == ("huge", 1, "too large")
    # One attempt again after the redrive.
    assert await harness.targets.redrive(ROOT, "r", NAME, None) == 1
    await harness.drain(delivery)
    assert await harness.counts() == (0, 1)


async def test_waiting_events_survive_trimming_of_the_outbox(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put()
    fake_targets.rejects = lambda subject: True
    await harness.emit("a", operation="UPDATE_TABLE", table="T")
    await harness.drain(await harness.delivery())
    harness.clock.advance(5)
    assert await harness.object_context.outbox.trim(occurred_before_ms=harness.clock.now_ms()) > 0
    assert await harness.object_context.outbox.read_after(harness.object_context.meta, 0, 10) == []
    fake_targets.rejects = lambda subject: False
    await harness.drain(await harness.delivery())
    (message,) = fake_targets.inbox().received
    assert message.key == "a"
    assert b"AFTER_UPDATE_TABLE" in message.body


async def test_no_new_events_are_read_while_too_many_wait(
    harness: DeliveryHarness, fake_targets: FakeTargets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    harness.dispatcher._events_reader = OutboxReader(
        harness.object_context.outbox, RuleMatcher(harness.object_context.meta), batch=2
    )
    await harness.put()
    fake_targets.rejects = lambda subject: True
    subjects = [f"s{number}" for number in range(10)]
    await harness.emit(*subjects)
    delivery = await harness.delivery()
    await harness.drain(delivery)
    # The first batch of two has TargetCreated and one of these events.
    assert (await harness.counts())[0] == 3
    assert fake_targets.inbox().attempts == 3
    assert (await delivery.send_new()).is_blocked
    fake_targets.rejects = lambda subject: False
    harness.clock.advance(10)
    for _ in range(10):
        await harness.drain(delivery)
    assert sorted(fake_targets.subjects) == subjects


async def test_idle_cursor_moves_past_events_that_do_not_match(harness: DeliveryHarness) -> None:
    await harness.put(kinds=["Nothing"])
    delivery = await harness.delivery()
    await harness.drain(delivery)
    await harness.emit("a", "b")
    await harness.drain(delivery)
    # Not at once,
    last = await harness.object_context.outbox.last_seq(harness.object_context.meta)
    assert (await harness.targets.get(ROOT, "r", NAME)).after == last - 2
    harness.clock.advance(6)
    await harness.drain(delivery)
    # but after a few seconds.
    assert (await harness.targets.get(ROOT, "r", NAME)).after == last


async def test_delivery_without_the_lease_is_fenced(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    await harness.put()
    await harness.emit("a")
    delivery = await harness.delivery()
    harness.clock.advance(60)
    other = open_harness(harness.object_context, harness.clock, FakeTargets(), holder="two")
    assert await other.dispatcher._held.acquire()
    with pytest.raises(Fenced):
        await delivery.step()
    # Sent twice: delivery is at least once.
    await other.drain(await other.delivery())
    assert fake_targets.subjects == other.fake_targets.subjects == ["a"]


async def test_deleted_target_leaves_no_deliveries_or_cursor(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put(kinds=["*"])
    fake_targets.rejects = lambda subject: True
    delivery = await harness.delivery()
    await harness.drain(delivery)
    await harness.targets.delete(ROOT, "r", NAME)
    with pytest.raises(NotFound):
        await harness.drain(delivery)
    assert await harness.object_context.meta.rows("SELECT * FROM deliveries") == []
    assert await harness.object_context.outbox.cursors(harness.object_context.meta) == []


# -- rules ------------------------------------------------------------------------------------------------------


class Rules:
    """A matcher with fixed targets per subject."""

    def __init__(self, rules: Mapping[str, Mapping[str, str]]) -> None:
        self._rules = rules
        self.matched = 0

    async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
        self.matched += len(entries)
        return [self._rules.get(entry.event.subject, {}) for entry in entries]


async def test_event_matched_by_rule_and_subscription_is_sent_once(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    rules = Rules({"b/one": {"r:memory": "first"}, "b/two": {"other:memory": "second"}, "b/three": {"r:memory": "x"}})
    harness = open_harness(harness.object_context, harness.clock, fake_targets, matcher=rules)
    await harness.targets.put(ROOT, "r", NAME, TargetSpec({"destination": "r"}, kinds=["Table*"], form="lakebed"))
    await harness.emit("b/one", "b/two", kind="ObjectCreated:Put")
    await harness.emit("b/three", "t")
    await harness.drain(await harness.delivery())
    assert sorted(fake_targets.subjects) == ["b/one", "b/three", "t"]


async def test_every_attempt_is_rendered_with_its_rule(
    harness: DeliveryHarness, fake_targets: FakeTargets, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[tuple[str, str, str]] = []

    def render(entry: OutboxEntry, form: str, rule: str, *, region: str, ids: EventIds) -> EventMessage:
        rendered.append((entry.event.subject, form, rule))
        return EventMessage(ids.of(entry), "n", entry.event.subject, False, 1, b"")

    monkeypatch.setattr(module, "render", render)
    monkeypatch.setattr(module, "parse_form", str)
    rules = Rules({"b/one": {"r:memory": "first"}})
    harness = open_harness(harness.object_context, harness.clock, fake_targets, matcher=rules)
    await harness.put()
    fake_targets.rejects = lambda subject: subject == "b/one"
    await harness.emit("b/one", kind="ObjectCreated:Put")
    await harness.emit("t")
    delivery = await harness.delivery()
    await harness.drain(delivery)
    harness.clock.advance(10)
    await harness.drain(delivery)
    # Events matched by a rule have the form s3 by default, others the form lakebed.
    assert rendered == [("b/one", "s3", "first"), ("t", "lakebed", ""), ("b/one", "s3", "first")]


async def test_two_targets_receive_an_event_with_the_same_id_and_different_deduplication_keys(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    for name in ("one", "two"):
        await harness.put(name)
    await harness.emit("t")
    for name in ("one", "two"):
        await harness.drain(await harness.delivery(name))
    (first,), (second,) = fake_targets.inbox("one").received, fake_targets.inbox("two").received
    assert first.id == second.id
    assert (first.target, second.target) == ("one:memory", "two:memory")
    assert first.deduplication_key != second.deduplication_key


# -- failing and slow targets -----------------------------------------------------------------------------------


async def test_failing_target_is_probed_and_the_outbox_keeps_its_events(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put()
    fake_targets.inbox().is_down = True
    subjects = [f"s{number:03}" for number in range(300)]
    await harness.emit(*subjects)
    delivery = await harness.delivery()
    await harness.drain(delivery)
    attempts = fake_targets.inbox().attempts
    assert (
        FAILURE_THRESHOLD
        <= attempts
        < FAILURE_THRESHOLD + fake_targets.kind.make(fake_targets.kind.settings()).max_in_flight + 1
    )
    assert (await harness.counts())[0] == attempts
    for _ in range(20):
        harness.clock.advance(31)
        await harness.drain(delivery)
    # Both breakers open; then each advance allows one probe of each.
    assert fake_targets.inbox().attempts <= 2 * attempts + 40
    fake_targets.inbox().is_down = False
    for _ in range(10):
        harness.clock.advance(31)
        await harness.drain(delivery)
    waiting, dead = await harness.counts()
    assert waiting == 0
    assert len(fake_targets.subjects) + dead == len(subjects)
    assert len(set(fake_targets.subjects)) == len(fake_targets.subjects)


async def test_repeatedly_failing_events_do_not_stop_new_events(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put()
    fake_targets.rejects = lambda subject: subject.startswith("bad")
    await harness.emit(*(f"bad{number}" for number in range(2 * FAILURE_THRESHOLD)))
    delivery = await harness.delivery()
    await harness.drain(delivery)
    await harness.emit("good")
    for _ in range(6 * FAILURE_THRESHOLD):
        harness.clock.advance(31)
        await harness.drain(delivery)
    assert fake_targets.subjects == ["good"]
    assert await harness.counts() == (0, 2 * FAILURE_THRESHOLD)


async def test_slow_target_does_not_stop_the_cursor(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    await harness.put()

    def slow(message: EventMessage) -> LakebedError | None:
        harness.clock.advance(2)
        return None

    fake_targets.inbox().failure = slow
    # Two ordering keys, with more events than fit in a round.
    await harness.emit(*(f"a{number}" for number in range(5)), table="A")
    await harness.emit(*(f"b{number}" for number in range(5)), table="B")
    delivery = await harness.delivery()
    await delivery.send_new()
    arrived = len(fake_targets.subjects)
    assert 0 < arrived < 10
    last = await harness.object_context.outbox.last_seq(harness.object_context.meta)
    after = (await harness.targets.get(ROOT, "r", NAME)).after
    assert after is not None
    assert after < last
    fake_targets.inbox().failure = lambda message: None
    await harness.drain(delivery)
    for key in "ab":
        assert [one for one in fake_targets.subjects if one.startswith(key)] == [
            f"{key}{number}" for number in range(5)
        ]
    assert len(fake_targets.subjects) == 10


async def test_interrupted_batch_is_sent_again_and_nothing_is_lost(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put()
    stuck = asyncio.Event()
    fake_targets.inbox().pause = lambda message: stuck if message.key == "s7" else None
    await harness.emit(*(f"s{number}" for number in range(20)))
    killed = asyncio.create_task((await harness.delivery()).step())
    async with asyncio.timeout(30):
        while len(fake_targets.subjects) < 19:
            await asyncio.sleep(0.001)
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    before = len(fake_targets.subjects)
    fake_targets.inbox().pause = lambda message: None
    await harness.drain(await harness.delivery())
    assert set(fake_targets.subjects) == {f"s{number}" for number in range(20)}
    assert len(fake_targets.subjects) == before + 20
    ids = [message.id for message in fake_targets.inbox().received]
    assert len(set(ids)) == 20


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.booleans()), min_size=1, max_size=12),
    st.lists(st.sampled_from(["step", "crash", "later"]), max_size=12),
)
async def test_events_of_a_table_arrive_completely_and_in_order_despite_failures_and_crashes(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, bool]], acts: list[str]
) -> None:
    """Events with `!` fail once; deliveries are replaced at any time; finally everything is delivered."""
    folder: Path = tmp_path_factory.mktemp("targets")
    async with opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, ManualClock()) as store:
        fake_targets = FakeTargets()
        harness = open_harness(store.object_context, store.clock, fake_targets)
        await harness.put()
        failed_once: set[str] = set()

        def rejects(subject: str) -> bool:
            if subject.endswith("!") and subject not in failed_once:
                failed_once.add(subject)
                return True
            return False

        fake_targets.rejects = rejects
        subjects: dict[str, list[str]] = {}
        for number, (table, fails) in enumerate(events):
            subject = f"{table}{number}{'!' * fails}"
            subjects.setdefault(table, []).append(subject)
            await harness.emit(subject, table=table)
        delivery = await harness.delivery()
        for act in acts:
            if act == "step":
                await delivery.step()
            elif act == "crash":
                delivery = await harness.delivery()
            else:
                harness.clock.advance(3)
        for _ in range(2 * len(events)):
            harness.clock.advance(400)
            await harness.drain(await harness.delivery())
        for table, expected in subjects.items():
            arrived = [subject for subject in fake_targets.subjects if subject.startswith(table)]
            # Events may arrive twice, but first arrivals are in order.
            assert list(dict.fromkeys(arrived)) == expected


def outgoing(seq: int) -> OutgoingEvent:
    return OutgoingEvent(OutboxEntry(seq, OutboxEvent("K", f"s{seq}", b"", 1)), f"s{seq}")


@given(st.lists(st.sampled_from(["delivered", "failed", "behind", "untried", "held"]), min_size=1, max_size=20))
def test_every_event_of_a_batch_is_consumed_deferred_or_read_again(fates: list[str]) -> None:
    """Exactly one of: consumed, waiting, or still in the outbox."""
    ones = [(outgoing(seq), fate) for seq, fate in enumerate(fates, 1)]
    outcome = SendResult(
        delivered=[one.entry.seq for one, fate in ones if fate == "delivered"],
        failed=[FailedEvent(one, "why") for one, fate in ones if fate == "failed"],
        behind=[one for one, fate in ones if fate == "behind"],
        untried=[one for one, fate in ones if fate == "untried"],
    )
    seq, deferred = module.consumed(len(fates), outcome, [one for one, fate in ones if fate == "held"])
    waiting = {one.entry.seq for one in deferred}
    for one, fate in ones:
        number = one.entry.seq
        if seq is None or number > seq:
            # Read again, so it must not have been attempted.
            assert fate not in ("delivered", "failed")
            assert number not in waiting
        else:
            assert (number in waiting) == (fate in ("behind", "untried", "held"))


async def test_unknown_error_is_reported_without_its_message(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put()

    def crash(message: EventMessage) -> LakebedError | None:
        raise KeyError("password=hunter2")

    fake_targets.inbox().failure = crash
    await harness.emit("a")
    await harness.drain(await harness.delivery())
    status = await harness.targets.get(ROOT, "r", NAME)
    assert (status.waiting, status.failure) == (1, "the target crashed: KeyError")
