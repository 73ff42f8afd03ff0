"""Catalog roles: created, listed, shown, changed, removed; the principal roles that have them."""

from __future__ import annotations

import msgspec

from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..documents import NamedDocument, UpdateDocument, catalog_role_document, created, principal_role_document
from ..services import ManagementServices


class NewCatalogRole(msgspec.Struct, rename="camel"):
    """The body of createCatalogRole."""

    catalog_role: NamedDocument


async def create_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Make a role."""
    asked = (await request.document(NewCatalogRole)).catalog_role
    made = await services.catalog_roles.create(
        services.administrator(request.caller),
        request.names["catalog"],
        asked.name,
        properties=asked.properties or {},
    )
    return created(catalog_role_document(made))


async def list_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """All roles of a catalog."""
    found = await services.catalog_roles.list(services.administrator(request.caller), request.names["catalog"])
    return ok({"roles": [catalog_role_document(role) for role in found]})


async def get_role(services: ManagementServices, request: JsonRequest) -> Response:
    """A role."""
    by, names = services.administrator(request.caller), request.names
    return ok(catalog_role_document(await services.catalog_roles.get(by, names["catalog"], names["catalog-role"])))


async def update_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace the properties of a role."""
    asked = await request.document(UpdateDocument)
    changed = await services.catalog_roles.update(
        services.administrator(request.caller),
        request.names["catalog"],
        request.names["catalog-role"],
        properties=asked.properties,
        version=asked.current_entity_version,
    )
    return ok(catalog_role_document(changed))


async def delete_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Remove a role with its grants."""
    by, names = services.administrator(request.caller), request.names
    await services.catalog_roles.delete(by, names["catalog"], names["catalog-role"])
    return no_content()


async def list_principal_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """The principal roles that have a catalog role."""
    by, names = services.administrator(request.caller), request.names
    found = await services.catalog_roles.holders(by, names["catalog"], names["catalog-role"])
    return ok({"roles": [principal_role_document(role) for role in found]})


_ALL = "/v1/catalogs/{catalog}/catalog-roles"
_ONE = _ALL + "/{catalog-role}"

ROUTES = (
    Route("listCatalogRoles", "GET", _ALL, list_roles),
    Route("createCatalogRole", "POST", _ALL, create_role),
    Route("getCatalogRole", "GET", _ONE, get_role),
    Route("updateCatalogRole", "PUT", _ONE, update_role),
    Route("deleteCatalogRole", "DELETE", _ONE, delete_role),
    Route("listAssigneePrincipalRolesForCatalogRole", "GET", _ONE + "/principal-roles", list_principal_roles),
)
