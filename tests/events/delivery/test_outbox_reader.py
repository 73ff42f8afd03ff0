from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from lakebed.core.errors import Unavailable
from lakebed.events.delivery.outbox_reader import Batch, OutboxReader
from lakebed.events.rules import RuleMatcher
from lakebed.meta.outbox import Outbox, OutboxEntry

from .conftest import Office


class Counting(Outbox):
    """Counts how often it is read."""

    reads = 0

    async def read_durable(self, seq: int, limit: int) -> list[OutboxEntry]:
        self.reads += 1
        return await super().read_durable(seq, limit)


@pytest.fixture
def outbox(office: Office) -> Counting:
    return Counting(office.object_context.meta)


def seqs(batch: Batch) -> list[int]:
    return [entry.seq for entry in batch.entries]


async def test_those_who_are_level_share_one_read(office: Office, outbox: Counting) -> None:
    await office.tell(*"abcde")
    feed = OutboxReader(outbox, RuleMatcher(office.object_context.meta))
    batches = await asyncio.gather(*(feed.after(0) for _ in range(5)))
    assert [seqs(batch) for batch in batches] == [[1, 2, 3, 4, 5]] * 5
    assert seqs(await feed.after(3)) == [4, 5]
    assert len((await feed.after(3)).rules) == 2
    assert outbox.reads == 1


async def test_who_is_behind_reads_without_taking_it_from_the_others(office: Office, outbox: Counting) -> None:
    await office.tell(*"abcdef")
    feed = OutboxReader(outbox, RuleMatcher(office.object_context.meta), batch=3)
    assert seqs(await feed.after(3)) == [4, 5, 6]
    assert seqs(await feed.after(0)) == [1, 2, 3]
    assert seqs(await feed.after(4)) == [5, 6]
    assert outbox.reads == 2


async def test_a_batch_knows_whether_it_took_all_there_was(office: Office, outbox: Counting) -> None:
    await office.tell(*"abcde")
    feed = OutboxReader(outbox, RuleMatcher(office.object_context.meta), batch=3)
    assert (await feed.after(0)).is_full
    assert (await feed.after(1)).is_full
    assert not (await feed.after(3)).is_full


async def test_what_comes_later_is_read_when_it_is_there(office: Office, outbox: Counting) -> None:
    feed = OutboxReader(outbox, RuleMatcher(office.object_context.meta))
    assert seqs(await feed.after(0)) == []
    await office.tell("a")
    assert seqs(await feed.after(0)) == [1]
    await office.tell("b")
    assert seqs(await feed.after(1)) == [2]
    # Nobody misses what came since a batch was read.
    assert seqs(await feed.after(0)) == [1, 2]


async def test_a_read_that_fails_fails_for_all_who_wait_and_for_nobody_else(office: Office, outbox: Counting) -> None:
    class Failing(RuleMatcher):
        failures = 1

        async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
            if self.failures:
                self.failures -= 1
                raise Unavailable("down")
            return await super().matches(entries)

    await office.tell("a")
    feed = OutboxReader(outbox, Failing(office.object_context.meta))
    outcomes = await asyncio.gather(feed.after(0), feed.after(0), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
    assert seqs(await feed.after(0)) == [1]


async def test_who_stops_waiting_does_not_take_the_read_from_the_others(office: Office, outbox: Counting) -> None:
    go = asyncio.Event()

    class Slow(RuleMatcher):
        async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
            await go.wait()
            return await super().matches(entries)

    await office.tell("a")
    feed = OutboxReader(outbox, Slow(office.object_context.meta))
    leaving, staying = asyncio.create_task(feed.after(0)), asyncio.create_task(feed.after(0))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    go.set()
    assert seqs(await staying) == [1]
    assert outbox.reads == 1
