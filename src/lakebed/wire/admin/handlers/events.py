"""The event log and the audit trail, by cursor."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from lakebed.events.log import MAX_EVENTS, EventLog, EventPage
from lakebed.events.selection import EVERYTHING, parse_selection
from lakebed.meta.outbox import Entry
from lakebed.wire.http.message import Response
from lakebed.wire.iceberg.answers import ok
from lakebed.wire.iceberg.request import CatalogRequest
from lakebed.wire.iceberg.routes import Route
from lakebed.wire.iceberg.services import CatalogServices

from ..queries import check_names, wait_seconds, whole_number
from ..waiting import look_until

_PARAMETERS = ("after", "limit", "wait-seconds", "kind")


async def list_events(services: CatalogServices, request: CatalogRequest) -> Response:
    """What happened, of whatever kind."""
    return await _answer(services.admin.events, request)


async def list_audit(services: CatalogServices, request: CatalogRequest) -> Response:
    """What happened to users, keys and policies."""
    return await _answer(services.admin.audit, request)


async def _answer(log: EventLog, request: CatalogRequest) -> Response:
    http = request.http
    check_names(http, _PARAMETERS)
    limit = whole_number(http, "limit", MAX_EVENTS, most=MAX_EVENTS)
    seconds = wait_seconds(http) if limit else 0.0
    kinds = http.query.get("kind")
    selection = EVERYTHING if kinds is None else parse_selection(kinds)
    page = EventPage((), whole_number(http, "after", 0), 0, 0)

    async def look() -> bool:
        nonlocal page
        page = await log.read(request.caller, selection, after=page.next_after, limit=limit)
        return bool(page.entries)

    async def wait_for_news(left: float) -> bool:
        return await log.wait_for_news(page.next_after, left)

    await look_until(http, seconds, look, wait_for_news)
    return ok(
        {
            "events": [_event(entry) for entry in page.entries],
            "next-after": page.next_after,
            "last-seq": page.last_seq,
            "first-seq": page.first_seq,
        }
    )


def _event(entry: Entry) -> dict[str, Any]:
    event = entry.event
    return {
        "seq": entry.seq,
        "kind": event.kind,
        "subject": event.subject,
        "occurred-ms": event.occurred_ms,
        "payload": msgspec.Raw(payload_document(event.payload)),
    }


def payload_document(payload: bytes) -> bytes:
    """A payload of whatever kind as a JSON object, bytes in it as base64.

    One that cannot be read is shown as it is: whoever reads the log must be able to go on behind it.
    """
    try:
        decoded = msgspec.msgpack.decode(payload)
        return msgspec.json.encode(decoded if isinstance(decoded, dict) else {"value": decoded})
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return msgspec.json.encode({"unreadable": base64.b64encode(payload).decode()})


ROUTES = (
    Route("listEvents", "GET", "/v1/events", list_events, is_standard=False),
    Route("listAudit", "GET", "/v1/audit", list_audit, is_standard=False),
)
