from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from lakebed.core.errors import LakebedError, Unavailable
from lakebed.core.ids import BucketId
from lakebed.events.delivery import TargetBacklog, dispatcher
from lakebed.events.delivery.target_delivery import TargetDelivery
from lakebed.events.targets.seam import EventMessage, TargetType
from lakebed.meta.outbox import OutboxEntry
from lakebed.objects.buckets.bucket import Bucket, BucketSettings, encode_settings
from tests.fixtures.memory_target import NAME, MemorySettings, MemoryTarget
from tests.objects.stores import ROOT

from .conftest import DeliveryHarness, FakeTargets, RecordingObserver, a_target, open_harness


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most 30 s."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(dispatcher, "_RETRY_SECONDS", 0.01)


class Running:
    """Runs a dispatcher for the duration of a block."""

    def __init__(self, harness: DeliveryHarness) -> None:
        self._harness = harness
        self.observer = RecordingObserver()

    async def __aenter__(self) -> RecordingObserver:
        self._task = asyncio.create_task(self._harness.dispatcher.run(self.observer))
        return self.observer

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_targets_of_settings_and_api_receive_events_since_their_creation(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    configured = open_harness(
        harness.object_context, harness.clock, fake_targets, a_target("configured", "TableCommitted")
    )
    async with Running(configured) as observer:
        cursors = harness.object_context.outbox.cursors
        async with asyncio.timeout(30):
            while not await cursors(harness.object_context.meta):
                await asyncio.sleep(0.005)
        await harness.emit("a")
        await until(lambda: ("configured", "a") in fake_targets.pairs)
        await harness.put("added")
        await harness.emit("b")
        await until(lambda: {("configured", "b"), ("added", "b")} <= set(fake_targets.pairs))
        assert ("added", "a") not in fake_targets.pairs
        await until(lambda: observer.delivered == len(fake_targets.pairs))
        await harness.targets.delete(ROOT, "added", NAME)
        await until(lambda: "added:memory" not in configured.dispatcher._running)
        await harness.emit("c")
        await until(lambda: ("configured", "c") in fake_targets.pairs)
        assert ("added", "c") not in fake_targets.pairs
    # The lease was released.
    assert await harness.dispatcher._held.acquire()


async def test_cursor_of_target_removed_from_settings_is_deleted(harness: DeliveryHarness) -> None:
    before = open_harness(harness.object_context, harness.clock, harness.fake_targets, a_target("old"), holder="one")
    assert await before.dispatcher._held.acquire()
    await before.dispatcher.refresh(RecordingObserver())
    assert [name for name, _ in await harness.object_context.outbox.cursors(harness.object_context.meta)] == [
        "target old:memory"
    ]
    await before.dispatcher._stop(["old:memory"])
    await before.dispatcher._held.release()
    assert await harness.dispatcher._held.acquire()
    await harness.dispatcher.refresh(RecordingObserver())
    assert await harness.object_context.outbox.cursors(harness.object_context.meta) == []


async def test_second_process_takes_over_after_lease_expiry(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put()
    assert await harness.dispatcher._held.acquire()
    other = open_harness(harness.object_context, harness.clock, fake_targets, holder="two")
    assert not await other.dispatcher._held.acquire()
    harness.clock.advance(dispatcher.LEASE_SECONDS + 1)
    assert await other.dispatcher._held.acquire()


async def test_successor_with_the_same_holder_name_takes_over_at_once(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    assert await harness.dispatcher._held.acquire()
    killed = harness.dispatcher._held.lease
    successor = open_harness(harness.object_context, harness.clock, fake_targets, holder="one")
    assert await successor.dispatcher._held.acquire()
    assert successor.dispatcher._held.lease.token > killed.token


async def test_attempts_in_flight_at_shutdown_are_recorded_and_not_repeated(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    answered = asyncio.Event()
    fake_targets.inbox().pause = lambda message: answered if message.key == "b" else None
    await harness.put()
    await harness.emit("a", "b")
    running = Running(harness)
    observer = await running.__aenter__()
    await until(lambda: fake_targets.subjects == ["a"] and fake_targets.inbox().in_flight == {"b"})
    ending = asyncio.create_task(running.__aexit__())
    await asyncio.sleep(0)
    await harness.emit("c")
    answered.set()
    await ending
    assert sorted(fake_targets.subjects) == ["a", "b"]
    assert observer.delivered == 2
    async with Running(open_harness(harness.object_context, harness.clock, fake_targets, holder="two")):
        await until(lambda: "c" in fake_targets.subjects)
    assert sorted(fake_targets.subjects) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "add_entries", [DeliveryHarness.emit, DeliveryHarness.record_requests], ids=["events", "requests"]
)
async def test_no_attempts_start_during_shutdown(
    harness: DeliveryHarness,
    fake_targets: FakeTargets,
    add_entries: Callable[..., Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finish, finishing = TargetDelivery.finish, asyncio.Event()

    def finish_and_signal(delivery: TargetDelivery) -> None:
        finish(delivery)
        finishing.set()

    monkeypatch.setattr(TargetDelivery, "finish", finish_and_signal)
    answered = asyncio.Event()
    fake_targets.inbox().pause = lambda message: answered
    await harness.put(requests=True)
    await add_entries(harness, *"abcdef")
    running = Running(harness)
    observer = await running.__aenter__()
    await until(lambda: len(fake_targets.inbox().in_flight) == 4)
    started = sorted(fake_targets.inbox().in_flight)
    ending = asyncio.create_task(running.__aexit__())
    await finishing.wait()
    answered.set()
    await ending
    assert sorted(fake_targets.subjects) == started
    assert observer.delivered == 4
    async with Running(open_harness(harness.object_context, harness.clock, fake_targets, holder="two")):
        await until(lambda: len(fake_targets.subjects) >= 6)
    assert sorted(fake_targets.subjects) == list("abcdef"), "each event once"


async def test_attempt_beyond_the_shutdown_timeout_is_repeated(
    harness: DeliveryHarness, fake_targets: FakeTargets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_DRAIN_SECONDS", 0.01)
    fake_targets.inbox().pause = lambda message: asyncio.Event()
    await harness.put()
    await harness.emit("a")
    async with Running(harness):
        await until(lambda: fake_targets.inbox().in_flight == {"a"})
    assert (fake_targets.subjects, fake_targets.inbox().in_flight) == ([], set())
    fake_targets.inbox().pause = lambda message: None
    async with Running(open_harness(harness.object_context, harness.clock, fake_targets, holder="two")):
        await until(lambda: fake_targets.subjects == ["a"])


async def test_crash_in_target_delays_only_its_event(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    def crash(message: EventMessage) -> LakebedError | None:
        if message.key == "a":
            raise RuntimeError("a mistake")
        return None

    await harness.put()
    fake_targets.inbox().failure = crash
    await harness.emit("a", "b")
    async with Running(harness) as observer:
        await until(lambda: any(counts.failed for _, counts in observer.counts))
        assert fake_targets.subjects == ["b"]
        fake_targets.inbox().failure = lambda message: None
        harness.clock.advance(2)
        await until(lambda: fake_targets.subjects == ["b", "a"])


async def test_crash_in_rule_matching_does_not_stop_deliveries(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    class Crashing:
        crashes = iter([RuntimeError("a mistake"), Unavailable("down")])

        async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
            for error in self.crashes:
                raise error
            return [{} for _ in entries]

    broken = open_harness(harness.object_context, harness.clock, fake_targets, matcher=Crashing())
    await harness.put()
    await harness.emit("a")
    async with Running(broken):
        await until(lambda: fake_targets.subjects == ["a"])


async def test_paused_target_receives_all_events_after_resume(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    await harness.put()
    await harness.put("other")
    await harness.targets.pause(ROOT, "r", NAME, is_paused=True)
    async with Running(harness):
        await harness.emit("a")
        await until(lambda: ("other", "a") in fake_targets.pairs)
        assert fake_targets.subjects == []
        # The outbox keeps the events of a paused target.
        harness.clock.advance(60)
        await harness.object_context.outbox.trim(occurred_before_ms=harness.clock.now_ms())
        await harness.targets.pause(ROOT, "r", NAME, is_paused=False)
        await until(lambda: fake_targets.subjects == ["a"])


async def test_target_of_settings_is_prepared_before_its_first_event(harness: DeliveryHarness) -> None:
    prepared: list[str] = []
    outcomes = iter([Unavailable("no database"), None])

    class Prepared(FakeTargets):
        @property
        def kind(self) -> TargetType[MemorySettings]:
            async def prepare(configured: MemorySettings) -> None:
                prepared.append(configured.destination)
                error = next(outcomes)
                if error is not None:
                    raise error

            return TargetType(
                NAME, MemorySettings, lambda configured: MemoryTarget(self.inbox(configured.destination)), prepare
            )

    fake_targets = Prepared()
    configured = open_harness(harness.object_context, harness.clock, fake_targets, a_target("r", "TableCommitted"))
    async with Running(configured):
        async with asyncio.timeout(30):
            while not await harness.object_context.outbox.cursors(harness.object_context.meta):
                await asyncio.sleep(0.005)
        await harness.emit("a")
        await until(lambda: fake_targets.subjects == ["a"])
    assert prepared == ["r", "r"]


async def test_backlog_is_measured_and_reset_on_standby(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    await harness.put()
    fake_targets.rejects = lambda subject: True
    await harness.emit("a")
    await harness.drain(await harness.delivery())
    await harness.emit("b", "c")
    observer = RecordingObserver()
    await harness.dispatcher._measure({"r:memory": a_target()}, observer)
    assert observer.backlogs == {"r:memory": TargetBacklog(behind=2, waiting=1, dead=0)}
    await harness.dispatcher._stand_by(observer)
    assert observer.backlogs == {"r:memory": TargetBacklog(0, 0, 0)}


async def test_old_and_surplus_dead_letters_are_deleted(
    harness: DeliveryHarness, fake_targets: FakeTargets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MAX_DEAD_LETTERS", 2)
    await harness.put()
    fake_targets.rejects = lambda subject: True
    await harness.emit("a", "b", "c", "d")
    delivery = await harness.delivery()
    for _ in range(3):
        await harness.drain(delivery)
        harness.clock.advance(10)
    assert await harness.counts() == (0, 4)
    await harness.dispatcher._delete_dead_letters(["r:memory"])
    assert await harness.counts() == (0, 2)
    harness.clock.advance(31 * 86_400)
    await harness.dispatcher._delete_dead_letters(["r:memory"])
    assert await harness.counts() == (0, 0)


async def test_read_events_are_emitted_while_a_target_subscribes_to_them(harness: DeliveryHarness) -> None:
    bucket = Bucket(BucketId(1), "photos", "me", "us-east-1", 0, "", encode_settings(BucketSettings()))
    await harness.put(kinds=["ObjectAccessed:Get"])
    assert await harness.dispatcher._held.acquire()
    await harness.dispatcher.refresh(RecordingObserver())
    assert harness.listeners.wants(bucket, "ObjectAccessed:Get")
    assert not harness.listeners.wants(bucket, "ObjectAccessed:Head")
    # Paused targets keep their subscriptions.
    await harness.targets.pause(ROOT, "r", NAME, is_paused=True)
    await harness.dispatcher.refresh(RecordingObserver())
    assert harness.listeners.wants(bucket, "ObjectAccessed:Get")
    await harness.targets.delete(ROOT, "r", NAME)
    await harness.dispatcher.refresh(RecordingObserver())
    assert not harness.listeners.wants(bucket, "ObjectAccessed:Get")
    await harness.dispatcher._stop(list(harness.dispatcher._running))
