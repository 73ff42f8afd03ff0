"""Planning scans for clients: at once where that is quick, in tasks they fetch where it is not.

Who asks has been authorized for the table before. Every call is given the table as it is now, which may be later than
when the plan was made: a plan names the snapshot and the schema that it is of.
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
"""How long a plan can be fetched: longer than any client takes to fetch its tasks, shorter than snapshots are kept."""
_UNEXPECTED: Final = PlanFailure(LakebedError.__name__, "planning failed unexpectedly")


class _TaskPosition(msgspec.Struct, frozen=True, array_like=True):
    plan_id: str
    unit: int


_TOKENS: Final = PageTokens("scan task", _TaskPosition)


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Where a plan is and, if it is completed, what it found so far."""

    plan_id: PlanId
    status: PlanStatus
    scan_tasks: dict[str, object] | None = None
    """`plan-tasks`, `file-scan-tasks` and `delete-files`, of a completed plan only."""
    failure: LakebedError | None = None
    """Of a failed plan only."""

    def document(self) -> dict[str, object]:
        """The answer as JSON has it, but for the error of a failed plan, which is the edge's to write."""
        document: dict[str, object] = {"status": self.status.value, **(self.scan_tasks or {})}
        if self.status in (PlanStatus.SUBMITTED, PlanStatus.COMPLETED):
            document["plan-id"] = self.plan_id
        return document


class PlanningService:
    """The four calls of the contract, and the work that one of them may leave for later.

    `files_of` gives the files of a table by its id: no others are read for its plans.
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
        """Plan a scan. A plan that comes back `submitted` waits for `carry_out`, which the caller sees to.

        `schema_id` is of the schema that the request is meant in, where that is not what it says itself.
        Raises InvalidInput, NotSupported, and what reading the table's manifests raises.
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
        """Keep a request for a scan of what is not there yet: `carry_out` divides its work when it is.

        Raises InvalidInput, NotSupported.
        """
        record = self._record_of(table_id, open_scan(table, request, schema_id), request)
        await self._store.insert(record)
        return PlanResult(record.id, PlanStatus.SUBMITTED)

    async def fail(self, table_id: str, plan_id: str, failure: PlanFailure) -> None:
        """End a plan that waits for something that will not come. One that is not waiting stays as it is."""
        record = await self._record(table_id, plan_id)
        failed = msgspec.structs.replace(record, status=PlanStatus.FAILED, failure=failure)
        await self._store.replace(failed, PlanStatus.SUBMITTED)

    async def carry_out(self, table_id: str, table: TableMetadata, plan_id: str) -> None:
        """Divide the work of a submitted plan. Does nothing for one that is not waiting for it.

        An error becomes the plan's failure; one that is not the catalog's own is raised as well.
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
            # One that was cancelled meanwhile stays so.
            pinned = msgspec.structs.replace(record, request=_pinned(record.request, scan))
            await self._store.replace(_completed(pinned, work), PlanStatus.SUBMITTED)

    async def result(self, table_id: str, table: TableMetadata, plan_id: str) -> PlanResult:
        """Where a plan is. Raises NoSuchPlanId."""
        record = await self._record(table_id, plan_id)
        if record.status is PlanStatus.FAILED:
            return PlanResult(record.id, record.status, failure=_error(record.failure or _UNEXPECTED))
        if record.status is not PlanStatus.COMPLETED:
            return PlanResult(record.id, record.status)
        scan = _reopen(table, record)
        if scan is None:
            raise NoSuchPlanId(f"the plan is of a snapshot that has expired. plan={plan_id}")
        first = await self._planner(table_id).collect(scan, record.work[0]) if record.work else []
        return await _result(scan, record.id, record.work, first)

    async def cancel(self, table_id: str, plan_id: str) -> None:
        """Give a plan up: its tasks cannot be fetched any more. Raises NoSuchPlanId."""
        while True:
            record = await self._record(table_id, plan_id)
            if record.status in (PlanStatus.CANCELLED, PlanStatus.FAILED):
                return
            cancelled = msgspec.structs.replace(record, status=PlanStatus.CANCELLED, work=())
            # It may have been completed just now, which makes it no less cancelled.
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
        """The plan that a task says it is of. Raises NoSuchPlanTask."""
        try:
            return PlanId(_TOKENS.decode(plan_task).plan_id)
        except InvalidInput as error:
            raise _no_such_task() from error

    def _record_of(self, table_id: str, scan: TableScan, request: ScanRequest) -> PlanRecord:
        """A new plan, to be kept."""
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
        # A plan of another table is not this one's, whoever knows its id.
        if record is None or record.table_id != table_id or record.expires_ms <= self._clock.now_ms():
            raise NoSuchPlanId(f"no such plan for this table. plan={plan_id[:80]}")
        return record


async def _begin(planner: ScanPlanner, scan: TableScan) -> tuple[tuple[Work, ...], list[FileScanTask]]:
    """Divide the work and do the first unit. If that gives as many rows as are wanted, it is all."""
    work = await planner.divide(scan)
    found = await planner.collect(scan, work[0]) if work else []
    if scan.min_rows is not None and sum(task.certain_rows for task in found) >= scan.min_rows:
        work = work[:1]
    return work, found


def _no_such_task() -> NoSuchPlanTask:
    return NoSuchPlanTask("no such plan task: it is of no plan for this table, or the plan is over")


def _pinned(request: ScanRequest, scan: TableScan) -> ScanRequest:
    """The request naming its snapshot, so that it means the same when the table has moved on."""
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
