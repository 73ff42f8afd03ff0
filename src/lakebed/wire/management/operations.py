"""All operations of the management API, in one table, and where it is."""

from __future__ import annotations

from typing import Final

from lakebed.wire.http.message import Response
from lakebed.wire.iceberg.services import IcebergServices
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.routing import Mount, Route, RouteTable

from .handlers import catalog_roles, catalogs, grants, principal_roles, principals
from .services import ManagementRoute, ManagementServices

BASE: Final = "/api/management"

MANAGEMENT_ROUTES: Final = (
    *principals.ROUTES,
    *principal_roles.ROUTES,
    *catalogs.ROUTES,
    *catalog_roles.ROUTES,
    *grants.ROUTES,
)


def management_mount(services: ManagementServices) -> Mount:
    """The routes behind `/api/management/v1/`, on these services."""
    return Mount(BASE, "/v1/", RouteTable([_bound(route, services) for route in MANAGEMENT_ROUTES]), "management")


def _bound(route: ManagementRoute, services: ManagementServices) -> Route:
    async def handle(_: IcebergServices, request: JsonRequest) -> Response:
        return await route.handle(services, request)

    return Route(route.name, route.method, route.path, handle, is_standard=False)
