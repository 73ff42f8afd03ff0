"""Principals: create, list, get, update, delete; their client credentials and principal roles."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.core.secrets import Secret
from lakebed.governance.rbac.managed_principals import PrincipalWithSecret
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..documents import (
    NamedDocument,
    PrincipalRoleDocument,
    UpdateDocument,
    created,
    principal_document,
    principal_role_document,
)
from ..services import ManagementServices


class NewPrincipal(msgspec.Struct, rename="camel"):
    """The body of createPrincipal."""

    principal: NamedDocument
    credential_rotation_required: bool | None = None


class ResetDocument(msgspec.Struct, rename="camel"):
    """The body of resetCredentials."""

    client_id: str | None = None
    client_secret: str | None = None


async def create_principal(services: ManagementServices, request: JsonRequest) -> Response:
    """Create a principal and return its client credentials, this time only."""
    document = await request.document(NewPrincipal)
    principal = await services.principals.create(
        services.administrator(request.caller),
        document.principal.name,
        properties=document.principal.properties or {},
        rotation_required=bool(document.credential_rotation_required),
    )
    return created(_with_secret(principal))


async def list_principals(services: ManagementServices, request: JsonRequest) -> Response:
    """List all principals."""
    found = await services.principals.list(services.administrator(request.caller))
    return ok({"principals": [principal_document(principal) for principal in found]})


async def get_principal(services: ManagementServices, request: JsonRequest) -> Response:
    """Get a principal."""
    administrator = services.administrator(request.caller)
    return ok(principal_document(await services.principals.get(administrator, request.names["principal"])))


async def update_principal(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace the properties of a principal."""
    document = await request.document(UpdateDocument)
    changed = await services.principals.update(
        services.administrator(request.caller),
        request.names["principal"],
        properties=document.properties,
        version=document.current_entity_version,
    )
    return ok(principal_document(changed))


async def delete_principal(services: ManagementServices, request: JsonRequest) -> Response:
    """Delete a principal."""
    await services.principals.delete(services.administrator(request.caller), request.names["principal"])
    return no_content()


async def rotate_credentials(services: ManagementServices, request: JsonRequest) -> Response:
    """Create a new client secret; the current one stays valid until the next rotation."""
    administrator = services.administrator(request.caller)
    return ok(_with_secret(await services.principals.rotate(administrator, request.names["principal"])))


async def reset_credentials(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace all client credentials with generated or given ones."""
    document = await request.document(ResetDocument) if request.body else ResetDocument()
    reset = await services.principals.reset(
        services.administrator(request.caller),
        request.names["principal"],
        client_id=document.client_id,
        secret=None if document.client_secret is None else Secret(document.client_secret),
    )
    return ok(_with_secret(reset))


async def list_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """List the principal roles of a principal."""
    administrator = services.administrator(request.caller)
    found = await services.principal_roles.of_principal(administrator, request.names["principal"])
    return ok({"roles": [principal_role_document(role) for role in found]})


async def assign_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Assign a principal role to a principal."""
    document = await request.document(PrincipalRoleDocument)
    await services.principal_roles.assign(
        services.administrator(request.caller), request.names["principal"], document.principal_role.name
    )
    return created()


async def revoke_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Revoke a principal role from a principal."""
    await services.principal_roles.revoke(
        services.administrator(request.caller), request.names["principal"], request.names["principal-role"]
    )
    return no_content()


def _with_secret(created: PrincipalWithSecret) -> dict[str, Any]:
    credentials = created.credentials
    return {
        "principal": principal_document(created.principal),
        "credentials": {"clientId": credentials.client_id, "clientSecret": credentials.secret.reveal()},
    }


_ALL = "/v1/principals"
_ONE = _ALL + "/{principal}"

ROUTES = (
    Route("listPrincipals", "GET", _ALL, list_principals),
    Route("createPrincipal", "POST", _ALL, create_principal),
    Route("getPrincipal", "GET", _ONE, get_principal),
    Route("updatePrincipal", "PUT", _ONE, update_principal),
    Route("deletePrincipal", "DELETE", _ONE, delete_principal),
    Route("rotateCredentials", "POST", _ONE + "/rotate", rotate_credentials),
    Route("resetCredentials", "POST", _ONE + "/reset", reset_credentials),
    Route("listPrincipalRolesAssigned", "GET", _ONE + "/principal-roles", list_roles),
    Route("assignPrincipalRole", "PUT", _ONE + "/principal-roles", assign_role),
    Route("revokePrincipalRole", "DELETE", _ONE + "/principal-roles/{principal-role}", revoke_role),
)
