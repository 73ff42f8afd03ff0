"""The event log and the audit log, by cursor."""

from __future__ import annotations

from lakebed.events.documents import event_document
from lakebed.events.log import MAX_EVENTS, EventLog, EventPage
from lakebed.events.selection import EventSelection, parse_selection
from lakebed.wire.http.message import Request, Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..queries import check_parameters, number_parameter, wait_seconds
from ..services import AdminServices
from ..waiting import poll_until

_PARAMETERS = ("after", "limit", "wait-seconds", "kind", "subject", "principal")


async def list_events(services: AdminServices, request: JsonRequest) -> Response:
    """List events of all kinds."""
    return await _list(services, services.events, request)


async def list_audit(services: AdminServices, request: JsonRequest) -> Response:
    """List audit records: changes of users, keys and policies, and refused requests."""
    return await _list(services, services.audit, request)


async def _list(services: AdminServices, log: EventLog, request: JsonRequest) -> Response:
    http = request.http
    check_parameters(http, _PARAMETERS)
    ids = services.event_ids
    limit = number_parameter(http, "limit", MAX_EVENTS, most=MAX_EVENTS)
    seconds = wait_seconds(http) if limit else 0.0
    selection = event_selection(http)
    page = EventPage((), ids.parse_cursor(http.query.get("after", "0"), "after"), 0, 0)

    async def read() -> bool:
        nonlocal page
        page = await log.read(request.caller, selection, after=page.next_after, limit=limit)
        return bool(page.entries)

    async def wait_for_event(left: float) -> bool:
        return await log.wait_for_event(page.next_after, left)

    await poll_until(http, seconds, read, wait_for_event)
    return ok(
        {
            "events": [event_document(entry, ids.of(entry)) for entry in page.entries],
            "next-after": page.next_after,
            "next-cursor": ids.cursor(page.next_after),
            "last-seq": page.last_seq,
            "first-seq": page.first_seq,
            "deployment": ids.deployment,
        }
    )


def event_selection(http: Request) -> EventSelection:
    """The requested events. Raises InvalidInput."""
    kinds, subject, principal = (http.query.get(name, "") for name in ("kind", "subject", "principal"))
    if "kind" in http.query:
        return parse_selection(kinds, subject=subject, principal=principal)
    return EventSelection(subject=subject, principal=principal)


ROUTES = (
    Route("listEvents", "GET", "/v1/events", list_events, is_standard=False),
    Route("listAudit", "GET", "/v1/audit", list_audit, is_standard=False),
)
