from __future__ import annotations

import asyncio

import pytest

from lakebed.core.errors import WriteConflict
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import MetaStore, Transaction
from tests.meta.stores import open_store

FAR_FUTURE_MS = 1 << 50


@pytest.fixture
def outbox(core_store: MetaStore) -> Outbox:
    return Outbox(core_store)


def _event(subject: str, occurred_ms: int = 1000) -> OutboxEvent:
    return OutboxEvent("made", subject, subject.encode() + b"\x00\xff", occurred_ms)


async def _append(store: MetaStore, outbox: Outbox, *subjects: str, occurred_ms: int = 1000) -> None:
    async def work(tx: Transaction) -> None:
        for subject in subjects:
            await outbox.append(tx, _event(subject, occurred_ms))

    while True:
        try:
            return await store.transact(work)
        except WriteConflict:
            continue


async def _open_cursor(store: MetaStore, outbox: Outbox, name: str, at_seq: int = 0) -> int:
    async def work(tx: Transaction) -> int:
        return await outbox.open_cursor(tx, name, at_seq=at_seq)

    return await store.transact(work)


async def _advance(store: MetaStore, outbox: Outbox, name: str, seq: int) -> bool:
    async def work(tx: Transaction) -> bool:
        return await outbox.advance(tx, name, seq)

    return await store.transact(work)


async def test_events_are_read_in_append_order(core_store: MetaStore, outbox: Outbox) -> None:
    await _append(core_store, outbox, "a", "b")
    await _append(core_store, outbox, "c")
    entries = await outbox.read_after(core_store, 0, 10)
    assert [entry.event for entry in entries] == [_event("a"), _event("b"), _event("c")]
    numbers = [entry.seq for entry in entries]
    assert numbers == sorted(set(numbers))
    assert await outbox.read_after(core_store, numbers[0], 1) == entries[1:2]
    assert await outbox.read_durable(numbers[1], 10) == entries[2:]
    assert await outbox.last_seq(core_store) == numbers[2]
    assert await outbox.first_seq(core_store) == numbers[0]


async def test_events_of_given_kinds_are_read_in_a_range(core_store: MetaStore, outbox: Outbox) -> None:
    async def work(tx: Transaction) -> None:
        for kind in ("made", "kept", "made", "lost"):
            await outbox.append(tx, OutboxEvent(kind, kind, b"", 1000))

    await core_store.transact(work)
    entries = await outbox.read_after(core_store, 0, 10)
    assert await outbox.read_kinds(core_store, 0, entries[-1].seq, ["made", "lost"]) == [entries[0], *entries[2:]]
    assert await outbox.read_kinds(core_store, entries[0].seq, entries[2].seq, ["made", "lost"]) == [entries[2]]
    assert await outbox.read_kinds(core_store, 0, entries[-1].seq, ["none"]) == []


async def test_first_seq_is_the_oldest_untrimmed_event(core_store: MetaStore, outbox: Outbox) -> None:
    assert await outbox.first_seq(core_store) == 0
    await _append(core_store, outbox, "a", "b", "c")
    _, kept, _ = [entry.seq for entry in await outbox.read_after(core_store, 0, 10)]
    assert await outbox.trim(occurred_before_ms=FAR_FUTURE_MS, limit=1) == 1
    assert await outbox.first_seq(core_store) == kept


