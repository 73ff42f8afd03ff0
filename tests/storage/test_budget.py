"""A byte budget is never exceeded, is fair, and handles cancelled requests."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.storage.budget import ByteBudget


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_request_over_the_free_bytes_waits_for_a_release() -> None:
    budget = ByteBudget(10)
    await budget.acquire(6)
    waiting = asyncio.create_task(budget.acquire(5))
    await settle()
    assert not waiting.done()
    budget.release(6)
    await waiting
    assert budget.held_bytes == 5


async def test_requests_are_granted_in_order() -> None:
    budget = ByteBudget(10)
    await budget.acquire(6)
    large = asyncio.create_task(budget.acquire(10))
    small = asyncio.create_task(budget.acquire(1))
    await settle()
    assert not small.done()
    budget.release(6)
    await large
    await settle()
    assert not small.done()
    budget.release(10)
    await small


async def test_request_over_the_whole_budget_is_granted_alone() -> None:
    budget = ByteBudget(10)
    await budget.acquire(1)
    huge = asyncio.create_task(budget.acquire(100))
    await settle()
    assert not huge.done()
    budget.release(1)
    await huge
    assert budget.held_bytes == 100


async def test_cancelled_request_does_not_block_the_next() -> None:
    budget = ByteBudget(10)
    await budget.acquire(5)
    large = asyncio.create_task(budget.acquire(10))
    small = asyncio.create_task(budget.acquire(5))
    await settle()
    large.cancel()
    await small
    assert budget.held_bytes == 10


async def test_request_granted_during_its_cancellation_releases_its_bytes() -> None:
    budget = ByteBudget(10)
    await budget.acquire(10)
    waiting = asyncio.create_task(budget.acquire(10))
    await settle()
    budget.release(10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget.held_bytes == 0


def test_empty_budget_is_rejected() -> None:
    with pytest.raises(ValueError, match="positive"):
        ByteBudget(0)
