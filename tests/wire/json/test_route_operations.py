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


def test_every_route_has_an_operation_or_is_declared_without_one() -> None:
    assert SERVED - ROUTE_OPERATIONS.keys() - ROUTES_WITHOUT_OPERATION == set()
    assert ROUTE_OPERATIONS.keys() & ROUTES_WITHOUT_OPERATION == set()


def test_every_operation_has_a_route_or_is_declared_without_one() -> None:
    assert frozenset(Operation) - frozenset(ROUTE_OPERATIONS.values()) == OPERATIONS_WITHOUT_ROUTE


def test_routes_that_change_something_have_no_read_operation() -> None:
    """Routes that change tables, views, policies, users or roles have operations that do."""
    changing = {route.name for route in catalog_routes().routes if route.changes}
    changing |= {route.name for route in polaris_routes().routes if route.changes}
    changing |= {route.name for route in management_mount().routes.routes if route.method != "GET"}
    wrong = {name for name in changing if name in ROUTE_OPERATIONS and ROUTE_OPERATIONS[name].only_reads}
    assert wrong == set()
