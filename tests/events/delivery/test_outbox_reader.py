from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from lakebed.core.errors import Unavailable
from lakebed.events.delivery.outbox_reader import Batch, OutboxReader
from lakebed.events.rules import RuleMatcher
from lakebed.meta.outbox import Outbox, OutboxEntry

from .conftest import DeliveryHarness


class Counting(Outbox):
    """RecordingObserver reads."""

    reads = 0

    async def read_durable(self, seq: int, limit: int) -> list[OutboxEntry]:
        self.reads += 1
        return await super().read_durable(seq, limit)


@pytest.fixture
def outbox(harness: DeliveryHarness) -> Counting:
    return Counting(harness.object_context.meta)


def seqs(batch: Batch) -> list[int]:
    return [entry.seq for entry in batch.entries]


async def test_readers_at_the_same_position_share_one_read(harness: DeliveryHarness, outbox: Counting) -> None:
    await harness.emit(*"abcde")
    reader = OutboxReader(outbox, RuleMatcher(harness.object_context.meta))
    batches = await asyncio.gather(*(reader.after(0) for _ in range(5)))
    assert [seqs(batch) for batch in batches] == [[1, 2, 3, 4, 5]] * 5
    assert seqs(await reader.after(3)) == [4, 5]
    assert len((await reader.after(3)).rules) == 2
    assert outbox.reads == 1


async def test_slower_reader_does_not_replace_the_cached_batch(harness: DeliveryHarness, outbox: Counting) -> None:
    await harness.emit(*"abcdef")
    reader = OutboxReader(outbox, RuleMatcher(harness.object_context.meta), batch=3)
    assert seqs(await reader.after(3)) == [4, 5, 6]
    assert seqs(await reader.after(0)) == [1, 2, 3]
    assert seqs(await reader.after(4)) == [5, 6]
    assert outbox.reads == 2


async def test_batch_is_full_only_at_its_maximum_size(harness: DeliveryHarness, outbox: Counting) -> None:
    await harness.emit(*"abcde")
    reader = OutboxReader(outbox, RuleMatcher(harness.object_context.meta), batch=3)
    assert (await reader.after(0)).is_full
    assert (await reader.after(1)).is_full
    assert not (await reader.after(3)).is_full


async def test_later_events_are_read(harness: DeliveryHarness, outbox: Counting) -> None:
    reader = OutboxReader(outbox, RuleMatcher(harness.object_context.meta))
    assert seqs(await reader.after(0)) == []
    await harness.emit("a")
    assert seqs(await reader.after(0)) == [1]
    await harness.emit("b")
    assert seqs(await reader.after(1)) == [2]
    assert seqs(await reader.after(0)) == [1, 2]


async def test_failed_read_fails_all_its_waiters_and_no_later_reader(
    harness: DeliveryHarness, outbox: Counting
) -> None:
    class Failing(RuleMatcher):
        failures = 1

        async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
            if self.failures:
                self.failures -= 1
                raise Unavailable("down")
            return await super().matches(entries)

    await harness.emit("a")
    reader = OutboxReader(outbox, Failing(harness.object_context.meta))
    outcomes = await asyncio.gather(reader.after(0), reader.after(0), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
    assert seqs(await reader.after(0)) == [1]


async def test_cancelled_reader_does_not_cancel_the_shared_read(harness: DeliveryHarness, outbox: Counting) -> None:
    go = asyncio.Event()

    class Slow(RuleMatcher):
        async def matches(self, entries: Sequence[OutboxEntry]) -> Sequence[Mapping[str, str]]:
            await go.wait()
            return await super().matches(entries)

    await harness.emit("a")
    reader = OutboxReader(outbox, Slow(harness.object_context.meta))
    leaving, staying = asyncio.create_task(reader.after(0)), asyncio.create_task(reader.after(0))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    go.set()
    assert seqs(await staying) == [1]
    assert outbox.reads == 1
