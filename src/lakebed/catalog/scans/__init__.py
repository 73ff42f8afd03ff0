"""Scan planning: which files of a table a query reads, decided by the server. No I/O but through a `FileSource`.

`parse_request` reads what a client asks, `PlanningService` answers it. Beneath, filters are parsed (`parsing`), bound
to a schema (`binding`), projected to partitions (`projection`) and held against what manifests say
(`manifest_filter`, `metrics_filter`, `residuals`, `deletes`).
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
