"""All operations on policies and generic tables, in one table, and where they are served."""

from __future__ import annotations

from typing import Final

from lakebed.wire.json.routing import CATALOG_BASES, Mount, RouteTable

from .handlers import generic_tables, mappings, policies, policy_types, policy_versions

ROOT: Final = "/polaris/v1/"


def polaris_routes() -> RouteTable:
    """The routes."""
    return RouteTable(
        [
            *policies.ROUTES,
            *mappings.ROUTES,
            *policy_types.ROUTES,
            *policy_versions.ROUTES,
            *generic_tables.ROUTES,
        ]
    )


def polaris_mounts(routes: RouteTable) -> list[Mount]:
    """The routes behind every base path of the catalog."""
    return [Mount(base, ROOT, routes, "polaris") for base in CATALOG_BASES]


def polaris_endpoints(routes: RouteTable) -> list[str]:
    """The endpoints that clients of Polaris look for in the catalog's configuration."""
    return [route.endpoint for route in routes.routes if route.is_standard]
