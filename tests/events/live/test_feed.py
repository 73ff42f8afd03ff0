from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.events.live.feed import LiveFeed, LiveSubscription
from lakebed.events.live.listeners import ListenerRegistry
from lakebed.events.names import EventName
from lakebed.meta.outbox import Outbox, OutboxEntry, OutboxEvent
from lakebed.meta.seam import Transaction
from tests.objects.stores import ObjectStore, opened_store

TAIL_EVENTS = 8


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as opened:
        yield opened


@pytest.fixture
def feed(store: ObjectStore) -> LiveFeed:
    return LiveFeed(
        store.meta, store.object_context.outbox, ListenerRegistry(store.meta, store.clock, "p"), tail_events=TAIL_EVENTS
    )


async def emit(store: ObjectStore, *kinds: str) -> None:
    async def work(tx: Transaction) -> None:
        for kind in kinds:
            await store.object_context.outbox.append(tx, OutboxEvent(kind, "subject", b"\x80", 1000))

    await store.meta.transact(work)


def kinds_of(entries: list[OutboxEntry]) -> list[str]:
    return [entry.event.kind for entry in entries]


async def collect(subscription: LiveSubscription, count: int) -> list[str]:
    """The next `count` events, over several calls."""
    found: list[str] = []
    while len(found) < count:
        found += kinds_of(await subscription.next(30))
    return found


def is_selected(entry: OutboxEntry) -> bool:
    return entry.event.kind.startswith("Selected")


async def test_subscriber_receives_events_after_its_position(store: ObjectStore, feed: LiveFeed) -> None:
    await emit(store, "Old")
    async with feed.subscribe(after=await feed.position()) as subscription:
        waiting = asyncio.create_task(subscription.next(30))
        await asyncio.sleep(0)
        await emit(store, "A", "B")
        assert kinds_of(await waiting) == ["A", "B"]
        await emit(store, "C")
        assert await collect(subscription, 1) == ["C"]


async def test_new_subscription_resumes_after_a_sequence_number(store: ObjectStore, feed: LiveFeed) -> None:
    await emit(store, *"ABC")
    async with feed.subscribe(after=1) as subscription:
        assert await collect(subscription, 2) == ["B", "C"]
        await emit(store, "D")
        assert await collect(subscription, 1) == ["D"]


async def test_slow_subscriber_misses_nothing(store: ObjectStore, feed: LiveFeed) -> None:
    async with feed.subscribe(after=0) as slow, feed.subscribe(after=0) as fast:
        names = [f"E{number}" for number in range(5 * TAIL_EVENTS)]
        for name in names:
            await emit(store, name)
            assert await collect(fast, 1) == [name]
        assert len(feed._tail) == TAIL_EVENTS
        assert await collect(slow, len(names)) == names


async def test_subscription_skips_events_that_do_not_match(store: ObjectStore, feed: LiveFeed) -> None:
    async with feed.subscribe(is_selected, after=0) as subscription:
        await emit(store, *["Noise"] * 600, "Selected:1", "Noise")
        assert await collect(subscription, 1) == ["Selected:1"]
        assert await subscription.next(0) == []
        while subscription.after < 602:
            await subscription.next(0.01)


async def test_next_returns_nothing_after_timeout(feed: LiveFeed) -> None:
    async with feed.subscribe(after=0) as subscription:
        assert await subscription.next(0) == []
        assert await subscription.next(0.001) == []


async def test_events_of_another_process_are_received(store: ObjectStore, feed: LiveFeed) -> None:
    other = Outbox(store.meta)
    async with feed.subscribe(after=0) as subscription:

        async def work(tx: Transaction) -> int:
            return await other.append(tx, OutboxEvent("A", "s", b"\x80", 1))

        await store.meta.transact(work)
        assert await collect(subscription, 1) == ["A"]


async def test_reader_stops_without_subscriptions(store: ObjectStore, feed: LiveFeed) -> None:
    async with feed.subscribe(after=0), feed.subscribe(after=0):
        reader = feed._reader
        assert reader is not None
    await asyncio.gather(reader, return_exceptions=True)
    assert reader.cancelled()
    await emit(store, "A")
    async with feed.subscribe(after=0) as again:
        assert await collect(again, 1) == ["A"]


async def test_reader_continues_after_failures(
    store: ObjectStore, feed: LiveFeed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lakebed.events.live.feed._RETRY_SECONDS", 0)
    outbox, failures = store.object_context.outbox, [Unavailable("gone"), ValueError("ours")]
    read_all = outbox.read_durable

    async def read_durable(seq: int, limit: int) -> list[OutboxEntry]:
        if failures:
            raise failures.pop()
        return await read_all(seq, limit)

    monkeypatch.setattr(outbox, "read_durable", read_durable)
    async with feed.subscribe(after=await feed.position()) as subscription:
        await emit(store, "A")
        assert await collect(subscription, 1) == ["A"]
    assert "live feed read failed" in caplog.text
    assert "crashed" in caplog.text


async def test_read_events_are_emitted_during_a_subscription(store: ObjectStore) -> None:
    listeners = ListenerRegistry(store.meta, store.clock, "p")
    feed = LiveFeed(store.meta, store.object_context.outbox, listeners)
    bucket = await store.bucket("b-1")
    mask = EventName.OBJECT_ACCESSED_ALL.mask
    async with feed.subscribe(after=0, bucket="b-1", mask=mask):
        assert listeners.wants(bucket, "ObjectAccessed:Get")
    assert not listeners.wants(bucket, "ObjectAccessed:Get")


# -- without a subscription -------------------------------------------------------------------------------------


async def test_first_is_the_oldest_retained_event(store: ObjectStore, feed: LiveFeed) -> None:
    await emit(store, *"ABCD")
    await store.object_context.outbox.trim(occurred_before_ms=2000, limit=2)
    assert await feed.first() == 3
