"""All operations of the catalog, in one table."""

from __future__ import annotations

from collections.abc import Sequence

from ..json.routing import CATALOG_BASES, Mount, RouteTable
from . import unsupported
from .handlers import (
    bridges,
    configuration,
    credentials,
    diagnostics,
    dropped,
    maintenance,
    namespaces,
    notifications,
    plans,
    pointers,
    refs,
    reports,
    signing,
    table_buckets,
    tables,
    transactions,
    views,
)


def catalog_routes(further_endpoints: Sequence[str] = ()) -> RouteTable:
    """The routes, with the configuration that lists them, and endpoints that are served beside them."""
    routes = [
        *table_buckets.ROUTES,
        *namespaces.ROUTES,
        *tables.ROUTES,
        *plans.ROUTES,
        *credentials.ROUTES,
        *signing.ROUTES,
        *views.ROUTES,
        *transactions.ROUTES,
        *reports.ROUTES,
        *notifications.ROUTES,
        *refs.ROUTES,
        *pointers.ROUTES,
        *diagnostics.ROUTES,
        *bridges.ROUTES,
        *dropped.ROUTES,
        *maintenance.ROUTES,
        *unsupported.ROUTES,
    ]
    endpoints = [*configuration.standard_endpoints(routes), *further_endpoints]
    return RouteTable([configuration.configuration_route(endpoints), *routes])


def catalog_mounts(routes: RouteTable) -> list[Mount]:
    """The routes behind every base path of the catalog."""
    return [Mount(base, "/v1/", routes) for base in CATALOG_BASES]
