"""Plans scans: short ones in the response, others in plan tasks that the client fetches.

The caller is already authorized for the table. Every call gets the current table metadata, which may be newer than the
plan: a plan names its snapshot and schema.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from lakebed.core import errors
from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput, LakebedError, NoSuchPlanId, NoSuchPlanTask
from lakebed.core.paging import PageTokens
from lakebed.iceberg.metadata.table import TableMetadata

from ..tables.files import FileSource
from .documents import render_tasks
from .plan_store import PlanFailure, PlanId, PlanRecord, PlanStatus, PlanStore, new_plan_id
from .plan_tasks import PlanningLimits, Work
from .planner import FileScanTask, ScanPlanner
from .requests import ScanRequest
from .table_scan import TableScan, open_scan

__all__ = ["PlanResult", "PlanningService"]

_LIFE_MS: Final = 60 * 60 * 1000
"""Lifetime of a plan: longer than clients take to fetch its tasks, shorter than snapshots are retained."""
_UNEXPECTED: Final = PlanFailure(LakebedError.__name__, "planning failed unexpectedly")


class _TaskPosition(msgspec.Struct, frozen=True, array_like=True):
    plan_id: str
    unit: int


_TOKENS: Final = PageTokens("scan task", _TaskPosition)


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The status of a plan and, if it is completed, its first result."""

    plan_id: PlanId
    status: PlanStatus
    scan_tasks: dict[str, object] | None = None
    """`plan-tasks`, `file-scan-tasks` and `delete-files`, of a completed plan only."""
    failure: LakebedError | None = None
    """Of a failed plan only."""

    def document(self) -> dict[str, object]:
        """The JSON response, without the error of a failed plan, which the wire layer adds."""
        document: dict[str, object] = {"status": self.status.value, **(self.scan_tasks or {})}
        if self.status in (PlanStatus.SUBMITTED, PlanStatus.COMPLETED):
            document["plan-id"] = self.plan_id
        return document


class PlanningService:
    """The four calls of the specification, and the background work of the first.

    `files_of` returns the files of a table by its id: plans read no others.
    """

    def __init__(
        self,
        files_of: Callable[[str], FileSource],
        store: PlanStore,
        clock: Clock,
        *,
        limits: PlanningLimits | None = None,
        new_id: Callable[[Clock], PlanId] = new_plan_id,
    ) -> None:
        self._files_of = files_of
        self._limits = limits
        self._store = store
        self._clock = clock
        self._new_id = new_id

    async def plan(
        self, table_id: str, table: TableMetadata, request: ScanRequest, schema_id: int | None = None
    ) -> PlanResult:
        """Plan a scan. The caller must call `carry_out` for a plan that is returned as `submitted`.

        `schema_id` is the schema of the request, if it differs from the one in it. Raises InvalidInput, NotSupported,
        and the errors of reading the table's manifests.
        """
        scan = open_scan(table, request, schema_id)
        record = self._record_of(table_id, scan, _pinned(request, scan))
        planner = self._planner(table_id)
        if await planner.is_long(scan):
            await self._store.insert(record)
            return PlanResult(record.id, PlanStatus.SUBMITTED)
        work, found = await _begin(planner, scan)
        await self._store.insert(_completed(record, work))
        return await _result(scan, record.id, work, found)

    async def submit(
        self, table_id: str, table: TableMetadata, request: ScanRequest, schema_id: int | None = None
    ) -> PlanResult:
        """Store a request for a table that does not exist yet: `carry_out` divides its work once it does.

        Raises InvalidInput, NotSupported.
        """
        record = self._record_of(table_id, open_scan(table, request, schema_id), request)
        await self._store.insert(record)
        return PlanResult(record.id, PlanStatus.SUBMITTED)

    async def fail(self, table_id: str, plan_id: str, failure: PlanFailure) -> None:
        """Fail a submitted plan. Plans with another status stay as they are."""
        record = await self._record(table_id, plan_id)
        failed = msgspec.structs.replace(record, status=PlanStatus.FAILED, failure=failure)
        await self._store.replace(failed, PlanStatus.SUBMITTED)

    async def carry_out(self, table_id: str, table: TableMetadata, plan_id: str) -> None:
        """Divide the work of a submitted plan. Does nothing for other plans.

        An error becomes the plan's failure; an unexpected one is also raised.
        """
        record = await self._record(table_id, plan_id)
        if record.status is not PlanStatus.SUBMITTED:
            return
        try:
            scan = open_scan(table, record.request, record.schema_id)
            work, _ = await _begin(self._planner(table_id), scan)
        except Exception as error:
            known = isinstance(error, LakebedError)
            failure = PlanFailure(type(error).__name__, str(error)) if known else _UNEXPECTED
            failed = msgspec.structs.replace(record, status=PlanStatus.FAILED, failure=failure)
            await self._store.replace(failed, PlanStatus.SUBMITTED)
            if not known:
                raise
        else:
            # A plan that was cancelled since stays cancelled.
            pinned = msgspec.structs.replace(record, request=_pinned(record.request, scan))
            await self._store.replace(_completed(pinned, work), PlanStatus.SUBMITTED)

    async def result(self, table_id: str, table: TableMetadata, plan_id: str) -> PlanResult:
        """The status and result of a plan. Raises NoSuchPlanId."""
        record = await self._record(table_id, plan_id)
        if record.status is PlanStatus.FAILED:
            return PlanResult(record.id, record.status, failure=_error(record.failure or _UNEXPECTED))
        if record.status is not PlanStatus.COMPLETED:
            return PlanResult(record.id, record.status)
        scan = _reopen(table, record)
        if scan is None:
            raise NoSuchPlanId(f"snapshot of the plan has expired. plan={plan_id}")
        first = await self._planner(table_id).collect(scan, record.work[0]) if record.work else []
        return await _result(scan, record.id, record.work, first)

    async def cancel(self, table_id: str, plan_id: str) -> None:
        """Cancel a plan: its tasks cannot be fetched any more. Raises NoSuchPlanId."""
        while True:
            record = await self._record(table_id, plan_id)
            if record.status in (PlanStatus.CANCELLED, PlanStatus.FAILED):
                return
            cancelled = msgspec.structs.replace(record, status=PlanStatus.CANCELLED, work=())
            # It may have been completed concurrently: then the new status is replaced.
            if await self._store.replace(cancelled, record.status):
                return

    async def fetch_tasks(self, table_id: str, table: TableMetadata, plan_task: str) -> dict[str, object]:
        """The files of one plan task: `file-scan-tasks` and `delete-files`. Raises NoSuchPlanTask."""
        unknown = _no_such_task()
        try:
            position = _TOKENS.decode(plan_task)
            record = await self._record(table_id, position.plan_id)
        except (InvalidInput, NoSuchPlanId) as error:
            raise unknown from error
        if record.status is not PlanStatus.COMPLETED or not 0 < position.unit < len(record.work):
            raise unknown
        scan = _reopen(table, record)
        if scan is None:
            raise unknown
        found = await self._planner(table_id).collect(scan, record.work[position.unit])
        return await asyncio.to_thread(render_tasks, scan, found)

    def plan_of(self, plan_task: str) -> PlanId:
        """The plan of a plan task. Raises NoSuchPlanTask."""
        try:
            return PlanId(_TOKENS.decode(plan_task).plan_id)
        except InvalidInput as error:
            raise _no_such_task() from error

    def _record_of(self, table_id: str, scan: TableScan, request: ScanRequest) -> PlanRecord:
        """A new plan to store."""
        now_ms = self._clock.now_ms()
        return PlanRecord(
            id=self._new_id(self._clock),
            table_id=table_id,
            request=request,
            schema_id=scan.schema.id,
            status=PlanStatus.SUBMITTED,
            created_ms=now_ms,
            expires_ms=now_ms + _LIFE_MS,
        )

    def _planner(self, table_id: str) -> ScanPlanner:
        return ScanPlanner(self._files_of(table_id), self._limits)

    async def _record(self, table_id: str, plan_id: str) -> PlanRecord:
        record = await self._store.get(PlanId(plan_id))
        # The id of another table's plan gives no access to it.
        if record is None or record.table_id != table_id or record.expires_ms <= self._clock.now_ms():
            raise NoSuchPlanId(f"no such plan for this table. plan={plan_id[:80]}")
        return record


