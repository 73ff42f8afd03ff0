from __future__ import annotations

import asyncio

from lakebed.wire.admin.waiting import poll_until
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request


def request(patience: list[bool] | None = None) -> Request:
    """A request; it may wait for as long as there is patience, if that is told."""

    def may_wait() -> bool:
        return patience is None or (patience.pop(0) if patience else False)

    return Request("GET", "/", "", {}, RequestBody(0), "http", "127.0.0.1", "R1", may_wait=may_wait)


async def news(left: float) -> bool:
    await asyncio.sleep(0)
    return True


async def silence(left: float) -> bool:
    await asyncio.sleep(0)
    return False


async def test_what_is_there_is_not_waited_for() -> None:
    looks: list[int] = []

    async def look() -> bool:
        looks.append(1)
        return True

    await poll_until(request([]), 30, look, silence)
    assert len(looks) == 1


async def test_without_time_it_looks_once() -> None:
    looks: list[int] = []

    async def look() -> bool:
        looks.append(1)
        return False

    await poll_until(request(), 0, look, news)
    assert len(looks) == 1


async def test_it_looks_again_only_when_there_is_news() -> None:
    answers = [False, False, True]
    heard = [False, True, False, False, True]

    async def look() -> bool:
        return answers.pop(0)

    async def wait_for_event(left: float) -> bool:
        return heard.pop(0)

    await poll_until(request(), 30, look, wait_for_event)
    assert (answers, heard) == ([], [])


async def test_nothing_is_looked_for_once_the_client_has_hung_up() -> None:
    """A task that is claimed for somebody who is gone would wait until its lease is over."""
    looks: list[int] = []

    async def look() -> bool:
        looks.append(1)
        return False

    await poll_until(request([True, False]), 30, look, news)
    assert len(looks) == 1
    await poll_until(request([True, True, False]), 30, look, news)
    assert len(looks) == 3


async def test_it_ends_when_the_time_is_over() -> None:
    looks: list[int] = []

    async def look() -> bool:
        looks.append(1)
        return False

    await poll_until(request(), 0.02, look, silence)
    assert looks
