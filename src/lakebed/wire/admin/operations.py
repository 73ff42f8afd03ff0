"""All operations of the administration's API, in one table, and where it is."""

from __future__ import annotations

from lakebed.wire.json.routing import Mount, RouteTable

from .handlers import (
    arrivals,
    claims,
    connections,
    delegations,
    events,
    labels,
    policies,
    stream,
    stream_servers,
    tables,
    targets,
    tasks,
)

BASE = "/lakebed"


def admin_mount() -> Mount:
    """The routes behind `/lakebed/v1/`."""
    routes = [
        *tasks.ROUTES,
        *claims.ROUTES,
        *events.ROUTES,
        *stream.ROUTES,
        *stream_servers.ROUTES,
        *targets.ROUTES,
        *arrivals.ROUTES,
        *tables.ROUTES,
        *policies.ROUTES,
        *labels.ROUTES,
        *delegations.ROUTES,
        *connections.ROUTES,
    ]
    return Mount(BASE, "/v1/", RouteTable(routes), "admin")
