"""Streams events as they arrive, with keep-alives, until the client disconnects or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from lakebed.core.errors import AccessDenied, NotFound

from .message import Request

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

AUTHORIZE_SECONDS: Final = 60.0
"""How often the client's permission is checked again."""

_SLICE_SECONDS: Final = 0.5
"""Longest time until a stopping server or a closed connection is noticed."""


class EventSource(Protocol[T_co]):
    """A subscription to events."""

    async def next(self, timeout_seconds: float) -> Sequence[T_co]:
        """The next events, in order; none if none arrived in that time."""
        ...


async def stream_subscription(
    request: Request,
    subscription: EventSource[T],
    write: Callable[[T], bytes],
    *,
    heartbeat: Callable[[], bytes],
    heartbeat_seconds: float,
    authorize: Callable[[], Awaitable[object]],
) -> AsyncIterator[bytes]:
    """Yield the events of a subscription, and a keep-alive after `heartbeat_seconds` without any.

    Ends when the client disconnects, when the server stops, and when `authorize` raises AccessDenied or NotFound.
    """
    loop = asyncio.get_running_loop()
    sent = authorized = loop.time()
    while request.may_wait():
        entries = await subscription.next(max(0.0, min(_SLICE_SECONDS, sent + heartbeat_seconds - loop.time())))
        now = loop.time()
        if entries:
            sent = now
            yield b"".join([write(entry) for entry in entries])
        elif now - sent >= heartbeat_seconds:
            sent = now
            yield heartbeat()
        if now - authorized >= AUTHORIZE_SECONDS:
            authorized = now
            try:
                await authorize()
            except (AccessDenied, NotFound):
                return
