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


class Watched:
    """A store that counts transactions, and cannot be written to while it is broken."""

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


def a_request(number: int, size: int = 1) -> OutboxEvent:
    return OutboxEvent("s3:GetObject", f"R{number}", b"x" * size, 1)


async def written(meta: MetaStore) -> list[str]:
    return [entry.event.subject for entry in await Outbox(meta, REQUESTS).read_after(meta, 0, 10_000)]


def behind(meta: object, log: Outbox, dropped: list[int], **bounds: int) -> WriteBehind:
    return WriteBehind(
        meta,  # type: ignore[arg-type]  # it is only written to
        log,
        "requests",
        flush_seconds=3600,
        on_drop=dropped.append,
        **bounds,
    )


async def test_many_are_written_in_one_transaction_apart_from_the_outbox(meta: MetaStore) -> None:
    watched = Watched(meta)
    gathered = behind(watched, Outbox(meta, REQUESTS), [])
    for number in range(BATCH + 1):
        gathered.add(a_request(number))
    assert await written(meta) == [], "nobody has waited"
    assert await gathered.flush() == BATCH + 1
    assert watched.transactions == 2
    assert await written(meta) == [f"R{number}" for number in range(BATCH + 1)]
    assert await Outbox(meta).last_seq(meta) == 0
    assert await Outbox(meta, REQUESTS).first_seq(meta) == FIRST_REQUEST


async def test_what_is_too_much_is_counted_and_told_and_nobody_waits(
    meta: MetaStore, caplog: pytest.LogCaptureFixture
) -> None:
    watched, dropped = Watched(meta), list[int]()
    gathered = behind(watched, Outbox(meta, REQUESTS), dropped, max_entries=2)
    watched.is_broken = True
    for number in range(5):
        gathered.add(a_request(number))
    assert sum(dropped) == 3
    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable):
        await gathered.flush()
    assert "requests dropped: write buffer full" in caplog.text
    watched.is_broken = False
    assert await gathered.flush() == 2
    assert await written(meta) == ["R0", "R1"]
    gathered.add(a_request(9))
    assert await gathered.flush() == 1, "there is room again"


async def test_bytes_are_bounded_too(meta: MetaStore) -> None:
    dropped = list[int]()
    gathered = behind(meta, Outbox(meta, REQUESTS), dropped, max_bytes=100)
    for number in range(4):
        gathered.add(a_request(number, size=60))
    assert sum(dropped) == 2
    await gathered.flush()
    gathered.add(a_request(9, size=60))
    assert sum(dropped) == 2
    assert gathered.has_room


async def test_when_a_transaction_is_full_it_is_written_without_waiting_longer(meta: MetaStore) -> None:
    gathered = behind(meta, log := Outbox(meta, REQUESTS), [])
    running = asyncio.create_task(gathered.run())
    for number in range(BATCH):
        gathered.add(a_request(number))
    assert await log.wait_for_event(0, 30), "though the time of a flush is an hour"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(await written(meta)) == BATCH


async def test_a_process_that_ends_writes_what_is_left(meta: MetaStore) -> None:
    gathered = behind(meta, Outbox(meta, REQUESTS), [])
    running = asyncio.create_task(gathered.run())
    await asyncio.sleep(0)
    gathered.add(a_request(1))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await written(meta) == ["R1"]
