"""Files that arrived, for the jobs that add them to tables."""

from __future__ import annotations

import msgspec

from lakebed.catalog.tables.arrivals import MAX_PAGE, Destination
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..queries import check_parameters
from ..services import AdminServices


class ListDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of listArrivals: a table has a name of several parts."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str
    after: int = 0
    limit: int = 100


class TakenDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of takeArrivals."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str
    events: list[int]


async def list_arrivals(services: AdminServices, request: JsonRequest) -> Response:
    """What is to be added to a table, by the numbers of events of this deployment."""
    check_parameters(request.http, ())
    asked = await request.document(ListDocument)
    destination = Destination(asked.warehouse, asked.namespace, asked.table)
    limit = max(1, min(asked.limit, MAX_PAGE))
    found = await services.arrivals.list(request.caller, destination, after=asked.after, limit=limit)
    deployment = {"deployment": services.event_ids.deployment}
    return ok({"arrivals": [msgspec.to_builtins(one) | deployment for one in found]})


async def take_arrivals(services: AdminServices, request: JsonRequest) -> Response:
    """Forget what was added."""
    check_parameters(request.http, ())
    asked = await request.document(TakenDocument)
    destination = Destination(asked.warehouse, asked.namespace, asked.table)
    await services.arrivals.take(request.caller, destination, asked.events)
    return no_content()


ROUTES = [
    Route("listArrivals", "POST", "/v1/arrivals/list", list_arrivals, is_standard=False),
    Route("takeArrivals", "POST", "/v1/arrivals/take", take_arrivals, is_standard=False),
]
