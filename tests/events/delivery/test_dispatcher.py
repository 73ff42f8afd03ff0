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

from .conftest import Counts, Office, Receiver, a_target, open_office


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; a test that waits for ever has failed."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(dispatcher, "_RETRY_SECONDS", 0.01)


class Running:
    """A dispatcher at work for the time of a block."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.counts = Counts()

    async def __aenter__(self) -> Counts:
        self._task = asyncio.create_task(self._office.dispatcher.run(self.counts))
        return self.counts

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_targets_of_settings_and_api_are_served_from_when_they_came(office: Office, receiver: Receiver) -> None:
    configured = open_office(office.object_context, office.clock, receiver, a_target("stated", "TableCommitted"))
    async with Running(configured) as counts:
        cursors = office.object_context.outbox.cursors
        async with asyncio.timeout(30):
            while not await cursors(office.object_context.meta):
                await asyncio.sleep(0.005)
        await office.tell("a")
        await until(lambda: ("stated", "a") in receiver.pairs)
        await office.put("added")
        await office.tell("b")
        await until(lambda: {("stated", "b"), ("added", "b")} <= set(receiver.pairs))
        assert ("added", "a") not in receiver.pairs
        await until(lambda: counts.delivered == len(receiver.pairs))
        await office.targets.delete(ROOT, "added", NAME)
        await until(lambda: "added:memory" not in configured.dispatcher._running)
        await office.tell("c")
        await until(lambda: ("stated", "c") in receiver.pairs)
        assert ("added", "c") not in receiver.pairs
    # Nobody has to wait for the lease to run out.
    assert await office.dispatcher._held.acquire()


async def test_a_target_that_the_settings_name_no_more_holds_nothing_back(office: Office) -> None:
    before = open_office(office.object_context, office.clock, office.receiver, a_target("old"), holder="one")
    assert await before.dispatcher._held.acquire()
    await before.dispatcher.refresh(Counts())
    assert [name for name, _ in await office.object_context.outbox.cursors(office.object_context.meta)] == [
        "target old:memory"
    ]
    await before.dispatcher._stop(["old:memory"])
    await before.dispatcher._held.release()
    assert await office.dispatcher._held.acquire()
    await office.dispatcher.refresh(Counts())
    assert await office.object_context.outbox.cursors(office.object_context.meta) == []


async def test_one_process_delivers_and_the_next_takes_over(office: Office, receiver: Receiver) -> None:
    await office.put()
    assert await office.dispatcher._held.acquire()
    other = open_office(office.object_context, office.clock, receiver, holder="two")
    assert not await other.dispatcher._held.acquire()
    office.clock.advance(dispatcher.LEASE_SECONDS + 1)
    assert await other.dispatcher._held.acquire()


async def test_who_takes_the_place_of_one_that_was_killed_need_not_wait(office: Office, receiver: Receiver) -> None:
    assert await office.dispatcher._held.acquire()
    killed = office.dispatcher._held.lease
    successor = open_office(office.object_context, office.clock, receiver, holder="one")
    assert await successor.dispatcher._held.acquire()
    assert successor.dispatcher._held.lease.token > killed.token


async def test_what_is_under_way_at_the_end_is_written_down_and_not_sent_again(
    office: Office, receiver: Receiver
) -> None:
    answered = asyncio.Event()
    receiver.box().pause = lambda message: answered if message.key == "b" else None
    await office.put()
    await office.tell("a", "b")
    running = Running(office)
    counts = await running.__aenter__()
    await until(lambda: receiver.subjects == ["a"] and receiver.box().in_flight == {"b"})
    ending = asyncio.create_task(running.__aexit__())
    await asyncio.sleep(0)
    await office.tell("c")
    answered.set()
    await ending
    assert sorted(receiver.subjects) == ["a", "b"]
    assert counts.delivered == 2
    async with Running(open_office(office.object_context, office.clock, receiver, holder="two")):
        await until(lambda: "c" in receiver.subjects)
    assert sorted(receiver.subjects) == ["a", "b", "c"]


@pytest.mark.parametrize("happen", [Office.tell, Office.ask], ids=["events", "requests"])
async def test_nothing_new_is_begun_at_the_end_of_either_log(
    office: Office, receiver: Receiver, happen: Callable[..., Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, finishing = TargetDelivery.finish, asyncio.Event()

    def noted(delivery: TargetDelivery) -> None:
        finish(delivery)
        finishing.set()

    monkeypatch.setattr(TargetDelivery, "finish", noted)
    answered = asyncio.Event()
    receiver.box().pause = lambda message: answered
    await office.put(requests=True)
    await happen(office, *"abcdef")
    running = Running(office)
    counts = await running.__aenter__()
    await until(lambda: len(receiver.box().in_flight) == 4)
    begun = sorted(receiver.box().in_flight)
    ending = asyncio.create_task(running.__aexit__())
    await finishing.wait()
    answered.set()
    await ending
    assert sorted(receiver.subjects) == begun
    assert counts.delivered == 4
    async with Running(open_office(office.object_context, office.clock, receiver, holder="two")):
        await until(lambda: len(receiver.subjects) >= 6)
    assert sorted(receiver.subjects) == list("abcdef"), "each once"


async def test_what_takes_too_long_at_the_end_goes_back_to_the_queue(
    office: Office, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_DRAIN_SECONDS", 0.01)
    receiver.box().pause = lambda message: asyncio.Event()
    await office.put()
    await office.tell("a")
    async with Running(office):
        await until(lambda: receiver.box().in_flight == {"a"})
    assert (receiver.subjects, receiver.box().in_flight) == ([], set())
    receiver.box().pause = lambda message: None
    async with Running(open_office(office.object_context, office.clock, receiver, holder="two")):
        await until(lambda: receiver.subjects == ["a"])


async def test_a_crash_of_a_target_holds_up_what_it_crashed_of(office: Office, receiver: Receiver) -> None:
    def crash(message: EventMessage) -> LakebedError | None:
        if message.key == "a":
            raise RuntimeError("a mistake")
        return None

    await office.put()
    receiver.box().failure = crash
    await office.tell("a", "b")
    async with Running(office) as counts:
        # Counted once it is written.
        await until(lambda: any(tally.failed for _, tally in counts.tallies))
        assert receiver.subjects == ["b"]
        receiver.box().failure = lambda message: None
        office.clock.advance(2)
        await until(lambda: receiver.subjects == ["b", "a"])


async def test_a_crash_of_the_rules_does_not_end_deliveries(office: Office, receiver: Receiver) -> None:
    class Crashing:
        crashes = iter([RuntimeError("a mistake"), Unavailable("down")])

        async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
            for error in self.crashes:
                raise error
            return [{} for _ in entries]

    broken = open_office(office.object_context, office.clock, receiver, matcher=Crashing())
    await office.put()
    await office.tell("a")
    async with Running(broken):
        await until(lambda: receiver.subjects == ["a"])


async def test_a_paused_target_gets_nothing_until_it_is_resumed_and_then_all(
    office: Office, receiver: Receiver
) -> None:
    await office.put()
    await office.put("other")
    await office.targets.pause(ROOT, "r", NAME, is_paused=True)
    async with Running(office):
        await office.tell("a")
        await until(lambda: ("other", "a") in receiver.pairs)
        assert receiver.subjects == []
        # What it has not had is kept for it.
        office.clock.advance(60)
        await office.object_context.outbox.trim(occurred_before_ms=office.clock.now_ms())
        await office.targets.pause(ROOT, "r", NAME, is_paused=False)
        await until(lambda: receiver.subjects == ["a"])


async def test_a_target_of_the_settings_is_prepared_before_it_is_sent_anything(office: Office) -> None:
    prepared: list[str] = []
    outcomes = iter([Unavailable("no database"), None])

    class Prepared(Receiver):
        @property
        def kind(self) -> TargetType[MemorySettings]:
            async def prepare(configured: MemorySettings) -> None:
                prepared.append(configured.place)
                error = next(outcomes)
                if error is not None:
                    raise error

            return TargetType(
                NAME, MemorySettings, lambda configured: MemoryTarget(self.box(configured.place)), prepare
            )

    receiver = Prepared()
    configured = open_office(office.object_context, office.clock, receiver, a_target("r", "TableCommitted"))
    async with Running(configured):
        async with asyncio.timeout(30):
            while not await office.object_context.outbox.cursors(office.object_context.meta):
                await asyncio.sleep(0.005)
        await office.tell("a")
        await until(lambda: receiver.subjects == ["a"])
    assert prepared == ["r", "r"]


async def test_what_a_target_is_behind_by_is_measured_and_told_no_more_by_who_rests(
    office: Office, receiver: Receiver
) -> None:
    await office.put()
    receiver.refuses = lambda subject: True
    await office.tell("a")
    await office.drain(await office.delivery())
    await office.tell("b", "c")
    counts = Counts()
    await office.dispatcher._measure({"r:memory": a_target()}, counts)
    assert counts.standings == {"r:memory": TargetBacklog(behind=2, waiting=1, dead=0)}
    await office.dispatcher._stand_by(counts)
    assert counts.standings == {"r:memory": TargetBacklog(0, 0, 0)}


async def test_old_dead_letters_and_too_many_of_them_go(
    office: Office, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MAX_DEAD_LETTERS", 2)
    await office.put()
    receiver.refuses = lambda subject: True
    await office.tell("a", "b", "c", "d")
    delivery = await office.delivery()
    for _ in range(3):
        await office.drain(delivery)
        office.clock.advance(10)
    assert await office.counts() == (0, 4)
    await office.dispatcher._delete_dead_letters(["r:memory"])
    assert await office.counts() == (0, 2)
    office.clock.advance(31 * 86_400)
    await office.dispatcher._delete_dead_letters(["r:memory"])
    assert await office.counts() == (0, 0)


async def test_what_is_told_only_on_demand_is_asked_for_while_a_target_wants_it(office: Office) -> None:
    bucket = Bucket(BucketId(1), "photos", "me", "us-east-1", 0, "", encode_settings(BucketSettings()))
    await office.put(kinds=["ObjectAccessed:Get"])
    assert await office.dispatcher._held.acquire()
    await office.dispatcher.refresh(Counts())
    assert office.listeners.wants(bucket, "ObjectAccessed:Get")
    assert not office.listeners.wants(bucket, "ObjectAccessed:Head")
    # What happens while it is paused is kept for it.
    await office.targets.pause(ROOT, "r", NAME, is_paused=True)
    await office.dispatcher.refresh(Counts())
    assert office.listeners.wants(bucket, "ObjectAccessed:Get")
    await office.targets.delete(ROOT, "r", NAME)
    await office.dispatcher.refresh(Counts())
    assert not office.listeners.wants(bucket, "ObjectAccessed:Get")
    await office.dispatcher._stop(list(office.dispatcher._running))
