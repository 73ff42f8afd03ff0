"""Scan planning for restricted principals, over restricted copies.

A plan stays `submitted` until its copy is complete. It belongs to the copy, and only callers with the same restriction
find it: a change of policies invalidates earlier plans.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import msgspec

from lakebed.core.errors import NoSuchPlanId, NoSuchPlanTask, NotFound, NotSupported, Unavailable
from lakebed.governance.policies import Restriction
from lakebed.iceberg.documents import encode
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.iceberg.schema import parse_schema
from lakebed.objects.model import Caller

from ..entries import LiveEntry
from ..model import Entry
from ..scans.plan_store import PlanFailure, PlanId, PlanStatus, PlanStore
from ..scans.requests import ScanRequest
from ..scans.service import PlanningService, PlanResult
from ..scans.table_scan import open_scan
from .copies import Copies, Copy
from .copy_definition import define_copy, masked_columns, relaxed_schema
from .copy_rows import CopyRow

__all__ = ["RestrictedPrincipal", "RestrictedScan", "RestrictedScans"]


class RestrictedPrincipal(NamedTuple):
    """A caller with a restriction, and the table that it scans."""

    caller: Caller
    source: LiveEntry
    table: TableMetadata
    restriction: Restriction


class RestrictedScan(NamedTuple):
    """A plan and its copy; None for tables without a snapshot."""

    result: PlanResult
    copy: Entry | None


class RestrictedScans:
    """Plans scans of restricted principals."""

    def __init__(self, planning: PlanningService, plans: PlanStore, copies: Copies) -> None:
        self._planning = planning
        self._plans = plans
        self._copies = copies

    async def plan(self, viewer: RestrictedPrincipal, request: ScanRequest) -> RestrictedScan:
        """Plan a scan, now or once its copy is complete. Raises InvalidInput, NotSupported, AccessDenied."""
        if request.is_incremental:
            raise NotSupported("incremental scans are not supported for restricted principals")
        scan = open_scan(viewer.table, request)
        snapshot = next(iter(scan.snapshots.values()), None)
        if snapshot is None:
            return RestrictedScan(await self._planning.plan(viewer.source.entry.id, viewer.table, request), None)
        copy = await self._copies.ensure(viewer.caller, viewer.source, viewer.table, snapshot, viewer.restriction)
        # The copy has a single snapshot; the schema is the one of the client's scan.
        on_copy = msgspec.structs.replace(request, snapshot_id=None, use_snapshot_schema=False)
        plan = self._planning.plan if copy.is_ready else self._planning.submit
        result = await plan(copy.entry.id, _visible(copy, viewer), on_copy, scan.schema.id)
        if result.status is PlanStatus.SUBMITTED:
            result = await self._advance(viewer, copy, result.plan_id)
        return RestrictedScan(result, copy.entry)

    async def result(self, viewer: RestrictedPrincipal, plan_id: str) -> RestrictedScan:
        """The status of a plan. Raises NoSuchPlanId."""
        copy = await self._copy_of(viewer, plan_id)
        return RestrictedScan(await self._advance(viewer, copy, PlanId(plan_id)), copy.entry)

    async def cancel(self, viewer: RestrictedPrincipal, plan_id: str) -> None:
        """Cancel a plan. Raises NoSuchPlanId."""
        copy = await self._copy_of(viewer, plan_id)
        await self._planning.cancel(copy.entry.id, plan_id)

    async def tasks(self, viewer: RestrictedPrincipal, plan_task: str) -> dict[str, object]:
        """The files of one task of a plan. Raises NoSuchPlanTask."""
        plan_id = self._planning.plan_of(plan_task)
        try:
            copy = await self._copy_of(viewer, plan_id)
        except NoSuchPlanId as error:
            raise NoSuchPlanTask("no such plan task for this caller") from error
        return await self._planning.fetch_tasks(copy.entry.id, _visible(copy, viewer), plan_task)

    async def _advance(self, viewer: RestrictedPrincipal, copy: Copy, plan_id: PlanId) -> PlanResult:
        """The status of a plan: executed if its copy is complete, failed if its copy failed."""
        copy_id, visible = copy.entry.id, _visible(copy, viewer)
        if copy.is_ready:
            await self._planning.carry_out(copy_id, visible, plan_id)
        elif copy.failure:
            message = f"the restricted copy of the table failed: {copy.failure}"
            await self._planning.fail(copy_id, plan_id, PlanFailure(Unavailable.__name__, message))
        result = await self._planning.result(copy_id, visible, plan_id)
        if copy.failure:
            # The next plan requests another copy.
            await self._copies.discard(copy.row)
        return result

    async def _copy_of(self, viewer: RestrictedPrincipal, plan_id: str) -> Copy:
        """The copy of a plan, if it matches the caller's restriction. Raises NoSuchPlanId."""
        record = await self._plans.get(PlanId(plan_id))
        row = None if record is None else await self._copies.find(record.table_id)
        if row is not None and _matches(row, viewer):
            with suppress(NotFound):
                return await self._copies.use(row)
        raise NoSuchPlanId(f"no such plan for this caller. plan={plan_id[:80]}")


def _matches(row: CopyRow, viewer: RestrictedPrincipal) -> bool:
    """Whether a copy has the restriction that applies to the caller now."""
    snapshot = viewer.table.snapshots.get(row.snapshot)
    return (
        row.source == viewer.source.entry.id
        and row.restriction == viewer.restriction.key
        and snapshot is not None
        and row.recipe == define_copy(viewer.table, snapshot, viewer.restriction).digest
    )


def _visible(copy: Copy, viewer: RestrictedPrincipal) -> TableMetadata:
    """The copy with the table's schemas: files of the one, columns of the other."""
    masked = masked_columns(viewer.table, viewer.restriction)
    schemas = {
        schema_id: parse_schema(encode(relaxed_schema(msgspec.json.decode(schema.written), masked)), "schemas")
        for schema_id, schema in viewer.table.schemas.items()
    }
    return replace(copy.table, schemas=schemas, current_schema_id=viewer.table.current_schema_id)
