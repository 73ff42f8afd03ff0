from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.events.live.listeners import ALL_BUCKETS, EXPIRY_MS, ListenerRegistry, mask_of_selection, read_event_mask
from lakebed.events.names import EventName
from lakebed.events.selection import ALL_EVENTS, EventSelection, parse_selection
from lakebed.objects.buckets.bucket import Bucket
from tests.objects.stores import ROOT, ObjectStore, opened_store

READS = EventName.OBJECT_ACCESSED_ALL.mask
GET, HEAD, NO_OP = "ObjectAccessed:Get", "ObjectAccessed:Head", "ObjectRemoved:NoOP"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as opened:
        yield opened


@pytest.fixture
async def bucket(store: ObjectStore) -> Bucket:
    return await store.bucket("b-1")


def process(store: ObjectStore, name: str) -> ListenerRegistry:
    return ListenerRegistry(store.meta, store.clock, name)


async def rows(store: ObjectStore) -> int:
    return len(await store.meta.rows("SELECT * FROM event_listeners"))


async def test_read_events_are_unwanted_without_a_subscription(store: ObjectStore, bucket: Bucket) -> None:
    listeners = process(store, "p")
    assert not listeners.wants(bucket, GET)
    with listeners.listening("b-1", EventName.OBJECT_CREATED_ALL.mask):
        await listeners.share()
        assert not listeners.wants(bucket, GET)
        assert await rows(store) == 0


async def test_bucket_rule_applies_in_every_process(store: ObjectStore, bucket: Bucket) -> None:
    await store.buckets.set(ROOT, "b-1", "s3:PutBucketNotification", event_mask=EventName.OBJECT_ACCESSED_GET.mask)
    ruled = await store.buckets.find("b-1")
    listeners = process(store, "p")
    assert listeners.wants(ruled, GET)
    assert not listeners.wants(ruled, HEAD)


async def test_listener_applies_at_once_in_its_own_process(store: ObjectStore, bucket: Bucket) -> None:
    listeners, other = process(store, "p"), await store.bucket("b-2")
    with listeners.listening("b-1", READS):
        assert listeners.wants(bucket, GET)
        assert not listeners.wants(bucket, NO_OP)
        assert not listeners.wants(other, GET)
        with listeners.listening(ALL_BUCKETS, EventName.OBJECT_REMOVED_ALL.mask):
            assert listeners.wants(other, NO_OP)
        with listeners.listening("b-1", READS):
            pass
        assert listeners.wants(bucket, GET)
    assert not listeners.wants(bucket, GET)


async def test_listener_applies_in_other_processes_after_polling(store: ObjectStore, bucket: Bucket) -> None:
    one, other = process(store, "one"), process(store, "other")
    with one.listening("b-1", READS):
        await one.share()
        await other.share()
        assert other.wants(bucket, GET)
        assert not other.wants(bucket, NO_OP)
    await one.share()
    await other.share()
    assert not other.wants(bucket, GET)
    assert await rows(store) == 0


async def test_subscriptions_of_a_dead_process_expire(store: ObjectStore, bucket: Bucket) -> None:
    one, other = process(store, "one"), process(store, "other")
    with one.listening("b-1", READS):
        await one.share()
        store.clock.advance(EXPIRY_MS / 1000 / 2)
        await one.share()
        store.clock.advance(EXPIRY_MS / 1000 * 0.75)
        await other.share()
        assert other.wants(bucket, GET), "the subscription was renewed in time"
        store.clock.advance(EXPIRY_MS / 1000)
        await other.share()
        assert not other.wants(bucket, GET)


async def test_stopping_process_deletes_its_subscriptions(store: ObjectStore, bucket: Bucket) -> None:
    one, other = process(store, "one"), process(store, "other")
    with one.listening("b-1", READS):
        running = asyncio.create_task(one.run())
        while not await rows(store):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await other.share()
    assert not other.wants(bucket, GET)


@pytest.mark.parametrize(
    ("selection", "mask"),
    [
        (ALL_EVENTS, 0),
        (parse_selection("*"), 0),
        (parse_selection("Table*"), 0),
        (parse_selection("ObjectAccessed:*"), READS),
        (parse_selection("ObjectAccessed:Get,ObjectRemoved:*"), EventName.OBJECT_ACCESSED_GET.mask | 1 << 16),
        (EventSelection(subject="b-1"), 0),
    ],
)
def test_read_events_must_be_selected_by_name(selection: EventSelection, mask: int) -> None:
    assert mask_of_selection(selection) == mask


async def test_subscriptions_of_targets_last_while_they_are_served(store: ObjectStore, bucket: Bucket) -> None:
    one, two = process(store, "one"), process(store, "two")
    one.set_target_masks(
        [read_event_mask(parse_selection("ObjectAccessed:*", subject="b-1/in")), read_event_mask(ALL_EVENTS)]
    )
    await one.share()
    await two.share()
    other = await store.bucket("b-2")
    for listeners in (one, two):
        assert listeners.wants(bucket, GET)
        assert not listeners.wants(other, GET)
    one.set_target_masks(())
    await one.share()
    await two.share()
    assert not one.wants(bucket, GET)
    assert not two.wants(bucket, GET)
