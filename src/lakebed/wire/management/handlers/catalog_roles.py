"""Catalog roles: create, list, get, update, delete; their assignees and grants."""

from __future__ import annotations

from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..documents import (
    CatalogRoleDocument,
    GrantRequest,
    UpdateDocument,
    catalog_role_document,
    created,
    grant_document,
    principal_role_document,
)
from ..services import ManagementServices


async def create_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Create a catalog role."""
    document = (await request.document(CatalogRoleDocument)).catalog_role
    role = await services.catalog_roles.create(
        services.administrator(request.caller),
        request.names["catalog"],
        document.name,
        properties=document.properties or {},
    )
    return created(catalog_role_document(role))


async def list_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """List the roles of a catalog."""
    found = await services.catalog_roles.list(services.administrator(request.caller), request.names["catalog"])
    return ok({"roles": [catalog_role_document(role) for role in found]})


async def get_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Get a catalog role."""
    administrator, names = services.administrator(request.caller), request.names
    return ok(
        catalog_role_document(await services.catalog_roles.get(administrator, names["catalog"], names["catalog-role"]))
    )


async def update_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace the properties of a catalog role."""
    document = await request.document(UpdateDocument)
    changed = await services.catalog_roles.update(
        services.administrator(request.caller),
        request.names["catalog"],
        request.names["catalog-role"],
        properties=document.properties,
        version=document.current_entity_version,
    )
    return ok(catalog_role_document(changed))


async def delete_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Delete a catalog role with its grants."""
    administrator, names = services.administrator(request.caller), request.names
    await services.catalog_roles.delete(administrator, names["catalog"], names["catalog-role"])
    return no_content()


async def list_principal_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """List the principal roles that a catalog role is assigned to."""
    administrator, names = services.administrator(request.caller), request.names
    found = await services.catalog_roles.assignees(administrator, names["catalog"], names["catalog-role"])
    return ok({"roles": [principal_role_document(role) for role in found]})


async def list_grants(services: ManagementServices, request: JsonRequest) -> Response:
    """List the grants of a catalog role."""
    administrator, names = services.administrator(request.caller), request.names
    found = await services.catalog_grants.list(administrator, names["catalog"], names["catalog-role"])
    return ok({"grants": [grant_document(grant) for grant in found]})


async def add_grant(services: ManagementServices, request: JsonRequest) -> Response:
    """Grant a privilege to a catalog role."""
    document = (await request.document(GrantRequest)).grant
    administrator, names = services.administrator(request.caller), request.names
    await services.catalog_grants.add(
        administrator, names["catalog"], names["catalog-role"], document.target, document.parsed_privilege
    )
    return created()


async def revoke_grant(services: ManagementServices, request: JsonRequest) -> Response:
    """Revoke a privilege from a catalog role; with `cascade`, also on the contained securables."""
    document = (await request.document(GrantRequest)).grant
    administrator, names = services.administrator(request.caller), request.names
    await services.catalog_grants.revoke(
        administrator,
        names["catalog"],
        names["catalog-role"],
        document.target,
        document.parsed_privilege,
        cascade=request.flag("cascade"),
    )
    # The specification returns 201, although nothing is created.
    return created()


_ALL = "/v1/catalogs/{catalog}/catalog-roles"
_ONE = _ALL + "/{catalog-role}"
_GRANTS = _ONE + "/grants"

ROUTES = (
    Route("listCatalogRoles", "GET", _ALL, list_roles),
    Route("createCatalogRole", "POST", _ALL, create_role),
    Route("getCatalogRole", "GET", _ONE, get_role),
    Route("updateCatalogRole", "PUT", _ONE, update_role),
    Route("deleteCatalogRole", "DELETE", _ONE, delete_role),
    Route("listAssigneePrincipalRolesForCatalogRole", "GET", _ONE + "/principal-roles", list_principal_roles),
    Route("listGrantsForCatalogRole", "GET", _GRANTS, list_grants),
    Route("addGrantToCatalogRole", "PUT", _GRANTS, add_grant),
    Route("revokeGrantFromCatalogRole", "POST", _GRANTS, revoke_grant),
)
