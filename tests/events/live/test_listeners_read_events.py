from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.events.live.listeners import ListenerRegistry, ReadEvents
from lakebed.events.names import EventName
from lakebed.meta.seam import MetaStore, T, Work
from lakebed.objects.config.object_lock import Retention, RetentionMode
from lakebed.objects.deleting import ObjectDeleter, ObjectIdentifier
from lakebed.objects.events import decode_event
from lakebed.objects.reading import ObjectReader
from lakebed.objects.tags_and_locks import TagsAndLocks
from tests.objects.stores import ROOT, ObjectStore, opened_store

READS = EventName.OBJECT_ACCESSED_ALL.mask


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with opened_store(f"sqlite:{tmp_path / 'meta.db'}", "memory", tmp_path, ManualClock()) as opened:
        yield opened


class FailingStore:
    """A store whose transactions fail while it is broken."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta
        self.is_broken = True

    async def transact(self, work: Work[T]) -> T:
        if self.is_broken:
            raise Unavailable("broken")
        return await self._meta.transact(work)


def recorder(store: ObjectStore, meta: MetaStore | None = None, *, max_entries: int = 100) -> ReadEvents:
    listeners = ListenerRegistry(store.meta, store.clock, "p")
    return ReadEvents(meta or store.meta, store.object_context.outbox, store.clock, listeners, max_entries=max_entries)


async def kinds(store: ObjectStore) -> list[str]:
    return [entry.event.kind for entry in await store.events() if entry.event.kind.startswith("ObjectAccessed")]


async def test_read_event_is_emitted_for_a_subscriber(store: ObjectStore) -> None:
    bucket = await store.bucket("b-1")
    written = await store.put("b-1", "k", b"abc")
    read_events = recorder(store)
    read_events.emit("ObjectAccessed:Get", bucket, written.object, ROOT)
    assert await read_events.flush() == 0
    with read_events.listeners.listening("b-1", READS):
        read_events.emit("ObjectAccessed:Get", bucket, written.object, ROOT)
        read_ms = store.clock.now_ms()
        store.clock.advance(5)
        read_events.emit("ObjectAccessed:Head", bucket, written.object, ROOT)
    assert await kinds(store) == [], "events are buffered"
    assert await read_events.flush() == 2
    assert await kinds(store) == ["ObjectAccessed:Get", "ObjectAccessed:Head"]
    events = (await store.events())[-2].event
    assert (events.subject, events.occurred_ms) == ("b-1/k", read_ms)
    payload = decode_event(events.payload)
    assert (payload.size, payload.etag, payload.principal) == (3, written.object.etag, "root")
    assert await read_events.flush() == 0


async def test_failed_write_keeps_events_and_a_full_buffer_drops_them(
    store: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = await store.bucket("b-1")
    written = await store.put("b-1", "k")
    failing = FailingStore(store.meta)
    read_events = recorder(store, failing, max_entries=2)  # type: ignore[arg-type]  # it is only written to
    with read_events.listeners.listening("b-1", READS):
        for _ in range(3):
            read_events.emit("ObjectAccessed:Get", bucket, written.object, ROOT)
    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable):
        await read_events.flush()
    assert "read events dropped: write buffer full" in caplog.text
    failing.is_broken = False
    assert await read_events.flush() == 2
    assert len(await kinds(store)) == 2


async def test_stopping_process_writes_its_buffer(store: ObjectStore) -> None:
    bucket = await store.bucket("b-1")
    written = await store.put("b-1", "k")
    read_events = recorder(store)
    running = asyncio.create_task(read_events.run())
    await asyncio.sleep(0)
    with read_events.listeners.listening("b-1", READS):
        read_events.emit("ObjectAccessed:Get", bucket, written.object, ROOT)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await kinds(store) == ["ObjectAccessed:Get"]


async def test_reading_locks_emits_read_events(store: ObjectStore) -> None:
    read_events = recorder(store)
    object_context = replace(store.object_context, read_events=read_events)
    annotations = TagsAndLocks(object_context, ObjectReader(object_context))
    await store.buckets.create(ROOT, "b-1", object_lock=True)
    await store.put("b-1", "k")
    until = Retention(RetentionMode.GOVERNANCE, store.clock.now_ms() + 1000)
    await annotations.set_retention(ROOT, "b-1", "k", None, until)
    await annotations.set_legal_hold(ROOT, "b-1", "k", None, True)
    with read_events.listeners.listening("b-1", READS):
        await annotations.retention(ROOT, "b-1", "k", None)
        await annotations.legal_hold(ROOT, "b-1", "k", None)
    await read_events.flush()
    assert [entry.event.kind for entry in await store.events()][-4:] == [
        "ObjectCreated:PutRetention",
        "ObjectCreated:PutLegalHold",
        "ObjectAccessed:GetRetention",
        "ObjectAccessed:GetLegalHold",
    ]


async def test_deletion_of_a_missing_key_emits_no_op_for_a_subscriber(store: ObjectStore) -> None:
    read_events = recorder(store)
    deleter = ObjectDeleter(replace(store.object_context, read_events=read_events))
    await store.bucket("b-1")
    before = (await store.events())[-1].seq
    await deleter.delete(ROOT, "b-1", ObjectIdentifier("k"))
    assert await store.events(before) == []
    with read_events.listeners.listening("b-1", EventName.OBJECT_REMOVED_ALL.mask):
        await deleter.delete(ROOT, "b-1", ObjectIdentifier("k"))
        await deleter.delete_many(ROOT, "b-1", [ObjectIdentifier("l"), ObjectIdentifier("k", "null")])
    events = [(entry.event.kind, entry.event.subject) for entry in await store.events(before)]
    assert events == [("ObjectRemoved:NoOP", f"b-1/{key}") for key in ("k", "l", "k")]