async def test_event_of_a_rolled_back_transaction_is_never_read(core_store: MetaStore, outbox: Outbox) -> None:
    async def work(tx: Transaction) -> None:
        await outbox.append(tx, _event("lost"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await core_store.transact(work)
    assert await outbox.read_after(core_store, 0, 10) == []
    assert await outbox.last_seq(core_store) == 0


@pytest.mark.slow
async def test_no_event_appears_below_a_number_that_was_read(
    core_store: MetaStore, outbox: Outbox, address: str
) -> None:
    other_store = await open_store(address)
    other = Outbox(other_store)
    total = 240
    seen: list[tuple[int, str]] = []
    writing = True

    async def follow() -> None:
        position = 0
        while await outbox.wait_for_event(position, 0.05) or writing:
            for entry in await outbox.read_after(core_store, position, 7):
                assert entry.seq > position
                position = entry.seq
                seen.append((entry.seq, entry.event.subject))

    async def write(writer: int) -> None:
        store, box = ((core_store, outbox), (other_store, other))[writer % 2]
        for number in range(total // 8 // 3):
            await _append(store, box, *(f"{writer}-{number}-{part}" for part in range(3)))

    following = asyncio.create_task(follow())
    await asyncio.gather(*(write(writer) for writer in range(8)))
    writing = False
    await following
    assert len({subject for _, subject in seen}) == total
    assert seen == sorted(seen)
    await other_store.close()


async def test_events_of_this_process_wake_waiters(core_store: MetaStore, outbox: Outbox) -> None:
    waiting = asyncio.create_task(outbox.wait_for_event(0, 60))
    await asyncio.sleep(0)
    await _append(core_store, outbox, "a")
    assert await waiting


async def test_events_of_another_process_wake_waiters(core_store: MetaStore, outbox: Outbox, address: str) -> None:
    other = await open_store(address)
    waiting = asyncio.create_task(outbox.wait_for_event(0, 60))
    await asyncio.sleep(0)
    await _append(other, Outbox(other), "a")
    assert await waiting
    await other.close()


async def test_wait_for_event_times_out(outbox: Outbox) -> None:
    assert not await outbox.wait_for_event(0, 0.01)


async def test_cursor_is_stored_and_only_moves_forward(core_store: MetaStore, outbox: Outbox) -> None:
    assert await outbox.cursor(core_store, "audit") is None
    assert await _open_cursor(core_store, outbox, "audit", 3) == 3
    assert await _open_cursor(core_store, outbox, "audit", 99) == 3
    assert await _advance(core_store, outbox, "audit", 5)
    assert not await _advance(core_store, outbox, "audit", 4)
    assert not await _advance(core_store, outbox, "unknown", 4)
    await _open_cursor(core_store, outbox, "Zebra", 1)
    assert await outbox.cursors(core_store) == [("Zebra", 1), ("audit", 5)]


async def test_trimming_waits_for_the_slowest_cursor(core_store: MetaStore, outbox: Outbox) -> None:
    await _append(core_store, outbox, *"abcdef")
    numbers = [entry.seq for entry in await outbox.read_after(core_store, 0, 10)]
    await _open_cursor(core_store, outbox, "fast", numbers[4])
    await _open_cursor(core_store, outbox, "slow", numbers[1])
    assert await outbox.trim(occurred_before_ms=FAR_FUTURE_MS) == 2
    assert await outbox.trim(occurred_before_ms=FAR_FUTURE_MS) == 0

    async def forget_slow(tx: Transaction) -> None:
        await outbox.drop_cursor(tx, "slow")

    await core_store.transact(forget_slow)
    assert await outbox.trim(occurred_before_ms=FAR_FUTURE_MS, limit=2) == 2
    assert await outbox.trim(occurred_before_ms=FAR_FUTURE_MS) == 1
    assert [entry.event.subject for entry in await outbox.read_after(core_store, 0, 10)] == ["f"]


async def test_trimming_spares_young_events_and_never_reuses_numbers(core_store: MetaStore, outbox: Outbox) -> None:
    await _append(core_store, outbox, "old", occurred_ms=1000)
    await _append(core_store, outbox, "young", occurred_ms=5000)
    assert await outbox.trim(occurred_before_ms=5000) == 1
    last = await outbox.last_seq(core_store)
    assert await outbox.trim(occurred_before_ms=5001) == 1
    await _append(core_store, outbox, "next")
    assert await outbox.last_seq(core_store) > last
