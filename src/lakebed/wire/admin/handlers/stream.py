"""The live feed: server-sent events, resumed with `Last-Event-ID`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from lakebed.events.forms import Form, parse_form, render
from lakebed.events.live.listeners import mask_of_selection
from lakebed.events.selection import EventSelection
from lakebed.meta.outbox import OutboxEntry
from lakebed.wire.http.message import Request, Response
from lakebed.wire.http.streaming import stream_subscription
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.routing import Route

from ..queries import check_parameters
from ..services import AdminServices
from .events import event_selection

ALIVE_SECONDS: Final = 15.0
"""The interval of heartbeats without events: below the idle timeouts of proxies."""

_PARAMETERS: Final = ("after", "kind", "subject", "principal", "form")
_LAST_ID: Final = "last-event-id"


async def stream_events(services: AdminServices, request: JsonRequest) -> Response:
    """Stream events from now on, or from the client's position."""
    http = request.http
    check_parameters(http, _PARAMETERS)
    selection = event_selection(http)
    form = parse_form(http.query.get("form", Form.LAKEBED.value))
    await services.events.authorize(request.caller)
    after, oldest = await _position(services, http)
    headers = [
        ("Content-Type", "text/event-stream; charset=utf-8"),
        ("Cache-Control", "no-cache"),
        ("X-Accel-Buffering", "no"),
    ]
    return Response(200, headers, stream=_events(services, request, selection, form, after, oldest))


async def _position(services: AdminServices, http: Request) -> tuple[int, int | None]:
    """The position to start at. If later events may be deleted already, also the oldest event. Raises InvalidInput."""
    ids = services.event_ids
    if _LAST_ID in http.headers:
        after = ids.parse_cursor(http.headers[_LAST_ID], "Last-Event-ID")
    elif "after" in http.query:
        after = ids.parse_cursor(http.query["after"], "after")
    else:
        return await services.feed.position(), None
    first = await services.feed.first()
    return after, first if after < first - 1 else None


async def _events(
    services: AdminServices,
    request: JsonRequest,
    selection: EventSelection,
    form: Form,
    after: int,
    oldest: int | None,
) -> AsyncIterator[bytes]:
    ids = services.event_ids

    def encode(entry: OutboxEntry) -> bytes:
        body = render(entry, form, region=services.region, ids=ids).body
        return b"id: %b\ndata: %b\n\n" % (ids.of(entry).encode(), body)

    yield b"retry: 1000\n\n"
    if oldest is not None:
        yield b"event: gap\ndata: %b\n\n" % msgspec.json.encode({"after": after, "first-seq": oldest})
    feed = services.feed
    async with feed.subscribe(
        lambda entry: selection.matches(entry.event), after=after, mask=mask_of_selection(selection)
    ) as subscription:
        async for piece in stream_subscription(
            request.http,
            subscription,
            encode,
            # With the position: a client that reconnects skips the events that did not match.
            heartbeat=lambda: b": alive\nid: %b\n\n" % ids.cursor(subscription.after).encode(),
            heartbeat_seconds=ALIVE_SECONDS,
            authorize=lambda: services.events.authorize(request.caller),
        ):
            yield piece


ROUTES = (Route("streamEvents", "GET", "/v1/events/stream", stream_events, is_standard=False),)
