"""The route table of the Iceberg REST catalog API."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.wire.json.routing import CATALOG_BASES, Mount, Route, RouteTable

from . import unsupported
from .federated import with_federated_catalogs
from .handlers import (
    bridges,
    configuration,
    credentials,
    diagnostics,
    discovery,
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
from .services import IcebergServices


def catalog_routes(further_endpoints: Sequence[str] = ()) -> RouteTable[IcebergServices]:
    """The routes. The configuration route lists their endpoints and `further_endpoints`."""
    routes: list[Route[IcebergServices]] = [
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
        *discovery.ROUTES,
        *bridges.ROUTES,
        *dropped.ROUTES,
        *maintenance.ROUTES,
        *unsupported.ROUTES,
    ]
    endpoints = [*configuration.standard_endpoints(routes), *further_endpoints]
    return RouteTable([configuration.configuration_route(endpoints), *routes])


def iceberg_mounts(routes: RouteTable[IcebergServices]) -> list[Mount[IcebergServices]]:
    """The routes under every base path of the catalog."""
    return [with_federated_catalogs(Mount(base, "/v1/", routes)) for base in CATALOG_BASES]
