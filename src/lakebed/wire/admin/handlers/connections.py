"""Connections of federated catalogs, as the Polaris management API spells them."""

from __future__ import annotations

from typing import Any

from lakebed.catalog.external.federation.model import CatalogConnection
from lakebed.wire.http.message import Response
from lakebed.wire.json.connection_documents import ConnectionDocument, connection_document
from lakebed.wire.json.documents import check_no_fields
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..queries import check_parameters
from ..services import AdminServices


async def list_connections(services: AdminServices, request: JsonRequest) -> Response:
    """List all connections."""
    check_parameters(request.http, ())
    found = await services.federation.connections.list(request.caller)
    return ok({"connections": [_document(connection) for connection in found]})


async def get_connection(services: AdminServices, request: JsonRequest) -> Response:
    """Get the connection of a catalog."""
    check_parameters(request.http, ())
    return ok(_document(await services.federation.connections.get(request.caller, request.names["catalog"])))


async def put_connection(services: AdminServices, request: JsonRequest) -> Response:
    """Connect a catalog, or replace its connection."""
    check_parameters(request.http, ())
    document = await request.document(ConnectionDocument)
    connection = await services.federation.connections.put(
        request.caller, request.names["catalog"], document.config, document.secrets
    )
    return ok(_document(connection))


async def remove_connection(services: AdminServices, request: JsonRequest) -> Response:
    """Remove the connection of a catalog."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    await services.federation.connections.remove(request.caller, request.names["catalog"])
    return no_content()


async def try_connection(services: AdminServices, request: JsonRequest) -> Response:
    """Check a connection: request the configuration of the external catalog."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    config = await services.federation.connections.try_out(request.caller, request.names["catalog"])
    return ok(
        {
            "prefix": config.prefix,
            "namespace-separator": config.separator,
            "endpoints": sorted(config.endpoints),
            "keeps-idempotency-keys": config.keeps_idempotency_keys,
        }
    )


def _document(connection: CatalogConnection) -> dict[str, Any]:
    return {
        "catalog": connection.name,
        "connectionConfigInfo": connection_document(connection),
        "created-ms": connection.created_ms,
        "updated-ms": connection.updated_ms,
    }


_ONE = "/v1/connections/{catalog}"

ROUTES = (
    Route("listConnections", "GET", "/v1/connections", list_connections, is_standard=False),
    Route("getConnection", "GET", _ONE, get_connection, is_standard=False),
    Route("putConnection", "PUT", _ONE, put_connection, is_standard=False),
    Route("removeConnection", "DELETE", _ONE, remove_connection, is_standard=False),
    Route("tryConnection", "POST", _ONE + "/check", try_connection, is_standard=False),
)
