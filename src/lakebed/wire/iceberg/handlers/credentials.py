"""Keys to a table's files, and fresh ones in time."""

from __future__ import annotations

from typing import Final

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.model import EntryKind
from lakebed.catalog.namespaces import no_such_namespace
from lakebed.wire.http.message import Headers, Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route
from lakebed.wire.json.table_access import allowed_delegation

from ..delegation import scope_facts, vend_credentials
from ..services import IcebergServices
from ..unregistered_table_hint import hint_of_request

_NEVER_KEPT: Final[Headers] = [("Cache-Control", "no-store, private"), ("Pragma", "no-cache"), ("Expires", "0")]


async def load_credentials(services: IcebergServices, request: JsonRequest) -> Response:
    """Temporary keys for the files of a table, as far as the caller may have them."""
    identifier = request.table
    lookup = await services.entries.look_up(services.meta, request.catalog, identifier)
    catalog, entry, where = lookup.catalog, lookup.live, hint_of_request(request.http)
    if where is not None and lookup.entry is None:
        data = await services.data_access.of_unrecorded(
            request.caller, catalog, identifier, where.table, where.location, where.properties
        )
        if lookup.namespace is None:
            raise no_such_namespace(identifier.namespace)
    else:
        if entry is None or entry.kind is not EntryKind.TABLE:
            # Who may not read the data does not learn that there is no table.
            entry = await services.entries.authorize_entry(
                request.caller, lookup, EntryKind.TABLE, Action.GET_TABLE_DATA
            )
        data = await services.data_access.of_entry(request.caller, catalog, identifier.namespace, entry)
        where = None
    if not allowed_delegation(services.access_delegation, catalog).vends:
        facts = scope_facts(f"s3://{data.bucket}/{data.home.directory}", vends=False)
        return ok({"config": facts, "storage-credentials": []}, _NEVER_KEPT)
    vended = vend_credentials(services, request, catalog, identifier, data, where)
    return ok({"config": vended.facts, "storage-credentials": [vended.storage_credential]}, _NEVER_KEPT)


ROUTES = (
    Route(
        "loadCredentials",
        "GET",
        "/v1/{warehouse}/namespaces/{namespace}/tables/{table}/credentials",
        load_credentials,
    ),
)
