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
    """A store that cannot be written to until it is mended."""

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


async def test_a_read_is_told_of_if_somebody_asks(store: ObjectStore) -> None:
    bucket = await store.bucket("b-1")
    written = await store.put("b-1", "k", b"abc")
    accesses = recorder(store)
    accesses.emit("ObjectAccessed:Get", bucket, written.object, ROOT)
    assert await accesses.flush() == 0
    with accesses.listeners.listening("b-1", READS):
        accesses.emit("ObjectAccessed:Get", bucket, written.object, ROOT)
        read_ms = store.clock.now_ms()
        store.clock.advance(5)
        accesses.emit("ObjectAccessed:Head", bucket, written.object, ROOT)
    assert await kinds(store) == [], "the request has not waited"
    assert await accesses.flush() == 2
    assert await kinds(store) == ["ObjectAccessed:Get", "ObjectAccessed:Head"]
    told = (await store.events())[-2].event
    assert (told.subject, told.occurred_ms) == ("b-1/k", read_ms)
    payload = decode_event(told.payload)
    assert (payload.size, payload.etag, payload.principal) == (3, written.object.etag, "root")
    assert await accesses.flush() == 0


async def test_what_cannot_be_written_stays_and_what_is_too_much_is_counted(
    store: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    bucket = await store.bucket("b-1")
    written = await store.put("b-1", "k")
    failing = FailingStore(store.meta)
    accesses = recorder(store, failing, max_entries=2)  # type: ignore[arg-type]  # it is only written to
    with accesses.listeners.listening("b-1", READS):
        for _ in range(3):
            accesses.emit("ObjectAccessed:Get", bucket, written.object, ROOT)
    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable):
        await accesses.flush()
    assert "read events dropped: write buffer full" in caplog.text
    failing.is_broken = False
    assert await accesses.flush() == 2
    assert len(await kinds(store)) == 2


async def test_a_process_that_ends_writes_what_is_left(store: ObjectStore) -> None:
    bucket = await store.bucket("b-1")
    written = await store.put("b-1", "k")
    accesses = recorder(store)
    running = asyncio.create_task(accesses.run())
    await asyncio.sleep(0)
    with accesses.listeners.listening("b-1", READS):
        accesses.emit("ObjectAccessed:Get", bucket, written.object, ROOT)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await kinds(store) == ["ObjectAccessed:Get"]


async def test_locks_that_are_looked_at_are_told_of(store: ObjectStore) -> None:
    accesses = recorder(store)
    object_context = replace(store.object_context, read_events=accesses)
    annotations = TagsAndLocks(object_context, ObjectReader(object_context))
    await store.buckets.create(ROOT, "b-1", object_lock=True)
    await store.put("b-1", "k")
    until = Retention(RetentionMode.GOVERNANCE, store.clock.now_ms() + 1000)
    await annotations.set_retention(ROOT, "b-1", "k", None, until)
    await annotations.set_legal_hold(ROOT, "b-1", "k", None, True)
    with accesses.listeners.listening("b-1", READS):
        await annotations.retention(ROOT, "b-1", "k", None)
        await annotations.legal_hold(ROOT, "b-1", "k", None)
    await accesses.flush()
    assert [entry.event.kind for entry in await store.events()][-4:] == [
        "ObjectCreated:PutRetention",
        "ObjectCreated:PutLegalHold",
        "ObjectAccessed:GetRetention",
        "ObjectAccessed:GetLegalHold",
    ]


async def test_a_deletion_of_what_was_not_there_is_told_of_if_somebody_asks(store: ObjectStore) -> None:
    accesses = recorder(store)
    deleter = ObjectDeleter(replace(store.object_context, read_events=accesses))
    await store.bucket("b-1")
    before = (await store.events())[-1].seq
    await deleter.delete(ROOT, "b-1", ObjectIdentifier("k"))
    assert await store.events(before) == []
    with accesses.listeners.listening("b-1", EventName.OBJECT_REMOVED_ALL.mask):
        await deleter.delete(ROOT, "b-1", ObjectIdentifier("k"))
        await deleter.delete_many(ROOT, "b-1", [ObjectIdentifier("l"), ObjectIdentifier("k", "null")])
    told = [(entry.event.kind, entry.event.subject) for entry in await store.events(before)]
    assert told == [("ObjectRemoved:NoOP", f"b-1/{key}") for key in ("k", "l", "k")]
