"""Long polling: requests that wait for new events or tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.wire.http.message import Request

_SLICE_SECONDS: Final = 0.5
"""How often a waiting request checks for a shutdown or a disconnected client."""


async def poll_until(
    request: Request,
    seconds: float,
    check: Callable[[], Awaitable[bool]],
    wait_for_event: Callable[[float], Awaitable[bool]],
) -> None:
    """Call `check` at once and after each event, until it returns True or the time is over.

    Also returns when the server stops or the client disconnects.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    if await check():
        return
    while (left := end - loop.time()) > 0 and request.may_wait():
        if await wait_for_event(min(left, _SLICE_SECONDS)) and request.may_wait() and await check():
            return
