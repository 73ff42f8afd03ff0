"""A byte budget is never exceeded, is fair, and forgets those who stop waiting."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.storage.budget import ByteBudget


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_more_than_the_budget_waits_for_a_release() -> None:
    budget = ByteBudget(10)
    await budget.acquire(6)
    waiting = asyncio.create_task(budget.acquire(5))
    await settle()
    assert not waiting.done()
    budget.release(6)
    await waiting
    assert budget.held_bytes == 5


async def test_small_request_does_not_overtake_a_large_one() -> None:
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


async def test_cancelled_request_lets_the_next_one_pass() -> None:
    budget = ByteBudget(10)
    await budget.acquire(5)
    large = asyncio.create_task(budget.acquire(10))
    small = asyncio.create_task(budget.acquire(5))
    await settle()
    large.cancel()
    await small
    assert budget.held_bytes == 10


async def test_request_granted_while_it_is_cancelled_gives_its_bytes_back() -> None:
    budget = ByteBudget(10)
    await budget.acquire(10)
    waiting = asyncio.create_task(budget.acquire(10))
    await settle()
    budget.release(10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget.held_bytes == 0


def test_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        ByteBudget(0)
