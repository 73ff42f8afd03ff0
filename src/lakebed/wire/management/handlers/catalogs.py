"""Catalogs, listed and shown: one for each table bucket."""

from __future__ import annotations

from lakebed.wire.http.message import Response
from lakebed.wire.iceberg.answers import ok
from lakebed.wire.iceberg.request import CatalogRequest

from ..documents import catalog_document
from ..services import ManagementRoute, ManagementServices


async def list_catalogs(services: ManagementServices, request: CatalogRequest) -> Response:
    """All catalogs."""
    found = await services.catalogs.list(services.administrator(request.caller))
    return ok({"catalogs": [catalog_document(catalog) for catalog in found]})


async def get_catalog(services: ManagementServices, request: CatalogRequest) -> Response:
    """A catalog."""
    by = services.administrator(request.caller)
    return ok(catalog_document(await services.catalogs.get(by, request.names["catalog"])))


ROUTES = (
    ManagementRoute("listCatalogs", "GET", "/v1/catalogs", list_catalogs),
    ManagementRoute("getCatalog", "GET", "/v1/catalogs/{catalog}", get_catalog),
)
