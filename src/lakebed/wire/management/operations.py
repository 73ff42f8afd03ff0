"""All operations of the management API, in one table, and where they are served."""

from __future__ import annotations

from typing import Final

from lakebed.wire.json.routing import Mount, RouteTable

from .handlers import catalog_roles, catalogs, grants, principal_roles, principals
from .services import ManagementServices

BASE: Final = "/api/management"


def management_mount() -> Mount[ManagementServices]:
    """The routes behind `/api/management/v1/`."""
    routes = [
        *principals.ROUTES,
        *principal_roles.ROUTES,
        *catalogs.ROUTES,
        *catalog_roles.ROUTES,
        *grants.ROUTES,
    ]
    return Mount(BASE, "/v1/", RouteTable(routes), "management")
