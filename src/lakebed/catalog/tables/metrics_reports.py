"""Metrics reports of scans and commits that engines send: stored for a limited time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.governance.rbac import OPERATIONS
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from .. import rows
from ..access.authorization import Action, Privileges
from ..entries import Entries
from ..identifiers import Identifier
from ..model import EntryKind

SCAN_REPORT: Final = "scan-report"
COMMIT_REPORT: Final = "commit-report"

KEPT_MS: Final = 30 * 86_400_000
"""How long reports are stored."""


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """One report."""

    seq: int
    kind: str
    document: bytes
    principal: str
    received_ms: int


class MetricsReports:
    """Stores and returns reports."""

    def __init__(self, object_context: ObjectContext, entries: Entries) -> None:
        self._f = object_context
        self._entries = entries

    async def keep(self, caller: Caller, catalog_name: str, identifier: Identifier, kind: str, document: bytes) -> None:
        """Store a report of a table. Requires the privileges of the reported operation from callers with grants."""
        known = await self._entries.get(
            caller, catalog_name, identifier, EntryKind.TABLE, Action.GET_TABLE, privileges=_reporting(kind)
        )
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await tx.run(rows.INSERT_REPORT, known.entry.id, kind, document, caller.principal.name, now_ms)

        await self._f.meta.transact(work)

    async def list(
        self, caller: Caller, catalog_name: str, identifier: Identifier, *, before: int, limit: int
    ) -> list[MetricsReport]:
        """Reports of a table, newest first, from before a sequence number."""
        known = await self._entries.get(caller, catalog_name, identifier, EntryKind.TABLE, Action.GET_TABLE)
        found = await self._f.meta.rows(rows.REPORTS_BEFORE, known.entry.id, before, limit)
        return [MetricsReport(*row) for row in found]

    async def delete_expired(self) -> int:
        """Delete old reports. Returns their number."""
        before = self._f.clock.now_ms() - KEPT_MS

        async def work(tx: Transaction) -> int:
            return await tx.run(rows.DELETE_OLD_REPORTS, before)

        return await self._f.meta.transact(work)


def _reporting(kind: str) -> Privileges:
    return OPERATIONS["reportMetrics scan" if kind == SCAN_REPORT else "reportMetrics commit"].target
