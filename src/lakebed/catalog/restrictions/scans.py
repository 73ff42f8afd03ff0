"""Scan plans for callers who do not see all of a table: over a copy that holds what they see.

A plan waits as `submitted` until its copy is there. It is a plan of the copy, and found only by who sees the table as
the copy shows it: a plan that was made before a policy changed is no plan any more.
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
from .copy_definition import define_copy, masked_columns, open_schema
from .copy_rows import CopyRow

__all__ = ["RestrictedPrincipal", "RestrictedScan", "RestrictedScans"]


class RestrictedPrincipal(NamedTuple):
    """Who scans what, and what of it he sees."""

    caller: Caller
    source: LiveEntry
    table: TableMetadata
    restriction: Restriction


class RestrictedScan(NamedTuple):
    """A plan, and the copy that it is of; None for one of a table that has no rows yet."""

    result: PlanResult
    copy: Entry | None


class RestrictedScans:
    """Plans scans over copies."""

    def __init__(self, planning: PlanningService, plans: PlanStore, copies: Copies) -> None:
        self._planning = planning
        self._plans = plans
        self._copies = copies

    async def plan(self, viewer: RestrictedPrincipal, request: ScanRequest) -> RestrictedScan:
        """Plan a scan, now or when its copy is there. Raises InvalidInput, NotSupported, AccessDenied."""
        if request.is_incremental:
            raise NotSupported("what was appended between two snapshots is not planned for who sees a part of a table")
        scan = open_scan(viewer.table, request)
        snapshot = next(iter(scan.snapshots.values()), None)
        if snapshot is None:
            return RestrictedScan(await self._planning.plan(viewer.source.entry.id, viewer.table, request), None)
        copy = await self._copies.ensure(viewer.caller, viewer.source, viewer.table, snapshot, viewer.restriction)
        # Of the copy's one snapshot, whichever it is to be; in the schema that the client has in mind.
        asked = msgspec.structs.replace(request, snapshot_id=None, use_snapshot_schema=False)
        kept = self._planning.plan if copy.is_ready else self._planning.submit
        result = await kept(copy.entry.id, _seen(copy, viewer), asked, scan.schema.id)
        if result.status is PlanStatus.SUBMITTED:
            result = await self._advance(viewer, copy, result.plan_id)
        return RestrictedScan(result, copy.entry)

    async def result(self, viewer: RestrictedPrincipal, plan_id: str) -> RestrictedScan:
        """Where a plan is. Raises NoSuchPlanId."""
        copy = await self._copy_of(viewer, plan_id)
        return RestrictedScan(await self._advance(viewer, copy, PlanId(plan_id)), copy.entry)

    async def cancel(self, viewer: RestrictedPrincipal, plan_id: str) -> None:
        """Give a plan up. Raises NoSuchPlanId."""
        copy = await self._copy_of(viewer, plan_id)
        await self._planning.cancel(copy.entry.id, plan_id)

    async def tasks(self, viewer: RestrictedPrincipal, plan_task: str) -> dict[str, object]:
        """The files of one task of a plan. Raises NoSuchPlanTask."""
        plan_id = self._planning.plan_of(plan_task)
        try:
            copy = await self._copy_of(viewer, plan_id)
        except NoSuchPlanId as error:
            raise NoSuchPlanTask("no such plan task: it is of no plan for this caller") from error
        return await self._planning.fetch_tasks(copy.entry.id, _seen(copy, viewer), plan_task)

    async def _advance(self, viewer: RestrictedPrincipal, copy: Copy, plan_id: PlanId) -> PlanResult:
        """Where a plan is, after all that can be done for it by now."""
        copy_id, seen = copy.entry.id, _seen(copy, viewer)
        if copy.is_ready:
            await self._planning.carry_out(copy_id, seen, plan_id)
        elif copy.failure:
            message = f"what the caller sees of the table could not be made: {copy.failure}"
            await self._planning.fail(copy_id, plan_id, PlanFailure(Unavailable.__name__, message))
        result = await self._planning.result(copy_id, seen, plan_id)
        if copy.failure:
            # The next plan asks for it anew.
            await self._copies.discard(copy.row)
        return result

    async def _copy_of(self, viewer: RestrictedPrincipal, plan_id: str) -> Copy:
        """The copy that a plan is of, if it shows what the caller sees. Raises NoSuchPlanId."""
        record = await self._plans.get(PlanId(plan_id))
        row = None if record is None else await self._copies.find(record.table_id)
        if row is not None and _shows(row, viewer):
            with suppress(NotFound):
                return await self._copies.look(row)
        raise NoSuchPlanId(f"no such plan for this caller. plan={plan_id[:80]}")


def _shows(row: CopyRow, viewer: RestrictedPrincipal) -> bool:
    """Whether a copy is of what somebody sees of the table as it is now."""
    snapshot = viewer.table.snapshots.get(row.snapshot)
    return (
        row.source == viewer.source.entry.id
        and row.restriction == viewer.restriction.key
        and snapshot is not None
        and row.recipe == define_copy(viewer.table, snapshot, viewer.restriction).digest
    )


def _seen(copy: Copy, viewer: RestrictedPrincipal) -> TableMetadata:
    """The copy as the table it is of: with the files of one, and the schemas of the other as they are shown."""
    masked = masked_columns(viewer.table, viewer.restriction)
    schemas = {
        schema_id: parse_schema(encode(open_schema(msgspec.json.decode(schema.written), masked)), "schemas")
        for schema_id, schema in viewer.table.schemas.items()
    }
    return replace(copy.table, schemas=schemas, current_schema_id=viewer.table.current_schema_id)
