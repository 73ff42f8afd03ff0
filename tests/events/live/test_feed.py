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

KEPT = 8


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as opened:
        yield opened


@pytest.fixture
def feed(store: ObjectStore) -> LiveFeed:
    return LiveFeed(
        store.meta, store.object_context.outbox, ListenerRegistry(store.meta, store.clock, "p"), tail_events=KEPT
    )


async def tell(store: ObjectStore, *kinds: str) -> None:
    async def work(tx: Transaction) -> None:
        for kind in kinds:
            await store.object_context.outbox.append(tx, OutboxEvent(kind, "subject", b"\x80", 1000))

    await store.meta.transact(work)


def kinds_of(entries: list[OutboxEntry]) -> list[str]:
    return [entry.event.kind for entry in entries]


async def collect(subscription: LiveSubscription, count: int) -> list[str]:
    """The next events, however they are split."""
    found: list[str] = []
    while len(found) < count:
        found += kinds_of(await subscription.next(30))
    return found


def is_news(entry: OutboxEntry) -> bool:
    return entry.event.kind.startswith("News")


async def test_a_subscriber_hears_what_happens_from_its_place_on(store: ObjectStore, feed: LiveFeed) -> None:
    await tell(store, "Old")
    async with feed.subscribe(after=await feed.position()) as subscription:
        waiting = asyncio.create_task(subscription.next(30))
        await asyncio.sleep(0)
        await tell(store, "A", "B")
        assert kinds_of(await waiting) == ["A", "B"]
        await tell(store, "C")
        assert await collect(subscription, 1) == ["C"]


async def test_who_comes_back_goes_on_where_it_was(store: ObjectStore, feed: LiveFeed) -> None:
    await tell(store, *"ABC")
    async with feed.subscribe(after=1) as subscription:
        assert await collect(subscription, 2) == ["B", "C"]
        await tell(store, "D")
        assert await collect(subscription, 1) == ["D"]


async def test_a_slow_subscriber_is_behind_and_misses_nothing(store: ObjectStore, feed: LiveFeed) -> None:
    async with feed.subscribe(after=0) as slow, feed.subscribe(after=0) as fast:
        names = [f"E{number}" for number in range(5 * KEPT)]
        for name in names:
            await tell(store, name)
            assert await collect(fast, 1) == [name]
        assert len(feed._tail) == KEPT
        assert await collect(slow, len(names)) == names


async def test_what_is_not_asked_for_is_passed_over(store: ObjectStore, feed: LiveFeed) -> None:
    async with feed.subscribe(is_news, after=0) as subscription:
        await tell(store, *["Noise"] * 600, "News:1", "Noise")
        assert await collect(subscription, 1) == ["News:1"]
        assert await subscription.next(0) == []
        while subscription.after < 602:
            await subscription.next(0.01)


async def test_a_wait_ends_without_news(feed: LiveFeed) -> None:
    async with feed.subscribe(after=0) as subscription:
        assert await subscription.next(0) == []
        assert await subscription.next(0.001) == []


async def test_events_of_another_process_are_heard(store: ObjectStore, feed: LiveFeed) -> None:
    """Its outbox rings no bell here."""
    other = Outbox(store.meta)
    async with feed.subscribe(after=0) as subscription:

        async def work(tx: Transaction) -> int:
            return await other.append(tx, OutboxEvent("A", "s", b"\x80", 1))

        await store.meta.transact(work)
        assert await collect(subscription, 1) == ["A"]


async def test_nobody_reads_when_nobody_listens(store: ObjectStore, feed: LiveFeed) -> None:
    async with feed.subscribe(after=0), feed.subscribe(after=0):
        reader = feed._reader
        assert reader is not None
    await asyncio.gather(reader, return_exceptions=True)
    assert reader.cancelled()
    await tell(store, "A")
    async with feed.subscribe(after=0) as again:
        assert await collect(again, 1) == ["A"]


async def test_a_reader_that_failed_goes_on(
    store: ObjectStore, feed: LiveFeed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lakebed.events.live.feed._RETRY_SECONDS", 0)
    outbox, failures = store.object_context.outbox, [Unavailable("gone"), ValueError("ours")]
    whole = outbox.read_durable

    async def read_durable(seq: int, limit: int) -> list[OutboxEntry]:
        if failures:
            raise failures.pop()
        return await whole(seq, limit)

    monkeypatch.setattr(outbox, "read_durable", read_durable)
    async with feed.subscribe(after=await feed.position()) as subscription:
        await tell(store, "A")
        assert await collect(subscription, 1) == ["A"]
    assert "live feed read failed" in caplog.text
    assert "crashed" in caplog.text


async def test_reads_are_told_of_while_somebody_listens_for_them(store: ObjectStore) -> None:
    listeners = ListenerRegistry(store.meta, store.clock, "p")
    feed = LiveFeed(store.meta, store.object_context.outbox, listeners)
    bucket = await store.bucket("b-1")
    mask = EventName.OBJECT_ACCESSED_ALL.mask
    async with feed.subscribe(after=0, bucket="b-1", mask=mask):
        assert listeners.wants(bucket, "ObjectAccessed:Get")
    assert not listeners.wants(bucket, "ObjectAccessed:Get")


# -- without a subscription -------------------------------------------------------------------------------------


async def test_first_is_the_oldest_event_that_is_kept(store: ObjectStore, feed: LiveFeed) -> None:
    await tell(store, *"ABCD")
    await store.object_context.outbox.trim(occurred_before_ms=2000, limit=2)
    assert await feed.first() == 3
