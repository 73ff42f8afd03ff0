"""Answers that go on: events as they come, signs of life in between, until somebody has had enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from lakebed.core.errors import AccessDenied, NotFound
from lakebed.events.feed import Subscription
from lakebed.meta.outbox import Entry
from lakebed.wire.http.message import Request

ADMIT_SECONDS: Final = 60.0
"""How often it is asked whether who listens still may."""

_SLICE_SECONDS: Final = 0.5
"""How long a server that ends, or a client that has gone, is not noticed."""


async def follow(
    request: Request,
    subscription: Subscription,
    write: Callable[[Entry], bytes],
    *,
    sign_of_life: Callable[[], bytes],
    every_seconds: float,
    admit: Callable[[], Awaitable[object]],
) -> AsyncIterator[bytes]:
    """The events of a subscription, and a sign of life when there were none for so long.

    Ends when the client has hung up, when the server does, and when `admit` says that the client may no longer.
    """
    loop = asyncio.get_running_loop()
    sent = admitted = loop.time()
    while request.may_wait():
        entries = await subscription.next(max(0.0, min(_SLICE_SECONDS, sent + every_seconds - loop.time())))
        now = loop.time()
        if entries:
            sent = now
            yield b"".join([write(entry) for entry in entries])
        elif now - sent >= every_seconds:
            sent = now
            yield sign_of_life()
        if now - admitted >= ADMIT_SECONDS:
            admitted = now
            try:
                await admit()
            except (AccessDenied, NotFound):
                return
