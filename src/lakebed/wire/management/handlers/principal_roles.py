"""Principal roles: create, list, get, update, delete; their assignees and catalog roles."""

from __future__ import annotations

from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..documents import (
    CatalogRoleDocument,
    PrincipalRoleDocument,
    UpdateDocument,
    catalog_role_document,
    created,
    principal_document,
    principal_role_document,
)
from ..services import ManagementServices


async def create_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Create a principal role."""
    document = (await request.document(PrincipalRoleDocument)).principal_role
    role = await services.principal_roles.create(
        services.administrator(request.caller),
        document.name,
        properties=document.properties or {},
        federated=document.federated,
    )
    return created(principal_role_document(role))


async def list_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """List the principal roles."""
    found = await services.principal_roles.list(services.administrator(request.caller))
    return ok({"roles": [principal_role_document(role) for role in found]})


async def get_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Get a principal role."""
    administrator = services.administrator(request.caller)
    return ok(
        principal_role_document(await services.principal_roles.get(administrator, request.names["principal-role"]))
    )


async def update_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace the properties of a principal role."""
    document = await request.document(UpdateDocument)
    changed = await services.principal_roles.update(
        services.administrator(request.caller),
        request.names["principal-role"],
        properties=document.properties,
        version=document.current_entity_version,
    )
    return ok(principal_role_document(changed))


async def delete_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Delete a principal role."""
    await services.principal_roles.delete(services.administrator(request.caller), request.names["principal-role"])
    return no_content()


async def list_principals(services: ManagementServices, request: JsonRequest) -> Response:
    """List the principals that a principal role is assigned to."""
    administrator = services.administrator(request.caller)
    found = await services.principals.assignees(administrator, request.names["principal-role"])
    return ok({"principals": [principal_document(principal) for principal in found]})


async def list_catalog_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """List the catalog roles of one catalog that a principal role has."""
    administrator, names = services.administrator(request.caller), request.names
    found = await services.catalog_roles.of_principal_role(administrator, names["principal-role"], names["catalog"])
    return ok({"roles": [catalog_role_document(role) for role in found]})


async def assign_catalog_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Assign a catalog role to a principal role."""
    document = await request.document(CatalogRoleDocument)
    administrator, names = services.administrator(request.caller), request.names
    await services.catalog_roles.assign(
        administrator, names["principal-role"], names["catalog"], document.catalog_role.name
    )
    return created()


async def revoke_catalog_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Revoke a catalog role from a principal role."""
    administrator, names = services.administrator(request.caller), request.names
    await services.catalog_roles.revoke(administrator, names["principal-role"], names["catalog"], names["catalog-role"])
    return no_content()


_ALL = "/v1/principal-roles"
_ONE = _ALL + "/{principal-role}"
_HELD = _ONE + "/catalog-roles/{catalog}"

ROUTES = (
    Route("listPrincipalRoles", "GET", _ALL, list_roles),
    Route("createPrincipalRole", "POST", _ALL, create_role),
    Route("getPrincipalRole", "GET", _ONE, get_role),
    Route("updatePrincipalRole", "PUT", _ONE, update_role),
    Route("deletePrincipalRole", "DELETE", _ONE, delete_role),
    Route("listAssigneePrincipalsForPrincipalRole", "GET", _ONE + "/principals", list_principals),
    Route("listCatalogRolesForPrincipalRole", "GET", _HELD, list_catalog_roles),
    Route("assignCatalogRoleToPrincipalRole", "PUT", _HELD, assign_catalog_role),
    Route("revokeCatalogRoleFromPrincipalRole", "DELETE", _HELD + "/{catalog-role}", revoke_catalog_role),
)
