"""Metrics reports of scans and commits: store and list."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.tables.metrics_reports import COMMIT_REPORT, SCAN_REPORT
from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..services import IcebergServices
from .tables import TABLE_PATH

_KINDS: Final = (SCAN_REPORT, COMMIT_REPORT)
_REPORTING: Final = (Action.GET_TABLE, Action.GET_TABLE_DATA, Action.PUT_TABLE_DATA)
"""Authorized actions of reportMetrics: the first for internal catalogs, the others for federated ones."""

_NEWEST: Final = (1 << 63) - 1
_MAX_PAGE: Final = 1000


class _ReportHead(msgspec.Struct, rename="kebab"):
    """The common fields of all reports."""

    report_type: str
    table_name: str
    snapshot_id: int | None = None


async def report_metrics(services: IcebergServices, request: JsonRequest) -> Response:
    """Store a report."""
    kind = await read_report_type(request)
    await services.reports.keep(request.caller, request.catalog, request.table, kind, request.body)
    return no_content()


async def read_report_type(request: JsonRequest) -> str:
    """The type of the report in the body. Raises InvalidInput."""
    kind = (await request.document(_ReportHead)).report_type
    if kind not in _KINDS:
        raise InvalidInput(f"report-type must be one of {', '.join(_KINDS)}", argument="report-type", value=kind)
    return kind


async def list_metrics(services: IcebergServices, request: JsonRequest) -> Response:
    """List the reports of a table, newest first."""
    query = request.http.query
    before, limit = query.get("before", str(_NEWEST)), query.get("limit", "100")
    if not (before.isascii() and before.isdigit() and limit.isascii() and limit.isdigit() and int(limit) >= 1):
        raise InvalidInput("before and limit must be whole numbers", argument="limit")
    found = await services.reports.list(
        request.caller,
        request.catalog,
        request.table,
        before=min(int(before), _NEWEST),
        limit=min(int(limit), _MAX_PAGE),
    )
    reports: list[dict[str, Any]] = [
        {
            "sequence": report.seq,
            "report-type": report.kind,
            "principal": report.principal,
            "received-at-ms": report.received_ms,
            "report": msgspec.Raw(report.document),
        }
        for report in found
    ]
    return ok({"reports": reports})


_PATH = TABLE_PATH + "/metrics"

ROUTES = (
    Route("reportMetrics", "POST", _PATH, report_metrics, is_large=True, actions=_REPORTING),
    Route("listMetrics", "GET", _PATH, list_metrics, is_standard=False),
)
