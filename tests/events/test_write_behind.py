from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.errors import Unavailable
from lakebed.events.write_behind import BATCH, WriteBehind
from lakebed.meta.outbox import FIRST_REQUEST, REQUESTS, Outbox, OutboxEvent
from lakebed.meta.seam import MetaStore, T, Work
from tests.meta.stores import open_migrated_file


class CountingStore:
    """Counts transactions, and fails them while it is broken."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta
        self.is_broken = False
        self.transactions = 0

    async def transact(self, work: Work[T]) -> T:
        if self.is_broken:
            raise Unavailable("broken")
        self.transactions += 1
        return await self._meta.transact(work)


@pytest.fixture
async def meta(tmp_path: Path) -> AsyncIterator[MetaStore]:
    store = await open_migrated_file(tmp_path / "meta.db")
    yield store
    await store.close()


def request_entry(number: int, size: int = 1) -> OutboxEvent:
    return OutboxEvent("s3:GetObject", f"R{number}", b"x" * size, 1)


async def written(meta: MetaStore) -> list[str]:
    return [entry.event.subject for entry in await Outbox(meta, REQUESTS).read_after(meta, 0, 10_000)]


def write_buffer(meta: object, log: Outbox, dropped: list[int], **bounds: int) -> WriteBehind:
    return WriteBehind(
        meta,  # type: ignore[arg-type]  # it is only written to
        log,
        "requests",
        flush_seconds=3600,
        on_drop=dropped.append,
        **bounds,
    )


async def test_entries_are_written_in_batches_apart_from_the_outbox(meta: MetaStore) -> None:
    store = CountingStore(meta)
    buffer = write_buffer(store, Outbox(meta, REQUESTS), [])
    for number in range(BATCH + 1):
        buffer.add(request_entry(number))
    assert await written(meta) == [], "entries are buffered"
    assert await buffer.flush() == BATCH + 1
    assert store.transactions == 2
    assert await written(meta) == [f"R{number}" for number in range(BATCH + 1)]
    assert await Outbox(meta).last_seq(meta) == 0
    assert await Outbox(meta, REQUESTS).first_seq(meta) == FIRST_REQUEST


async def test_entries_beyond_the_limit_are_dropped_counted_and_logged(
    meta: MetaStore, caplog: pytest.LogCaptureFixture
) -> None:
    store, dropped = CountingStore(meta), list[int]()
    buffer = write_buffer(store, Outbox(meta, REQUESTS), dropped, max_entries=2)
    store.is_broken = True
    for number in range(5):
        buffer.add(request_entry(number))
    assert sum(dropped) == 3
    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable):
        await buffer.flush()
    assert "requests dropped: write buffer full" in caplog.text
    store.is_broken = False
    assert await buffer.flush() == 2
    assert await written(meta) == ["R0", "R1"]
    buffer.add(request_entry(9))
    assert await buffer.flush() == 1, "the buffer has room again"


async def test_buffered_bytes_are_bounded(meta: MetaStore) -> None:
    dropped = list[int]()
    buffer = write_buffer(meta, Outbox(meta, REQUESTS), dropped, max_bytes=100)
    for number in range(4):
        buffer.add(request_entry(number, size=60))
    assert sum(dropped) == 2
    await buffer.flush()
    buffer.add(request_entry(9, size=60))
    assert sum(dropped) == 2
    assert buffer.has_room


async def test_full_batch_is_written_at_once(meta: MetaStore) -> None:
    buffer = write_buffer(meta, log := Outbox(meta, REQUESTS), [])
    running = asyncio.create_task(buffer.run())
    for number in range(BATCH):
        buffer.add(request_entry(number))
    assert await log.wait_for_event(0, 30), "although flush_seconds is an hour"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(await written(meta)) == BATCH


async def test_stopping_process_writes_its_buffer(meta: MetaStore) -> None:
    buffer = write_buffer(meta, Outbox(meta, REQUESTS), [])
    running = asyncio.create_task(buffer.run())
    await asyncio.sleep(0)
    buffer.add(request_entry(1))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await written(meta) == ["R1"]
