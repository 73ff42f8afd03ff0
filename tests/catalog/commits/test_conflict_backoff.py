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


async def losing(losers: ConflictBackoff, count: int, table: Identifier = ORDERS) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(losers.wait("lake", table)) for _ in range(count)]
    await settled(tasks)
    return tasks


async def end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_first_conflict_returns_at_once_then_one_per_commit() -> None:
    losers = ConflictBackoff(FOR_EVER)
    tasks = await losing(losers, 4)
    assert await settled(tasks) == [True, False, False, False]
    losers.committed("lake", ORDERS)
    assert await settled(tasks) == [True, True, False, False]
    losers.committed("lake", ORDERS)
    assert await settled(tasks) == [True, True, True, False]
    await end(tasks)


async def test_commit_without_waiting_conflict_releases_the_next_one() -> None:
    losers = ConflictBackoff(FOR_EVER)
    await end(await losing(losers, 1))
    losers.committed("lake", ORDERS)
    tasks = await losing(losers, 2)
    assert await settled(tasks) == [True, False]
    await end(tasks)


async def test_wait_is_bounded() -> None:
    losers = ConflictBackoff(0.001)
    tasks = await losing(losers, 5)
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks)
    assert not losers._waiting


async def test_cancelled_wait_is_skipped() -> None:
    losers = ConflictBackoff(FOR_EVER)
    tasks = await losing(losers, 3)
    tasks[1].cancel()
    losers.committed("lake", ORDERS)
    assert await settled(tasks) == [True, True, True]
    assert tasks[1].cancelled()
    assert not tasks[2].cancelled()


async def test_tables_have_separate_queues() -> None:
    losers = ConflictBackoff(FOR_EVER)
    orders = await losing(losers, 2)
    returns = await losing(losers, 2, RETURNS)
    losers.committed("lake", RETURNS)
    assert await settled(orders) == [True, False]
    assert await settled(returns) == [True, True]
    await end(orders)


async def test_old_conflicts_are_forgotten() -> None:
    losers = ConflictBackoff(0.0)
    for number in range(5000):
        await losers.wait("lake", Identifier(("sales",), f"table_{number}"))
    assert len(losers._last_sent) <= 1025
