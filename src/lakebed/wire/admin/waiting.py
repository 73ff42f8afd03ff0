"""Requests that wait for news: no longer than they said, and no longer than somebody is there for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.wire.http.message import Request

_SLICE_SECONDS: Final = 0.5
"""How long a server that ends, or a client that has gone, is not noticed."""


async def look_until(
    request: Request,
    seconds: float,
    look: Callable[[], Awaitable[bool]],
    wait_for_news: Callable[[float], Awaitable[bool]],
) -> None:
    """Look at once, and again whenever there may be news, until something was found or the time is over.

    Also ends when the server does, and when the client has hung up: it would never hear of what is found for it then.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    if await look():
        return
    while (left := end - loop.time()) > 0 and request.may_wait():
        if await wait_for_news(min(left, _SLICE_SECONDS)) and request.may_wait() and await look():
            return
