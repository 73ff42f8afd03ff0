"""Principal roles: created, listed, shown, changed, removed; who has them; the catalog roles that they have."""

from __future__ import annotations

import msgspec

from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..documents import (
    NamedDocument,
    UpdateDocument,
    catalog_role_document,
    created,
    principal_document,
    principal_role_document,
)
from ..services import ManagementServices


class NewPrincipalRole(msgspec.Struct, rename="camel"):
    """The body of createPrincipalRole."""

    principal_role: NamedDocument


class CatalogRoleAssignment(msgspec.Struct, rename="camel"):
    """The body of assignCatalogRoleToPrincipalRole."""

    catalog_role: NamedDocument


async def create_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Make a role."""
    asked = (await request.document(NewPrincipalRole)).principal_role
    made = await services.principal_roles.create(
        services.administrator(request.caller),
        asked.name,
        properties=asked.properties or {},
        federated=asked.federated,
    )
    return created(principal_role_document(made))


async def list_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """All roles."""
    found = await services.principal_roles.list(services.administrator(request.caller))
    return ok({"roles": [principal_role_document(role) for role in found]})


async def get_role(services: ManagementServices, request: JsonRequest) -> Response:
    """A role."""
    by = services.administrator(request.caller)
    return ok(principal_role_document(await services.principal_roles.get(by, request.names["principal-role"])))


async def update_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace the properties of a role."""
    asked = await request.document(UpdateDocument)
    changed = await services.principal_roles.update(
        services.administrator(request.caller),
        request.names["principal-role"],
        properties=asked.properties,
        version=asked.current_entity_version,
    )
    return ok(principal_role_document(changed))


async def delete_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Remove a role."""
    await services.principal_roles.delete(services.administrator(request.caller), request.names["principal-role"])
    return no_content()


async def list_principals(services: ManagementServices, request: JsonRequest) -> Response:
    """The users who have a role."""
    by = services.administrator(request.caller)
    found = await services.principals.holders(by, request.names["principal-role"])
    return ok({"principals": [principal_document(principal) for principal in found]})


async def list_catalog_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """The roles of a catalog that a principal role has."""
    by, names = services.administrator(request.caller), request.names
    found = await services.catalog_roles.of_principal_role(by, names["principal-role"], names["catalog"])
    return ok({"roles": [catalog_role_document(role) for role in found]})


async def assign_catalog_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Give a catalog role to a principal role."""
    asked = await request.document(CatalogRoleAssignment)
    by, names = services.administrator(request.caller), request.names
    await services.catalog_roles.assign(by, names["principal-role"], names["catalog"], asked.catalog_role.name)
    return created()


async def revoke_catalog_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Take a catalog role from a principal role."""
    by, names = services.administrator(request.caller), request.names
    await services.catalog_roles.revoke(by, names["principal-role"], names["catalog"], names["catalog-role"])
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
