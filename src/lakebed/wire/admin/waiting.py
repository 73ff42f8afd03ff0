"""Long polling: requests that wait for new events or tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.wire.http.message import Request

_SLICE_SECONDS: Final = 0.5
"""How long it takes at most to notice that the server ends, or that the client closed the connection."""


async def poll_until(
    request: Request,
    seconds: float,
    look: Callable[[], Awaitable[bool]],
    wait_for_event: Callable[[float], Awaitable[bool]],
) -> None:
    """Look at once, and again whenever there may be news, until something is found or the time is over.

    Also ends when the server stops, and when the client disconnects: it would never get what is found for it.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    if await look():
        return
    while (left := end - loop.time()) > 0 and request.may_wait():
        if await wait_for_event(min(left, _SLICE_SECONDS)) and request.may_wait() and await look():
            return
