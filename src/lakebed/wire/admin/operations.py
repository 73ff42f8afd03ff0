"""The routes of the admin API."""

from __future__ import annotations

from lakebed.wire.json.federation import federated_mount
from lakebed.wire.json.routing import Mount, Route, RouteTable

from .handlers import (
    connections,
    delegations,
    events,
    labels,
    policies,
    stream,
    stream_servers,
    tables,
    targets,
    task_leases,
    tasks,
)
from .services import AdminServices

BASE = "/lakebed"


def admin_mount() -> Mount[AdminServices]:
    """The routes under `/lakebed/v1/`."""
    routes: list[Route[AdminServices]] = [
        *tasks.ROUTES,
        *task_leases.ROUTES,
        *events.ROUTES,
        *stream.ROUTES,
        *stream_servers.ROUTES,
        *targets.ROUTES,
        *tables.ROUTES,
        *policies.ROUTES,
        *labels.ROUTES,
        *delegations.ROUTES,
        *connections.ROUTES,
    ]
    # Without federated handlers: operations on federated catalogs are refused.
    return federated_mount(Mount(BASE, "/v1/", RouteTable(routes), "admin"), {})
