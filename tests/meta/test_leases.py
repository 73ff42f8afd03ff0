from __future__ import annotations

import asyncio

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Fenced
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.seam import MetaStore, Transaction


@pytest.fixture
def leases(core_store: MetaStore, clock: ManualClock) -> Leases:
    return Leases(core_store, clock)


async def _take(leases: Leases, holder: str) -> Lease:
    lease = await leases.acquire("job", holder, ttl_seconds=10)
    assert lease is not None
    return lease


async def _check(store: MetaStore, leases: Leases, lease: Lease) -> None:
    async def work(tx: Transaction) -> None:
        await leases.check(tx, lease)

    await store.transact(work)


async def test_one_holder_at_a_time(leases: Leases) -> None:
    await _take(leases, "a")
    assert await leases.acquire("job", "b", 10) is None
    assert await leases.acquire("other job", "b", 10) is not None


async def test_concurrent_acquires_have_one_winner(leases: Leases) -> None:
    answers = await asyncio.gather(*(leases.acquire("job", f"holder-{number}", 10) for number in range(10)))
    assert sum(answer is not None for answer in answers) == 1


async def test_expired_lease_is_acquired_with_a_greater_token(leases: Leases, clock: ManualClock) -> None:
    first = await _take(leases, "a")
    clock.advance(10)
    second = await _take(leases, "b")
    assert second.token > first.token


async def test_released_lease_is_free_at_once_and_its_token_not_reused(leases: Leases) -> None:
    first = await _take(leases, "a")
    await leases.release(first)
    second = await _take(leases, "b")
    assert second.token > first.token
    await leases.release(first)  # no longer the first holder's
    assert await leases.acquire("job", "c", 10) is None


async def test_renewal_extends_the_lease(leases: Leases, clock: ManualClock) -> None:
    lease = await _take(leases, "a")
    for _ in range(5):
        clock.advance(9)
        lease = await leases.renew(lease, 10)
    assert await leases.acquire("job", "b", 10) is None


async def test_expired_holder_cannot_renew(leases: Leases, clock: ManualClock) -> None:
    lease = await _take(leases, "a")
    clock.advance(10)
    with pytest.raises(Fenced):
        await leases.renew(lease, 10)


async def test_superseded_holder_can_neither_renew_nor_commit(
    core_store: MetaStore, leases: Leases, clock: ManualClock
) -> None:
    old = await _take(leases, "a")
    clock.advance(10)
    new = await _take(leases, "b")
    with pytest.raises(Fenced):
        await leases.renew(old, 10)
    with pytest.raises(Fenced):
        await _check(core_store, leases, old)
    await _check(core_store, leases, new)


async def test_acquire_under_the_same_name_fences_the_previous_lease(core_store: MetaStore, leases: Leases) -> None:
    former = await _take(leases, "a")
    present = await _take(leases, "a")
    assert present.token > former.token
    with pytest.raises(Fenced):
        await _check(core_store, leases, former)
    await _check(core_store, leases, present)


async def test_released_holder_cannot_commit(core_store: MetaStore, leases: Leases) -> None:
    lease = await _take(leases, "a")
    await leases.release(lease)
    with pytest.raises(Fenced):
        await _check(core_store, leases, lease)


async def test_expired_lease_without_successor_still_commits(
    core_store: MetaStore, leases: Leases, clock: ManualClock
) -> None:
    lease = await _take(leases, "a")
    clock.advance(100)
    await _check(core_store, leases, lease)


async def test_empty_holder_name_is_rejected(leases: Leases) -> None:
    with pytest.raises(ValueError, match="name of its holder"):
        await leases.acquire("job", "", 10)


async def test_current_lease_can_be_read(core_store: MetaStore, leases: Leases) -> None:
    assert await leases.find(core_store, "job") is None
    lease = await _take(leases, "a")
    assert await leases.find(core_store, "job") == lease
    await leases.release(lease)
    assert await leases.find(core_store, "job") is None
