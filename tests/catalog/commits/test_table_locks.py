from __future__ import annotations

import asyncio
import gc

import pytest

from lakebed.catalog.commits.table_locks import TableLocks
from tests.catalog.harness import name


async def test_changes_of_one_table_are_serialized_in_order() -> None:
    turns, seen = TableLocks(), list[str]()

    async def change(task: str) -> None:
        async with turns.hold("lake", [name("t")]):
            seen.append(f"{task} begins")
            await asyncio.sleep(0)
            seen.append(f"{task} ends")

    await asyncio.gather(*(change(task) for task in "abc"))
    assert seen == [f"{task} {what}" for task in "abc" for what in ("begins", "ends")]


async def test_changes_of_different_tables_do_not_wait_for_each_other() -> None:
    turns = TableLocks()
    async with (
        turns.hold("lake", [name("t")]),
        turns.hold("lake", [name("u")]),
        turns.hold("lake", [name("t", "other")]),
        turns.hold("pond", [name("t")]),
    ):
        pass


async def test_locks_of_several_tables_do_not_deadlock() -> None:
    turns, done = TableLocks(), 0

    async def change(*tables: str) -> None:
        nonlocal done
        async with turns.hold("lake", [name(table) for table in tables]):
            await asyncio.sleep(0)
            done += 1

    await asyncio.gather(*(change(*tables) for tables in ("ab", "ba", "abc", "ca", "bb", "a") for _ in range(3)))
    assert done == 18


async def test_lock_is_released_on_failure_and_cancellation() -> None:
    turns = TableLocks()
    with pytest.raises(RuntimeError):
        async with turns.hold("lake", [name()]):
            raise RuntimeError("no")

    async def wait_for_turn() -> None:
        async with turns.hold("lake", [name(), name("u")]):
            raise AssertionError("it never had its turn")

    async with turns.hold("lake", [name("u")]):
        waiting = asyncio.create_task(wait_for_turn())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with turns.hold("lake", [name()]):
            pass


async def test_unused_locks_are_removed() -> None:
    turns = TableLocks()
    for number in range(3):
        async with turns.hold("lake", [name(f"t{number}")]):
            assert len(turns._locks) == 1
    gc.collect()
    assert len(turns._locks) == 0
