"""All operations of the catalog, in one table."""

from __future__ import annotations

from .handlers import (
    bridges,
    configuration,
    credentials,
    diagnostics,
    dropped,
    maintenance,
    namespaces,
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
from .routes import RouteTable


def catalog_routes() -> RouteTable:
    """The routes, with the configuration that lists them."""
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
        *refs.ROUTES,
        *pointers.ROUTES,
        *diagnostics.ROUTES,
        *bridges.ROUTES,
        *dropped.ROUTES,
        *maintenance.ROUTES,
    ]
    return RouteTable([configuration.configuration_route(configuration.standard_endpoints(routes)), *routes])
