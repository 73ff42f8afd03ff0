"""Authorizes scan planning of tables, and runs long plans in the background."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller

from ..access.authorization import Action
from ..commits.service import Commits
from ..entries import Entries, LiveEntry
from ..identifiers import Identifier
from ..locations.confined_files import ConfinedFiles
from ..model import Entry, EntryKind
from ..restrictions.caller_restrictions import restricted_denial
from ..restrictions.copies import Copies
from ..restrictions.scans import RestrictedPrincipal, RestrictedScan, RestrictedScans
from ..tables.files import FileSources
from .plan_store import MetadataPlanStore, PlanId, PlanStatus
from .requests import parse_request
from .service import PlanningService, PlanResult

__all__ = ["PlannedScan", "ScanPlans"]

log = logging.getLogger("lakebed.catalog")


class PlannedScan(NamedTuple):
    """A plan, and its table."""

    known: LiveEntry
    table: TableMetadata
    result: PlanResult
    is_restricted: bool = False
    """Whether the caller is a restricted principal."""
    copy: Entry | None = None
    """The restricted copy that the files are of, if there is one."""


class _RequestedScan(NamedTuple):
    """The table of a scan request."""

    known: LiveEntry
    table: TableMetadata
    viewer: RestrictedPrincipal | None
    """The caller, if it is a restricted principal."""

    def planned(self, result: PlanResult) -> PlannedScan:
        return PlannedScan(self.known, self.table, result)

    def restricted(self, scan: RestrictedScan) -> PlannedScan:
        return PlannedScan(self.known, self.table, scan.result, True, scan.copy)


class ScanPlans:
    """Plans scans for callers that can read the table's data; for restricted principals, over restricted copies.

    Without `copies`, restricted principals are rejected.
    """

    def __init__(
        self,
        meta: MetaStore,
        files: FileSources,
        entries: Entries,
        commits: Commits,
        clock: Clock,
        copies: Copies | None = None,
    ) -> None:
        self._entries = entries
        self._commits = commits
        self._clock = clock
        self._plans = MetadataPlanStore(meta)
        self._planning = PlanningService(partial(ConfinedFiles, files, meta), self._plans, clock)
        self._restricted = None if copies is None else RestrictedScans(self._planning, self._plans, copies)
        self._running: set[asyncio.Task[None]] = set()

    async def plan(self, caller: Caller, catalog: str, identifier: Identifier, document: object) -> PlannedScan:
        """Plan a scan; a long plan continues in the background. Raises InvalidInput, NoSuchTable, NotSupported."""
        requested = await self._requested(caller, catalog, identifier)
        request = parse_request(document)
        if requested.viewer is not None:
            return requested.restricted(await self._for_restricted(requested).plan(requested.viewer, request))
        result = await self._planning.plan(requested.known.entry.id, requested.table, request)
        if result.status is PlanStatus.SUBMITTED:
            self._carry_out(requested.known.entry, requested.table, result.plan_id)
        return requested.planned(result)

    async def result(self, caller: Caller, catalog: str, identifier: Identifier, plan_id: str) -> PlannedScan:
        """The status and result of a plan. Raises NoSuchPlanId."""
        requested = await self._requested(caller, catalog, identifier)
        if requested.viewer is not None:
            return requested.restricted(await self._for_restricted(requested).result(requested.viewer, plan_id))
        result = await self._planning.result(requested.known.entry.id, requested.table, plan_id)
        if result.status is PlanStatus.SUBMITTED:
            # The worker that planned it may have died; two workers produce the same plan.
            self._carry_out(requested.known.entry, requested.table, result.plan_id)
        return requested.planned(result)

    async def cancel(self, caller: Caller, catalog: str, identifier: Identifier, plan_id: str) -> None:
        """Cancel a plan. Raises NoSuchPlanId."""
        requested = await self._requested(caller, catalog, identifier)
        if requested.viewer is not None:
            await self._for_restricted(requested).cancel(requested.viewer, plan_id)
        else:
            await self._planning.cancel(requested.known.entry.id, plan_id)

    async def tasks(self, caller: Caller, catalog: str, identifier: Identifier, plan_task: str) -> dict[str, object]:
        """The files of one plan task. Raises NoSuchPlanTask."""
        requested = await self._requested(caller, catalog, identifier)
        if requested.viewer is not None:
            return await self._for_restricted(requested).tasks(requested.viewer, plan_task)
        return await self._planning.fetch_tasks(requested.known.entry.id, requested.table, plan_task)

    async def delete_expired(self) -> int:
        """Delete expired plans. Returns their number."""
        return await self._plans.remove_expired(self._clock.now_ms())

    async def _requested(self, caller: Caller, catalog: str, identifier: Identifier) -> _RequestedScan:
        known = await self._entries.get(caller, catalog, identifier, EntryKind.TABLE, Action.GET_TABLE_DATA)
        table = await self._commits.parsed(known.catalog, known.entry)
        restriction = await self._entries.restrictions.of(
            caller.principal, known.catalog, identifier.namespace, known.entry
        )
        viewer = None if restriction is None else RestrictedPrincipal(caller, known, table, restriction)
        return _RequestedScan(known, table, viewer)

    def _for_restricted(self, requested: _RequestedScan) -> RestrictedScans:
        if self._restricted is None:
            raise restricted_denial(
                requested.known.namespace.levels,
                requested.known.entry,
                "scan planning for restricted principals is not available here",
            )
        return self._restricted

    def _carry_out(self, entry: Entry, table: TableMetadata, plan_id: PlanId) -> None:
        async def run() -> None:
            try:
                await self._planning.carry_out(entry.id, table, plan_id)
            except LakebedError as error:
                log.warning("scan planning failed, retried when the client polls the plan", exc_info=error)

        task = asyncio.get_running_loop().create_task(run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
