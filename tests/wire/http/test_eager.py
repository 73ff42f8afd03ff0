from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine

import pytest

from lakebed.wire.http.eager import start_eagerly

from .serving import wait_until


async def start(coroutine: Coroutine[object, object, None]) -> set[asyncio.Task[object]]:
    """Start a coroutine from a callback, as a connection does; the tasks that this created."""
    loop = asyncio.get_running_loop()
    started: asyncio.Future[set[asyncio.Task[object]]] = loop.create_future()

    def callback() -> None:
        before = asyncio.all_tasks()
        try:
            start_eagerly(coroutine)
        except BaseException as error:
            started.set_exception(error)
        else:
            assert asyncio.current_task() is None
            started.set_result(asyncio.all_tasks() - before)

    loop.call_soon(callback)
    return await started


async def test_coroutine_that_never_suspends_finishes_without_a_task() -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append("done")

    assert await start(work()) == set()
    assert seen == ["done"]


async def test_suspended_coroutine_continues_as_a_task_with_the_awaited_results() -> None:
    seen: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        seen.append("begun")
        seen.append(await future)
        seen.append(await asyncio.sleep(0, "slept"))

    assert len(await start(work())) == 1
    assert seen == ["begun"]
    future.set_result("result")
    await wait_until(lambda: len(seen) == 3)
    assert seen == ["begun", "result", "slept"]


async def test_future_done_before_the_first_step_of_the_task_is_not_missed() -> None:
    seen: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        asyncio.get_running_loop().call_soon(future.set_result, "at once")
        seen.append(await future)

    await start(work())
    await wait_until(lambda: seen == ["at once"])


async def test_errors_of_awaited_futures_reach_the_coroutine() -> None:
    seen: list[object] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await future
        except ValueError as error:
            seen.append(str(error))

    await start(work())
    future.set_exception(ValueError("broken"))
    await wait_until(lambda: seen == ["broken"])


async def test_error_before_the_first_suspension_is_raised_to_the_caller() -> None:
    async def work() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        await start(work())


@pytest.mark.parametrize("steps", [0, 1, 3])
async def test_cancellation_reaches_the_coroutine_at_every_step(steps: int) -> None:
    seen: list[object] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append("cleaned up")
            raise

    (task,) = await start(work())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cleaned up"]


async def test_cancelling_the_task_before_its_first_step_cancels_the_coroutine() -> None:
    seen: list[object] = []
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await future
        finally:
            seen.append(await asyncio.sleep(0, "cleaned up"))

    def callback() -> None:
        before = asyncio.all_tasks()
        start_eagerly(work())
        (task,) = asyncio.all_tasks() - before
        task.cancel()

    asyncio.get_running_loop().call_soon(callback)
    await wait_until(lambda: seen == ["cleaned up"])


async def test_timeout_entered_before_the_first_suspension_cancels() -> None:
    seen: list[object] = []

    async def work() -> None:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            seen.append("too late")

    await start(work())
    await wait_until(lambda: seen == ["too late"])


async def test_timeouts_that_do_not_expire_leave_no_cancellation() -> None:
    seen: list[object] = []

    async def work() -> None:
        async with asyncio.timeout(10):
            seen.append("no wait at all")
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        seen.append(task.cancelling())

    await start(work())
    await wait_until(lambda: seen == ["no wait at all", 0])


async def test_task_group_entered_before_the_first_suspension_works() -> None:
    seen: list[object] = []

    async def fails() -> None:
        raise ValueError("one of them")

    async def work() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                await asyncio.get_running_loop().create_future()
        except* ValueError:
            seen.append("caught")

    await start(work())
    await wait_until(lambda: seen == ["caught"])


async def test_running_task_is_not_garbage_collected() -> None:
    seen: list[object] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        seen.append("done")

    await start(work())
    gc.collect()
    await wait_until(lambda: seen == ["done"])
