"""Scan planning by the server: which files of a table a query reads. I/O only through a `FileSource`.

`parse_request` reads a client's request, `PlanningService` plans it. Filter expressions and their evaluation are in
`iceberg.expressions`.
"""

from .plan_store import MemoryPlanStore, PlanFailure, PlanId, PlanRecord, PlanStatus, PlanStore
from .plan_tasks import PlanningLimits
from .planner import FileScanTask, ScanPlanner
from .requests import ScanRequest, parse_request
from .service import PlanningService, PlanResult
from .table_scan import TableScan, open_scan

__all__ = [
    "FileScanTask",
    "MemoryPlanStore",
    "PlanFailure",
    "PlanId",
    "PlanRecord",
    "PlanResult",
    "PlanStatus",
    "PlanStore",
    "PlanningLimits",
    "PlanningService",
    "ScanPlanner",
    "ScanRequest",
    "TableScan",
    "open_scan",
    "parse_request",
]
