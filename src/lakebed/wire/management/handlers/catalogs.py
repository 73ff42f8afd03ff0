"""Catalogs: created, listed, shown, changed, removed. Table buckets are among them."""

from __future__ import annotations

from lakebed.wire.http.message import Response
from lakebed.wire.iceberg.answers import no_content, ok
from lakebed.wire.iceberg.request import CatalogRequest

from ..catalog_requests import CatalogUpdate, NewCatalog
from ..documents import catalog_document, created
from ..services import ManagementRoute, ManagementServices


async def create_catalog(services: ManagementServices, request: CatalogRequest) -> Response:
    """Make a catalog in a bucket of this server."""
    asked = request.document(NewCatalog).checked()
    made = await services.catalog_management.create(
        services.administrator(request.caller),
        request.caller,
        asked.name,
        kind=asked.type,
        properties=asked.properties,
        allowed=asked.storage_config_info.locations(services.facilities.region) or [],
    )
    return created(catalog_document(made))


async def list_catalogs(services: ManagementServices, request: CatalogRequest) -> Response:
    """All catalogs."""
    found = await services.catalogs.list(services.administrator(request.caller))
    return ok({"catalogs": [catalog_document(catalog) for catalog in found]})


async def get_catalog(services: ManagementServices, request: CatalogRequest) -> Response:
    """A catalog."""
    by = services.administrator(request.caller)
    return ok(catalog_document(await services.catalogs.get(by, request.names["catalog"])))


async def update_catalog(services: ManagementServices, request: CatalogRequest) -> Response:
    """Replace the properties or the allowed locations of a catalog; what is left out stays."""
    asked = request.document(CatalogUpdate)
    storage = asked.storage_config_info
    changed = await services.catalog_management.update(
        services.administrator(request.caller),
        request.caller,
        request.names["catalog"],
        version=asked.current_entity_version,
        properties=asked.properties,
        allowed=None if storage is None else storage.locations(services.facilities.region),
    )
    return ok(catalog_document(changed))


async def delete_catalog(services: ManagementServices, request: CatalogRequest) -> Response:
    """Remove an empty catalog."""
    by = services.administrator(request.caller)
    await services.catalog_management.delete(by, request.caller, request.names["catalog"])
    return no_content()


_ALL = "/v1/catalogs"
_ONE = _ALL + "/{catalog}"

ROUTES = (
    ManagementRoute("listCatalogs", "GET", _ALL, list_catalogs),
    ManagementRoute("createCatalog", "POST", _ALL, create_catalog),
    ManagementRoute("getCatalog", "GET", _ONE, get_catalog),
    ManagementRoute("updateCatalog", "PUT", _ONE, update_catalog),
    ManagementRoute("deleteCatalog", "DELETE", _ONE, delete_catalog),
)
