"""Catalogs: created, listed, shown, changed, removed. Table buckets are among them."""

from __future__ import annotations

from lakebed.catalog.external.federation.model import CatalogConnection
from lakebed.core.errors import NotSupported
from lakebed.meta.seam import Transaction
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..catalog_requests import CatalogUpdate, NewCatalog
from ..documents import catalog_document, created
from ..services import ManagementServices


async def create_catalog(services: ManagementServices, request: JsonRequest) -> Response:
    """Make a catalog in a bucket of this server, or one that another catalog is behind."""
    asked = (await request.document(NewCatalog)).checked()
    behind = asked.connection_config_info
    made: CatalogConnection | None = None

    async def connect(tx: Transaction, now_ms: int) -> None:
        nonlocal made
        if behind is not None and services.connections is not None:
            made = await services.connections.connect(
                tx, request.caller, asked.name, behind.config, behind.secrets, now_ms
            )

    if behind is not None:
        if services.connections is None:
            raise NotSupported("no catalog of this server can be backed by another")
        services.connections.check(behind.config, behind.secrets)
    catalog = await services.catalog_management.create(
        services.administrator(request.caller),
        request.caller,
        asked.name,
        kind=asked.type,
        properties=asked.properties,
        allowed=asked.storage_config_info.locations(services.object_context.region) or [],
        also=connect,
    )
    return created(catalog_document(catalog, made))


async def _connections(services: ManagementServices) -> dict[str, CatalogConnection]:
    return {} if services.connections is None else await services.connections.of_all()


async def list_catalogs(services: ManagementServices, request: JsonRequest) -> Response:
    """All catalogs."""
    found = await services.catalogs.list(services.administrator(request.caller))
    connections = await _connections(services)
    return ok({"catalogs": [catalog_document(catalog, connections.get(catalog.name)) for catalog in found]})


async def get_catalog(services: ManagementServices, request: JsonRequest) -> Response:
    """A catalog."""
    catalog = await services.catalogs.get(services.administrator(request.caller), request.names["catalog"])
    return ok(catalog_document(catalog, (await _connections(services)).get(catalog.name)))


async def update_catalog(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace the properties or the allowed locations of a catalog; what is left out stays."""
    asked = await request.document(CatalogUpdate)
    storage = asked.storage_config_info
    changed = await services.catalog_management.update(
        services.administrator(request.caller),
        request.caller,
        request.names["catalog"],
        version=asked.current_entity_version,
        properties=asked.properties,
        allowed=None if storage is None else storage.locations(services.object_context.region),
    )
    return ok(catalog_document(changed, (await _connections(services)).get(changed.name)))


async def delete_catalog(services: ManagementServices, request: JsonRequest) -> Response:
    """Remove an empty catalog."""
    by, name = services.administrator(request.caller), request.names["catalog"]

    async def disconnect(tx: Transaction, now_ms: int) -> None:
        if services.connections is not None:
            await services.connections.release(tx, request.caller, name, now_ms)

    await services.catalog_management.delete(by, request.caller, name, disconnect)
    return no_content()


_ALL = "/v1/catalogs"
_ONE = _ALL + "/{catalog}"

ROUTES = (
    Route("listCatalogs", "GET", _ALL, list_catalogs),
    Route("createCatalog", "POST", _ALL, create_catalog),
    Route("getCatalog", "GET", _ONE, get_catalog),
    Route("updateCatalog", "PUT", _ONE, update_catalog),
    Route("deleteCatalog", "DELETE", _ONE, delete_catalog),
)
