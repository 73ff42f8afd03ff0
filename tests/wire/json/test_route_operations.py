from __future__ import annotations

from lakebed.core.operations import Operation
from lakebed.wire.admin.operations import admin_mount
from lakebed.wire.iceberg.operations import catalog_routes
from lakebed.wire.json.route_operations import OPERATIONS_WITHOUT_ROUTE, ROUTE_OPERATIONS, ROUTES_WITHOUT_OPERATION
from lakebed.wire.management.operations import management_mount
from lakebed.wire.polaris.operations import polaris_routes

SERVED = {
    route.name
    for routes in (
        catalog_routes().routes,
        polaris_routes().routes,
        admin_mount().routes.routes,
        management_mount().routes.routes,
    )
    for route in routes
}


def test_every_route_is_an_operation_or_is_said_to_be_none() -> None:
    assert SERVED - ROUTE_OPERATIONS.keys() - ROUTES_WITHOUT_OPERATION == set()
    assert ROUTE_OPERATIONS.keys() & ROUTES_WITHOUT_OPERATION == set()


def test_every_operation_has_a_route_or_is_said_to_have_none() -> None:
    assert frozenset(Operation) - frozenset(ROUTE_OPERATIONS.values()) == OPERATIONS_WITHOUT_ROUTE


def test_nothing_is_said_of_routes_that_change_something_but_that_they_read() -> None:
    """A route that changes tables, views, policies, users or roles is an operation that does."""
    changing = {route.name for route in catalog_routes().routes if route.changes}
    changing |= {route.name for route in polaris_routes().routes if route.changes}
    changing |= {route.name for route in management_mount().routes.routes if route.method != "GET"}
    wrong = {name for name in changing if name in ROUTE_OPERATIONS and ROUTE_OPERATIONS[name].only_reads}
    assert wrong == set()
