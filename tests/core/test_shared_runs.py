"""Runs of an operation shared by callers."""

from __future__ import annotations

import asyncio

import pytest

from lakebed.core.shared_runs import SharedRuns


class Work:
    def __init__(self) -> None:
        self.began = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> None:
        self.began += 1
        number = self.began
        await self.may_end.wait()
        if number == 2:
            raise ConnectionResetError("the second fails")


async def test_callers_during_a_run_share_the_next_and_its_failure() -> None:
    work = Work()
    runs = SharedRuns(work)
    first = asyncio.create_task(runs.wait())
    while not work.began:
        await asyncio.sleep(0)
    others = [asyncio.create_task(runs.wait()) for _ in range(3)]
    others[0].cancel()
    work.may_end.set()
    await first
    outcomes = await asyncio.gather(*others, return_exceptions=True)
    assert [type(each) for each in outcomes] == [asyncio.CancelledError, ConnectionResetError, ConnectionResetError]
    assert work.began == 2
    await runs.wait()
    assert work.began == 3


async def test_run_without_remaining_callers_continues() -> None:
    work = Work()
    runs = SharedRuns(work)
    caller = asyncio.create_task(runs.wait())
    while not work.began:
        await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    next_one = asyncio.create_task(runs.wait())
    await asyncio.sleep(0)
    assert work.began == 1, "one at a time"
    work.may_end.set()
    with pytest.raises(ConnectionResetError):
        await next_one
