"""Generic tables: create, list, load, drop."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lakebed.catalog.entries import ResolvedName
from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.catalog.model import EntryKind
from lakebed.catalog.tables.generic_tables import GenericTable, NewGenericTable, check_has_files
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Headers, Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import list_entries, no_content, ok
from lakebed.wire.json.routing import Route

from ..services import PolarisServices

HEADER: Final = "polaris-generic-table-access-delegation"
VENDED: Final = "vended-credentials"

_NO_STORE: Final[Headers] = [("Cache-Control", "no-store, private")]


class NewGenericTableDocument(msgspec.Struct, rename="kebab"):
    """The body of createGenericTable."""

    name: str
    format: str
    base_location: str | None = None
    doc: str | None = None
    properties: dict[str, str] | None = None


async def create_generic_table(services: PolarisServices, request: JsonRequest) -> Response:
    """Create a generic table."""
    document = await request.document(NewGenericTableDocument)
    created = await services.generic_tables.create(
        request.mutation,
        request.catalog,
        request.namespace,
        NewGenericTable(
            document.name, document.format, document.base_location, document.doc, document.properties or {}
        ),
        with_data=_requests_credentials(request),
    )
    return await _table_response(services, request, created)


async def list_generic_tables(services: PolarisServices, request: JsonRequest) -> Response:
    """List the generic tables of a namespace."""
    return await list_entries(services.entries, request, EntryKind.GENERIC_TABLE)


async def load_generic_table(services: PolarisServices, request: JsonRequest) -> Response:
    """Load a generic table, with vended credentials if the client requests them."""
    found = await services.generic_tables.get(request.caller, request.catalog, _identifier(request))
    return await _table_response(services, request, found)


async def drop_generic_table(services: PolarisServices, request: JsonRequest) -> Response:
    """Drop a generic table. Its files stay."""
    await services.dropping.drop(request.mutation, request.catalog, _identifier(request), EntryKind.GENERIC_TABLE)
    return no_content()


async def replay_create(services: PolarisServices, request: JsonRequest, entry_id: str) -> Response:
    """The response to a repeated creation, with the current table and new credentials."""
    known = await services.entries.by_id(entry_id)
    found = ResolvedName(known.catalog, known.namespace, known.entry)
    return await _table_response(
        services, request, await services.generic_tables.described(services.meta, found, known.identifier)
    )


def generic_table_document(table: GenericTable) -> dict[str, Any]:
    """A generic table as JSON."""
    document: dict[str, Any] = {"name": table.identifier.name, "format": table.format}
    if table.base_location is not None:
        document["base-location"] = table.base_location
    if table.doc is not None:
        document["doc"] = table.doc
    return document | {"properties": table.properties}


async def _table_response(services: PolarisServices, request: JsonRequest, table: GenericTable) -> Response:
    document: dict[str, Any] = {"table": generic_table_document(table)}
    if not _requests_credentials(request):
        return ok(document)
    check_has_files(table.base_location)
    if not (await services.access.allowed(table.catalog)).vends:
        return ok(document | {"storage-access-configs": []})
    return ok(document | {"storage-access-configs": [await _access(services, request, table)]}, _NO_STORE)


async def _access(services: PolarisServices, request: JsonRequest, table: GenericTable) -> dict[str, Any]:
    """Vended credentials for a generic table's files, within the caller's permissions. Raises AccessDenied.

    There is no refresh endpoint: clients load the table again.
    """
    namespace = table.identifier.namespace
    data = await services.data_access.of_entry(request.caller, table.catalog, namespace, table.entry)
    key = await services.access.vend(request, table.catalog, table.identifier, data)
    return {
        "prefix": f"s3://{data.bucket}/{data.location.directory}",
        "config": {
            **key.settings,
            # The region's name in generic tables; Iceberg tables have `client.region`.
            "s3.client.region": key.settings["client.region"],
        },
    }


def _requests_credentials(request: JsonRequest) -> bool:
    """Whether the client requests vended credentials. Raises InvalidInput for other kinds of access delegation."""
    mode = request.http.headers.get(HEADER)
    if mode is None:
        return False
    if mode.strip().lower() != VENDED:
        raise InvalidInput(f"{HEADER} must be {VENDED}", argument=HEADER, value=mode[:80])
    return True


def _identifier(request: JsonRequest) -> Identifier:
    return check_identifier(request.namespace, request.names["generic-table"])


_ALL = "/polaris/v1/{warehouse}/namespaces/{namespace}/generic-tables"
_ONE = _ALL + "/{generic-table}"

ROUTES = (
    Route("createGenericTable", "POST", _ALL, create_generic_table, changes=True, replay=replay_create),
    Route("listGenericTables", "GET", _ALL, list_generic_tables),
    Route("loadGenericTable", "GET", _ONE, load_generic_table),
    Route("dropGenericTable", "DELETE", _ONE, drop_generic_table, changes=True),
)
