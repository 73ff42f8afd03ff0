"""Grants: what a catalog role holds, given and taken away."""

from __future__ import annotations

from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from ..documents import GrantRequest, created, grant_document
from ..services import ManagementServices


async def list_grants(services: ManagementServices, request: JsonRequest) -> Response:
    """What a role holds."""
    by, names = services.administrator(request.caller), request.names
    found = await services.granting.list(by, names["catalog"], names["catalog-role"])
    return ok({"grants": [grant_document(grant) for grant in found]})


async def add_grant(services: ManagementServices, request: JsonRequest) -> Response:
    """Give a privilege to a role."""
    asked = (await request.document(GrantRequest)).grant
    by, names = services.administrator(request.caller), request.names
    await services.granting.add(by, names["catalog"], names["catalog-role"], asked.target, asked.held)
    return created()


async def revoke_grant(services: ManagementServices, request: JsonRequest) -> Response:
    """Take a privilege from a role; with `cascade`, on all that is inside as well."""
    asked = (await request.document(GrantRequest)).grant
    by, names = services.administrator(request.caller), request.names
    await services.granting.revoke(
        by, names["catalog"], names["catalog-role"], asked.target, asked.held, cascade=request.flag("cascade")
    )
    # What the contract has for it, though nothing is made.
    return created()


_GRANTS = "/v1/catalogs/{catalog}/catalog-roles/{catalog-role}/grants"

ROUTES = (
    Route("listGrantsForCatalogRole", "GET", _GRANTS, list_grants),
    Route("addGrantToCatalogRole", "PUT", _GRANTS, add_grant),
    Route("revokeGrantFromCatalogRole", "POST", _GRANTS, revoke_grant),
)
