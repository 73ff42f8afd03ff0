"""Users: created, listed, shown, changed, removed; their client credentials; the roles that they have."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.core.secrets import Secret
from lakebed.governance.rbac.managed_principals import PrincipalWithSecret
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..documents import NamedDocument, UpdateDocument, created, principal_document, principal_role_document
from ..services import ManagementServices


class NewPrincipal(msgspec.Struct, rename="camel"):
    """The body of createPrincipal."""

    principal: NamedDocument
    credential_rotation_required: bool | None = None


class ResetDocument(msgspec.Struct, rename="camel"):
    """The body of resetCredentials."""

    client_id: str | None = None
    client_secret: str | None = None


class RoleAssignment(msgspec.Struct, rename="camel"):
    """The body of assignPrincipalRole."""

    principal_role: NamedDocument


async def create_principal(services: ManagementServices, request: JsonRequest) -> Response:
    """Make a user, and show its client credentials this once."""
    asked = await request.document(NewPrincipal)
    made = await services.principals.create(
        services.administrator(request.caller),
        asked.principal.name,
        properties=asked.principal.properties or {},
        rotation_required=bool(asked.credential_rotation_required),
    )
    return created(_with_secret(made))


async def list_principals(services: ManagementServices, request: JsonRequest) -> Response:
    """All users."""
    found = await services.principals.list(services.administrator(request.caller))
    return ok({"principals": [principal_document(principal) for principal in found]})


async def get_principal(services: ManagementServices, request: JsonRequest) -> Response:
    """A user."""
    by = services.administrator(request.caller)
    return ok(principal_document(await services.principals.get(by, request.names["principal"])))


async def update_principal(services: ManagementServices, request: JsonRequest) -> Response:
    """Replace the properties of a user."""
    asked = await request.document(UpdateDocument)
    changed = await services.principals.update(
        services.administrator(request.caller),
        request.names["principal"],
        properties=asked.properties,
        version=asked.current_entity_version,
    )
    return ok(principal_document(changed))


async def delete_principal(services: ManagementServices, request: JsonRequest) -> Response:
    """Remove a user."""
    await services.principals.delete(services.administrator(request.caller), request.names["principal"])
    return no_content()


async def rotate_credentials(services: ManagementServices, request: JsonRequest) -> Response:
    """A fresh secret; the present one is good until the next rotation."""
    by = services.administrator(request.caller)
    return ok(_with_secret(await services.principals.rotate(by, request.names["principal"])))


async def reset_credentials(services: ManagementServices, request: JsonRequest) -> Response:
    """Credentials in place of all before them, generated or as the caller has them."""
    asked = await request.document(ResetDocument) if request.body else ResetDocument()
    reset = await services.principals.reset(
        services.administrator(request.caller),
        request.names["principal"],
        client_id=asked.client_id,
        secret=None if asked.client_secret is None else Secret(asked.client_secret),
    )
    return ok(_with_secret(reset))


async def list_roles(services: ManagementServices, request: JsonRequest) -> Response:
    """The principal roles that a user has."""
    by = services.administrator(request.caller)
    found = await services.principal_roles.of_principal(by, request.names["principal"])
    return ok({"roles": [principal_role_document(role) for role in found]})


async def assign_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Give a principal role to a user."""
    asked = await request.document(RoleAssignment)
    await services.principal_roles.assign(
        services.administrator(request.caller), request.names["principal"], asked.principal_role.name
    )
    return created()


async def revoke_role(services: ManagementServices, request: JsonRequest) -> Response:
    """Take a principal role from a user."""
    await services.principal_roles.revoke(
        services.administrator(request.caller), request.names["principal"], request.names["principal-role"]
    )
    return no_content()


def _with_secret(made: PrincipalWithSecret) -> dict[str, Any]:
    credentials = made.credentials
    return {
        "principal": principal_document(made.principal),
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
