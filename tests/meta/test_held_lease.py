from __future__ import annotations

import asyncio

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Fenced
from lakebed.meta.held_lease import HeldLease
from lakebed.meta.leases import Leases
from lakebed.meta.seam import MetaStore

TTL = 20.0


def held(store: MetaStore, clock: ManualClock, holder: str, ttl_seconds: float = TTL) -> HeldLease:
    return HeldLease(store, Leases(store, clock), clock, "work", holder, ttl_seconds)


async def test_lease_has_one_holder_until_released(core_store: MetaStore, clock: ManualClock) -> None:
    one, two = held(core_store, clock, "one"), held(core_store, clock, "two")
    with pytest.raises(Fenced, match="not held"):
        _ = one.lease
    assert await one.acquire()
    assert one.lease.holder == "one"
    assert not await two.acquire()
    await one.release()
    with pytest.raises(Fenced):
        _ = one.lease
    assert await two.acquire()


async def test_lease_is_renewed_before_expiry(core_store: MetaStore, clock: ManualClock) -> None:
    one, two = held(core_store, clock, "one"), held(core_store, clock, "two")
    await one.acquire()
    first = one.lease
    clock.advance(TTL / 4)
    assert await one.acquire()
    assert one.lease == first
    clock.advance(TTL / 2)
    assert await one.acquire()
    assert one.lease.token == first.token
    assert one.lease.expires_ms > first.expires_ms
    clock.advance(TTL / 2)
    assert not await two.acquire()


async def test_expired_holder_detects_the_loss(core_store: MetaStore, clock: ManualClock) -> None:
    one, two = held(core_store, clock, "one"), held(core_store, clock, "two")
    await one.acquire()
    clock.advance(TTL + 1)
    assert await two.acquire()
    assert not await one.acquire()
    with pytest.raises(Fenced):
        _ = one.lease


async def test_lost_lease_is_acquired_again_when_free(core_store: MetaStore, clock: ManualClock) -> None:
    one = held(core_store, clock, "one")
    await one.acquire()
    token = one.lease.token
    one.mark_lost()
    assert await one.acquire()
    assert one.lease.token > token


async def test_keep_renewed_extends_the_lease(core_store: MetaStore, clock: ManualClock) -> None:
    one = held(core_store, clock, "one", ttl_seconds=0.04)
    await one.acquire()
    before = one.lease.expires_ms
    clock.advance(0.01)
    keeping = asyncio.create_task(one.keep_renewed())
    try:
        async with asyncio.timeout(30):
            while one.lease.expires_ms == before:
                await asyncio.sleep(0.005)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    assert one.lease.expires_ms > before
