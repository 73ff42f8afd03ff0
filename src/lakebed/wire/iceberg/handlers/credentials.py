"""Keys to a table's files, and fresh ones in time."""

from __future__ import annotations

from typing import Final

from lakebed.tables.gate import Action
from lakebed.tables.model import EntryKind
from lakebed.wire.http.message import Headers, Response

from ..answers import ok
from ..delegation import vend
from ..request import CatalogRequest
from ..routes import Route
from ..services import CatalogServices
from ..whereabouts import whereabouts_in

_NEVER_KEPT: Final[Headers] = [("Cache-Control", "no-store, private"), ("Pragma", "no-cache"), ("Expires", "0")]


async def load_credentials(services: CatalogServices, request: CatalogRequest) -> Response:
    """Temporary keys for the files of a table, as far as the caller may have them."""
    identifier = request.table
    found = await services.entries.find(services.meta, request.warehouse, identifier)
    entry, where = found.live, whereabouts_in(request.http)
    if where is not None and found.entry is None:
        data = await services.data_access.of_unrecorded(
            request.caller, found.warehouse, identifier, where.table, where.location, where.properties
        )
    else:
        if entry is None or entry.kind is not EntryKind.TABLE:
            # Who may not read the data does not learn that there is no table.
            entry = services.entries.admit(request.caller, found, identifier, EntryKind.TABLE, Action.GET_TABLE_DATA)
        data = await services.data_access.of_entry(request.caller, found.warehouse, identifier.namespace, entry)
        where = None
    vended = vend(services, request, found.warehouse, identifier, data, where)
    return ok({"config": vended.facts, "storage-credentials": [vended.storage_credential]}, _NEVER_KEPT)


ROUTES = (
    Route(
        "loadCredentials",
        "GET",
        "/v1/{warehouse}/namespaces/{namespace}/tables/{table}/credentials",
        load_credentials,
    ),
)
