"""Credential vending: temporary credentials for a table's files, and their refresh."""

from __future__ import annotations

from typing import Final

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.model import EntryKind
from lakebed.catalog.namespaces import no_such_namespace
from lakebed.wire.http.message import Headers, Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..delegation import scope_settings, vend_credentials
from ..services import IcebergServices
from ..unregistered_table_hint import hint_of_request
from .tables import TABLE_PATH

_NO_STORE: Final[Headers] = [("Cache-Control", "no-store, private"), ("Pragma", "no-cache"), ("Expires", "0")]


async def load_credentials(services: IcebergServices, request: JsonRequest) -> Response:
    """Vended credentials for the files of a table, within the caller's permissions."""
    identifier = request.table
    lookup = await services.entries.look_up(services.meta, request.catalog, identifier)
    catalog, entry, hint = lookup.catalog, lookup.live, hint_of_request(request.http)
    if hint is not None and lookup.entry is None:
        data = await services.data_access.of_unregistered(
            request.caller, catalog, identifier, hint.table, hint.location, hint.properties
        )
        if lookup.namespace is None:
            raise no_such_namespace(identifier.namespace)
    else:
        if entry is None or entry.kind is not EntryKind.TABLE:
            # Callers without read permission do not learn whether the table exists.
            known = await services.entries.authorize_entry(
                request.caller, lookup, EntryKind.TABLE, Action.GET_TABLE_DATA
            )
            entry = known.entry
        data = await services.data_access.of_entry(request.caller, catalog, identifier.namespace, entry)
        hint = None
    if not (await services.access.allowed(catalog)).vends:
        description = scope_settings(f"s3://{data.bucket}/{data.location.directory}", vends=False)
        return ok({"config": description, "storage-credentials": []}, _NO_STORE)
    vended = await vend_credentials(services, request, catalog, identifier, data, hint)
    return ok({"config": vended.description, "storage-credentials": [vended.storage_credential]}, _NO_STORE)


ROUTES = (Route("loadCredentials", "GET", TABLE_PATH + "/credentials", load_credentials),)
