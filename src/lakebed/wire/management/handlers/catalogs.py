"""Catalogs, including table buckets: create, list, get, update, delete."""

from __future__ import annotations

from lakebed.catalog.external.federation.model import CatalogConnection
from lakebed.catalog.external.storage.model import StorageProfile
from lakebed.core.errors import NotSupported
from lakebed.governance.rbac.model import ManagedCatalog
from lakebed.meta.seam import Transaction
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..catalog_requests import CatalogUpdate, NewCatalog
from ..documents import catalog_document, created
from ..services import ManagementServices


async def create_catalog(services: ManagementServices, request: JsonRequest) -> Response:
    """Create a catalog in a bucket of this server or of an external store, or a federated catalog."""
    document = (await request.document(NewCatalog)).checked()
    info = document.connection_config_info
    connection: CatalogConnection | None = None

    async def connect(tx: Transaction, now_ms: int) -> None:
        nonlocal connection
        if info is not None and services.connections is not None:
            connection = await services.connections.connect(
                tx, request.caller, document.name, info.config, info.secrets, now_ms
            )

    if info is not None:
        if services.connections is None:
            raise NotSupported("this server does not support federated catalogs")
        services.connections.check(info.config, info.secrets)
    storage_document = document.storage_config_info
    allowed = storage_document.locations() or []
    storage = storage_document.profile(services.object_context.region)
    catalog = await services.catalog_management.create(
        services.administrator(request.caller),
        request.caller,
        document.name,
        kind=document.type,
        properties=document.properties,
        allowed=allowed,
        storage=storage,
        also=connect,
    )
    return created(catalog_document(catalog, connection, storage))


async def _connections(services: ManagementServices) -> dict[str, CatalogConnection]:
    return {} if services.connections is None else await services.connections.of_all()


async def _storage_profiles(services: ManagementServices) -> dict[int, StorageProfile]:
    """The storage profiles of catalogs over external storage, by catalog id."""
    if services.storage_profiles is None:
        return {}
    return await services.storage_profiles.of_all(services.object_context.meta)


async def _described(services: ManagementServices, catalog: ManagedCatalog) -> Response:
    connection = (await _connections(services)).get(catalog.name)
    return ok(catalog_document(catalog, connection, (await _storage_profiles(services)).get(catalog.id)))


async def list_catalogs(services: ManagementServices, request: JsonRequest) -> Response:
    """List all catalogs."""
    found = await services.catalogs.list(services.administrator(request.caller))
    connections, storage = await _connections(services), await _storage_profiles(services)
    return ok(
        {"catalogs": [catalog_document(each, connections.get(each.name), storage.get(each.id)) for each in found]}
    )


async def get_catalog(services: ManagementServices, request: JsonRequest) -> Response:
    """Get a catalog."""
    catalog = await services.catalogs.get(services.administrator(request.caller), request.names["catalog"])
    return await _described(services, catalog)


async def update_catalog(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace the properties, or the allowed locations and storage profile; absent fields stay unchanged."""
    document = await request.document(CatalogUpdate)
    storage = document.storage_config_info
    changed = await services.catalog_management.update(
        services.administrator(request.caller),
        request.caller,
        request.names["catalog"],
        version=document.current_entity_version,
        properties=document.properties,
        allowed=None if storage is None else storage.locations(),
        storage=None if storage is None else storage.profile(services.object_context.region),
    )
    return await _described(services, changed)


async def delete_catalog(services: ManagementServices, request: JsonRequest) -> Response:
    """Delete an empty catalog."""
    administrator, name = services.administrator(request.caller), request.names["catalog"]

    async def disconnect(tx: Transaction, now_ms: int) -> None:
        if services.connections is not None:
            await services.connections.release(tx, request.caller, name, now_ms)

    await services.catalog_management.delete(administrator, request.caller, name, disconnect)
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
