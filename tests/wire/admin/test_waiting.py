from __future__ import annotations

import asyncio

from lakebed.wire.admin.waiting import poll_until
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request


def request(may_wait_results: list[bool] | None = None) -> Request:
    """A request that may always wait, or with these results of `may_wait`, then False."""

    def may_wait() -> bool:
        return may_wait_results is None or (may_wait_results.pop(0) if may_wait_results else False)

    return Request("GET", "/", "", {}, RequestBody(0), "http", "127.0.0.1", "R1", may_wait=may_wait)


async def event(left: float) -> bool:
    await asyncio.sleep(0)
    return True


async def no_event(left: float) -> bool:
    await asyncio.sleep(0)
    return False


async def test_no_wait_if_the_first_check_succeeds() -> None:
    checks: list[int] = []

    async def check() -> bool:
        checks.append(1)
        return True

    await poll_until(request([]), 30, check, no_event)
    assert len(checks) == 1


async def test_without_time_it_checks_once() -> None:
    checks: list[int] = []

    async def check() -> bool:
        checks.append(1)
        return False

    await poll_until(request(), 0, check, event)
    assert len(checks) == 1


async def test_it_checks_again_only_after_an_event() -> None:
    answers = [False, False, True]
    events = [False, True, False, False, True]

    async def check() -> bool:
        return answers.pop(0)

    async def wait_for_event(left: float) -> bool:
        return events.pop(0)

    await poll_until(request(), 30, check, wait_for_event)
    assert (answers, events) == ([], [])


async def test_it_stops_checking_after_a_disconnect() -> None:
    """A task leased for a disconnected client would wait until its lease expires."""
    checks: list[int] = []

    async def check() -> bool:
        checks.append(1)
        return False

    await poll_until(request([True, False]), 30, check, event)
    assert len(checks) == 1
    await poll_until(request([True, True, False]), 30, check, event)
    assert len(checks) == 3


async def test_it_ends_when_the_time_is_over() -> None:
    checks: list[int] = []

    async def check() -> bool:
        checks.append(1)
        return False

    await poll_until(request(), 0.02, check, no_event)
    assert checks
