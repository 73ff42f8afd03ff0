from __future__ import annotations

import asyncio

from lakebed.catalog.commits.conflict_backoff import ConflictBackoff
from lakebed.catalog.identifiers import Identifier

ORDERS = Identifier(("sales",), "orders")
RETURNS = Identifier(("sales",), "returns")

FOR_EVER = 3600.0


async def settled(tasks: list[asyncio.Task[None]]) -> list[bool]:
    """The responses sent, once the event loop is idle."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


async def waiting(backoff: ConflictBackoff, count: int, table: Identifier = ORDERS) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(backoff.wait("lake", table)) for _ in range(count)]
    await settled(tasks)
    return tasks


async def end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_first_conflict_returns_at_once_then_one_per_commit() -> None:
    backoff = ConflictBackoff(FOR_EVER)
    tasks = await waiting(backoff, 4)
    assert await settled(tasks) == [True, False, False, False]
    backoff.committed("lake", ORDERS)
    assert await settled(tasks) == [True, True, False, False]
    backoff.committed("lake", ORDERS)
    assert await settled(tasks) == [True, True, True, False]
    await end(tasks)


async def test_commit_without_waiting_conflict_releases_the_next_one() -> None:
    backoff = ConflictBackoff(FOR_EVER)
    await end(await waiting(backoff, 1))
    backoff.committed("lake", ORDERS)
    tasks = await waiting(backoff, 2)
    assert await settled(tasks) == [True, False]
    await end(tasks)


async def test_wait_is_bounded() -> None:
    backoff = ConflictBackoff(0.001)
    tasks = await waiting(backoff, 5)
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks)
    assert not backoff._waiting


async def test_cancelled_wait_is_skipped() -> None:
    backoff = ConflictBackoff(FOR_EVER)
    tasks = await waiting(backoff, 3)
    tasks[1].cancel()
    backoff.committed("lake", ORDERS)
    assert await settled(tasks) == [True, True, True]
    assert tasks[1].cancelled()
    assert not tasks[2].cancelled()


async def test_tables_have_separate_queues() -> None:
    backoff = ConflictBackoff(FOR_EVER)
    orders = await waiting(backoff, 2)
    returns = await waiting(backoff, 2, RETURNS)
    backoff.committed("lake", RETURNS)
    assert await settled(orders) == [True, False]
    assert await settled(returns) == [True, True]
    await end(orders)


async def test_old_conflicts_are_forgotten() -> None:
    backoff = ConflictBackoff(0.0)
    for number in range(5000):
        await backoff.wait("lake", Identifier(("sales",), f"table_{number}"))
    assert len(backoff._last_sent) <= 1025
