"""Table maintenance: health, plan, policies, and the pending files of auto-ingest."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.identifiers import check_namespace
from lakebed.catalog.maintenance.table_planner import TablePlan
from lakebed.catalog.policies.attachments import TargetName
from lakebed.catalog.tables.arrivals import MAX_PAGE, Destination
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import check_no_fields
from lakebed.wire.json.policy_documents import applicable_document
from lakebed.wire.json.request import JsonRequest, split_namespace
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from .. import paging
from ..queries import check_parameters
from ..services import AdminServices

_pages = paging.CursorPages("table health", str)


class ArrivalsDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of listArrivals."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str
    after: int = 0
    limit: int = 100


class TakeArrivalsDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of takeArrivals."""

    warehouse: str
    namespace: tuple[str, ...]
    table: str
    events: list[int]


async def list_health(services: AdminServices, request: JsonRequest) -> Response:
    """List the health of tables in a catalog or namespace, measured by snapshot summaries."""
    http = request.http
    check_parameters(http, ("warehouse", "namespace", *paging.PARAMETERS))
    warehouse, namespace = http.query.get("warehouse", ""), http.query.get("namespace", "")
    if not warehouse:
        raise InvalidInput("warehouse is required", argument="warehouse")
    page = _pages.read(http, f"{warehouse} {namespace}")
    found = await services.maintenance.list_health(
        request.caller,
        warehouse,
        check_namespace(split_namespace(namespace)) if namespace else (),
        after=page.after or "",
        limit=page.limit,
    )
    return page.response({"tables": found.tables}, found.last_id if found.truncated else None)


async def get_health(services: AdminServices, request: JsonRequest) -> Response:
    """Get the health of a table, measured by its manifests."""
    check_parameters(request.http, ())
    return ok(await services.maintenance.health(request.caller, request.catalog, request.table))


async def get_plan(services: AdminServices, request: JsonRequest) -> Response:
    """Preview the tasks that the policies of a table require. Submits nothing."""
    check_parameters(request.http, ())
    return ok(_plan(await services.maintenance.plan(request.caller, request.catalog, request.table)))


async def submit_plan(services: AdminServices, request: JsonRequest) -> Response:
    """Plan a table and submit its tasks."""
    check_parameters(request.http, ())
    await check_no_fields(request)
    plan, submitted = await services.maintenance.plan_now(request.caller, request.catalog, request.table)
    return ok(_plan(plan) | {"tasks": [{"id": one.task_id, "order": one.spec} for one in submitted]})


async def list_table_policies(services: AdminServices, request: JsonRequest) -> Response:
    """List the policies that apply to a table, and why."""
    check_parameters(request.http, ())
    found = await services.attachments.applicable(
        request.caller, request.catalog, TargetName(*request.table), action=Action.GET_MAINTENANCE
    )
    return ok({"policies": [applicable_document(one) for one in found]})


async def list_arrivals(services: AdminServices, request: JsonRequest) -> Response:
    """List the pending files of a table by event number."""
    check_parameters(request.http, ())
    document = await request.document(ArrivalsDocument)
    destination = Destination(document.warehouse, document.namespace, document.table)
    limit = max(1, min(document.limit, MAX_PAGE))
    found = await services.arrivals.list(request.caller, destination, after=document.after, limit=limit)
    deployment = {"deployment": services.event_ids.deployment}
    return ok({"arrivals": [msgspec.to_builtins(one) | deployment for one in found]})


async def take_arrivals(services: AdminServices, request: JsonRequest) -> Response:
    """Acknowledge pending files."""
    check_parameters(request.http, ())
    document = await request.document(TakeArrivalsDocument)
    destination = Destination(document.warehouse, document.namespace, document.table)
    await services.arrivals.take(request.caller, destination, document.events)
    return no_content()


def _plan(found: TablePlan) -> dict[str, Any]:
    return {
        "planned": [one.spec for one in found.plan.tasks],
        "revised": [{"id": opened.task.id, "order": planned.spec} for opened, planned in found.revisions],
        "withdrawn": [{"id": opened.task.id, "order": opened.spec} for opened in found.withdrawals],
        "quiet": [{"policy": one.policy, "job": one.job, "reason": one.reason} for one in found.plan.skipped],
    }


_TABLE = "/v1/tables/{warehouse}/{namespace}/{table}"

ROUTES = (
    Route("listTableHealth", "GET", "/v1/tables/health", list_health, is_standard=False),
    Route("getTableHealth", "GET", _TABLE + "/health", get_health, is_standard=False),
    Route("getTablePlan", "GET", _TABLE + "/plan", get_plan, is_standard=False),
    Route("enactTablePlan", "POST", _TABLE + "/plan", submit_plan, is_standard=False),
    Route("listTablePolicies", "GET", _TABLE + "/policies", list_table_policies, is_standard=False),
    Route("listArrivals", "POST", "/v1/arrivals/list", list_arrivals, is_standard=False),
    Route("takeArrivals", "POST", "/v1/arrivals/take", take_arrivals, is_standard=False),
)