async def _begin(planner: ScanPlanner, scan: TableScan) -> tuple[tuple[Work, ...], list[FileScanTask]]:
    """Divide the work and plan the first task. If that returns enough rows, the others are dropped."""
    work = await planner.divide(scan)
    found = await planner.collect(scan, work[0]) if work else []
    if scan.min_rows is not None and sum(task.certain_rows for task in found) >= scan.min_rows:
        work = work[:1]
    return work, found


def _no_such_task() -> NoSuchPlanTask:
    return NoSuchPlanTask("no such plan task for this table, or its plan has expired")


def _pinned(request: ScanRequest, scan: TableScan) -> ScanRequest:
    """The request with its snapshot, so that it does not follow the table."""
    if request.is_incremental or request.snapshot_id is not None or not scan.snapshots:
        return request
    return msgspec.structs.replace(request, snapshot_id=next(iter(scan.snapshots)))


def _completed(record: PlanRecord, work: tuple[Work, ...]) -> PlanRecord:
    return msgspec.structs.replace(record, status=PlanStatus.COMPLETED, work=work)


async def _result(scan: TableScan, plan_id: PlanId, work: tuple[Work, ...], found: list[FileScanTask]) -> PlanResult:
    plan_tasks = [_TOKENS.encode(_TaskPosition(plan_id, unit)) for unit in range(1, len(work))]
    scan_tasks = await asyncio.to_thread(render_tasks, scan, found, plan_tasks)
    return PlanResult(plan_id, PlanStatus.COMPLETED, scan_tasks)


def _reopen(table: TableMetadata, record: PlanRecord) -> TableScan | None:
    """The scan of a plan; None if the table no longer has what it reads."""
    try:
        scan = open_scan(table, record.request, record.schema_id)
    except InvalidInput:
        return None
    read = {slice_.snapshot_id for unit in record.work for slice_ in unit}
    return scan if read <= scan.snapshots.keys() else None


def _error(failure: PlanFailure) -> LakebedError:
    kind = getattr(errors, failure.error, LakebedError)
    return kind(failure.message) if issubclass(kind, LakebedError) else LakebedError(failure.message)
