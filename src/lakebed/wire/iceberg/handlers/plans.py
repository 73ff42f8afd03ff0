"""Server-side scan planning: plan, fetch the result, cancel, fetch scan tasks."""

from __future__ import annotations

import msgspec

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.scans.plan_store import PlanStatus
from lakebed.catalog.scans.scan_plans import PlannedScan
from lakebed.wire.http.message import Response
from lakebed.wire.json.errors import error_model
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..delegation import delegate_access, vend_copy_credentials
from ..services import IcebergServices
from .tables import TABLE_PATH


class TaskDocument(msgspec.Struct, rename="kebab"):
    """The body of fetchScanTasks."""

    plan_task: str


async def plan_table_scan(services: IcebergServices, request: JsonRequest) -> Response:
    """Plan the files of a query."""
    document = await request.document(dict[str, object])
    planned = await services.scans.plan(request.caller, request.catalog, request.table, document)
    return await _plan_response(services, request, planned)


async def fetch_planning_result(services: IcebergServices, request: JsonRequest) -> Response:
    """The status and result of a plan."""
    planned = await services.scans.result(request.caller, request.catalog, request.table, request.names["plan-id"])
    return await _plan_response(services, request, planned)


async def cancel_planning(services: IcebergServices, request: JsonRequest) -> Response:
    """Cancel a plan."""
    await services.scans.cancel(request.caller, request.catalog, request.table, request.names["plan-id"])
    return no_content()


async def fetch_scan_tasks(services: IcebergServices, request: JsonRequest) -> Response:
    """The file scan tasks of a plan task."""
    document = await request.document(TaskDocument)
    return ok(await services.scans.tasks(request.caller, request.catalog, request.table, document.plan_task))


async def _plan_response(services: IcebergServices, request: JsonRequest, planned: PlannedScan) -> Response:
    result = planned.result
    document = result.document()
    if result.failure is not None:
        refusal = error_model(result.failure)
        document["error"] = {"message": str(result.failure), "type": refusal.type, "code": refusal.status}
    if result.status is PlanStatus.COMPLETED and planned.is_restricted:
        catalog = planned.known.catalog
        if planned.copy is not None and (await services.access.allowed(catalog)).vends:
            document["storage-credentials"] = [await vend_copy_credentials(services, request, catalog, planned.copy)]
    elif result.status is PlanStatus.COMPLETED:
        granted = await delegate_access(
            services,
            request,
            planned.known.catalog,
            request.table,
            planned.known.entry.location,
            lambda: planned.table.properties,
            entry=planned.known.entry,
        )
        if granted.credentials and granted.has_secrets:
            document["storage-credentials"] = granted.credentials
    return ok(document)


ROUTES = (
    Route(
        "planTableScan", "POST", TABLE_PATH + "/plan", plan_table_scan, is_large=True, actions=(Action.GET_TABLE_DATA,)
    ),
    Route("fetchPlanningResult", "GET", TABLE_PATH + "/plan/{plan-id}", fetch_planning_result),
    Route("cancelPlanning", "DELETE", TABLE_PATH + "/plan/{plan-id}", cancel_planning),
    Route("fetchScanTasks", "POST", TABLE_PATH + "/tasks", fetch_scan_tasks),
)
