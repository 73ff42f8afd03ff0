from __future__ import annotations

import asyncio

import pytest

from lakebed.wire.http.eager import start_eagerly

from .serving import wait_until


async def test_what_does_not_wait_is_done_at_once_without_a_task() -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append("done")

    before = asyncio.all_tasks()
    start_eagerly(work())
    assert seen == ["done"]
    assert asyncio.all_tasks() == before


async def test_what_waits_goes_on_as_a_task_with_the_results_it_waited_for() -> None:
    seen: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        seen.append("begun")
        seen.append(await future)
        await asyncio.sleep(0)
        assert asyncio.current_task() is not None
        async with asyncio.timeout(10):
            seen.append(await asyncio.sleep(0, "slept"))

    start_eagerly(work())
    assert seen == ["begun"]
    future.set_result("told")
    await wait_until(lambda: len(seen) == 3)
    assert seen == ["begun", "told", "slept"]


async def test_a_future_done_before_the_task_began_is_not_missed() -> None:
    seen: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        seen.append(await future)

    start_eagerly(work())
    future.set_result("at once")
    await wait_until(lambda: seen == ["at once"])


async def test_errors_of_what_it_waits_for_reach_it() -> None:
    seen: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await future
        except ValueError as error:
            seen.append(str(error))

    start_eagerly(work())
    future.set_exception(ValueError("broken"))
    await wait_until(lambda: seen == ["broken"])


async def test_an_error_before_the_first_wait_is_raised_to_the_caller() -> None:
    async def work() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        start_eagerly(work())


@pytest.mark.parametrize("steps", [0, 1, 3])
async def test_cancellation_reaches_it_wherever_it_waits(steps: int) -> None:
    seen: list[object] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append("cleaned up")
            raise

    before = asyncio.all_tasks()
    start_eagerly(work())
    (task,) = asyncio.all_tasks() - before
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cleaned up"]


async def test_a_task_that_nobody_holds_is_not_lost() -> None:
    import gc

    seen: list[object] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        seen.append("done")

    start_eagerly(work())
    gc.collect()
    await wait_until(lambda: seen == ["done"])
