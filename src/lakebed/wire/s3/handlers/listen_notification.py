"""ListenBucketNotification and ListenNotification, as in MinIO: streams events as lines of JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.events.live.feed import S3EventFilter
from lakebed.events.live.listeners import ALL_BUCKETS
from lakebed.events.names import mask_of, parse_name
from lakebed.events.records import record_of, s3_event_of
from lakebed.events.rules.validation import check_filter_value
from lakebed.meta.outbox import OutboxEntry
from lakebed.wire.aws.numbers import whole_number
from lakebed.wire.http.message import Request, Response, decode_component
from lakebed.wire.http.streaming import stream_subscription

from ..request import S3Request
from ..services import S3Services

_SPACE_SECONDS: Final = 0.5
_MAX_PING_SECONDS: Final = 3600
_EMPTY: Final = b'{"Records":[]}\n'


async def listen_to_bucket(services: S3Services, request: S3Request) -> Response:
    """ListenBucketNotification: future events of a bucket."""

    async def authorize() -> None:
        await services.buckets.read(request.caller, request.bucket, "s3:ListenBucketNotification")

    return await _listen(services, request, authorize)


async def listen_to_all(services: S3Services, request: S3Request) -> Response:
    """ListenNotification: future events of all buckets."""

    async def authorize() -> None:
        await services.buckets.authorize_all(request.caller, "s3:ListenNotification")

    return await _listen(services, request, authorize)


async def _listen(services: S3Services, request: S3Request, authorize: Callable[[], Awaitable[None]]) -> Response:
    await authorize()
    event_filter, ping = _parameters(request)
    after = await services.feed.position()
    stream = _lines(services, request.http, event_filter, after, ping, authorize)
    return Response(
        200,
        [
            ("Content-Type", "text/event-stream"),
            ("Cache-Control", "no-cache"),
            ("X-Accel-Buffering", "no"),
        ],
        stream=stream,
    )


async def _lines(
    services: S3Services,
    request: Request,
    event_filter: S3EventFilter,
    after: int,
    ping: int | None,
    authorize: Callable[[], Awaitable[None]],
) -> AsyncIterator[bytes]:
    region = services.region

    def line(entry: OutboxEntry) -> bytes:
        event = s3_event_of(entry)
        if event is None:
            return b""
        return msgspec.json.encode({"Records": [record_of(event, rule_id="", region=region)]}) + b"\n"

    async with services.feed.subscribe(
        event_filter.matches, after=after, bucket=event_filter.bucket, mask=event_filter.mask
    ) as feed:
        async for piece in stream_subscription(
            request,
            feed,
            line,
            # A space is not a line, and has no meaning between JSON documents.
            heartbeat=lambda: b" " if ping is None else _EMPTY,
            heartbeat_seconds=_SPACE_SECONDS if ping is None else ping,
            authorize=authorize,
        ):
            yield piece


def _parameters(request: S3Request) -> tuple[S3EventFilter, int | None]:
    """The event filter, and the interval of keep-alive records. Raises InvalidInput."""
    values = _values(request.http)
    mask = mask_of(parse_name(name) for name in values["events"])
    if not mask:
        raise InvalidInput("events must name at least one event", argument="events")
    prefix, suffix, ping = (_only(name, values[name]) for name in ("prefix", "suffix", "ping"))
    check_filter_value("prefix", prefix)
    check_filter_value("suffix", suffix)
    seconds: int | None = None
    if ping is not None:
        seconds = whole_number(ping)
        if seconds is None or not 1 <= seconds <= _MAX_PING_SECONDS:
            raise InvalidInput(
                f"ping must be a number of seconds from 1 to {_MAX_PING_SECONDS}", argument="ping", value=ping[:80]
            )
    return S3EventFilter(mask, request.bucket or ALL_BUCKETS, prefix or "", suffix or ""), seconds


def _values(request: Request) -> dict[str, list[str]]:
    """All values of the operation's parameters, in order."""
    found: dict[str, list[str]] = {"events": [], "prefix": [], "suffix": [], "ping": []}
    for pair in request.raw_query.split("&"):
        name, _, value = pair.partition("=")
        values = found.get(decode_component(name))
        if values is not None:
            values.append(decode_component(value))
    return found


def _only(name: str, values: list[str]) -> str | None:
    if len(values) > 1:
        raise InvalidInput(f"{name} is given more than once", argument=name)
    return values[0] if values else None
