"""Plans tables of the catalog: reads what the planner needs, in as much detail as it requires, and submits tasks.

A table is skipped while it is at the version that was planned last, under the same policies, and no time that planning
named has come. Otherwise its metadata is read, and its manifests only where that may lead to a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

from lakebed.core.errors import LakebedError
from lakebed.core.jobs import JobKind, PolicyOrigin
from lakebed.governance.policies import EffectivePolicy
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.meta.outbox import OutboxEvent
from lakebed.meta.seam import Reader, Transaction
from lakebed.meta.tasks import TaskState
from lakebed.objects.context import ObjectContext

from ..entries import Entries, LiveEntry
from ..policies.applicable import read_attached
from ..restrictions import is_copies_namespace
from ..rows import REPORTS_BEFORE
from ..tables.files import CatalogFiles
from .engine_reports import NO_SIGNALS, EngineSignals, read_signals
from .planner import LastJobRun, PlannedTask, TaskPlan, plan_table, policy_fingerprint, policy_origin
from .reachability.walking import LiveFiles, Walker, WalkLimits, walker_of
from .rules.job_rules import DetailLevel, TableState
from .rules.policy_rules import read_policy
from .tasks.history import PlanningMark, TaskHistory
from .tasks.queue import OpenTask, TaskSubmissions

__all__ = ["PlanningTotals", "TablePlan", "TablePlanner"]

log = logging.getLogger("lakebed.catalog")

SURVEY_LIMITS: Final = WalkLimits(manifests=2_000, files=100_000)
"""How much of a table is read for planning; beyond that the snapshot summary decides."""

MAX_PAUSE_MS: Final = 24 * 3_600_000
"""When a table is planned again at the latest."""
OPEN_PAUSE_MS: Final = 300_000
"""The same with open tasks. Their end leads to planning too, unless another task is running at that moment."""
UNREADABLE_PAUSE_MS: Final = 3_600_000
"""The same for a table whose metadata cannot be read."""

_REPORTS: Final = 20
_NEWEST: Final = (1 << 63) - 1
_SIGNALS_MS: Final = 86_400_000
_NOT_REQUIRED: Final = "no policy requires it any more"


class PlanningTotals(NamedTuple):
    """Numbers of planned tables and of their tasks."""

    tables: int = 0
    """Tables that were examined."""
    tasks: int = 0
    revised: int = 0
    withdrawn: int = 0

    def plus(self, other: PlanningTotals) -> PlanningTotals:
        """The sum of both."""
        return PlanningTotals(*(mine + its for mine, its in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The plan of a table, beside the tasks that are open."""

    known: LiveEntry
    policies: Sequence[EffectivePolicy]
    plan: TaskPlan
    revisions: Sequence[tuple[OpenTask, PlannedTask]] = ()
    """Waiting tasks, and their new specifications."""
    withdrawals: Sequence[OpenTask] = ()
    """Waiting tasks that no policy requires any more."""
    mark: PlanningMark | None = None
    """The planning mark to store; None if no policy applies."""


class _State(NamedTuple):
    """The history and open tasks of a table."""

    runs: Mapping[JobKind, LastJobRun]
    opened: Sequence[OpenTask]
    speeds: Mapping[JobKind, int]
    force: bool


class TablePlanner:
    """Plans tables."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        files: CatalogFiles,
        submissions: TaskSubmissions,
        history: TaskHistory,
    ) -> None:
        self._f = object_context
        self._entries = entries
        self._submissions = submissions
        self._history = history
        self._files = files

    async def plan_tables(self, tables: Sequence[LiveEntry], *, force: bool = False) -> list[TablePlan]:
        """Plan the tables that are due, or all of them with `force`. Changes nothing."""
        meta, now_ms = self._f.meta, self._f.clock.now_ms()
        # Restricted copies of tables are written once and dropped soon.
        tables = [known for known in tables if not is_copies_namespace(known.namespace.levels)]
        ids = [known.entry.id for known in tables]
        marks = await self._history.marks(meta, ids)
        changed: list[tuple[LiveEntry, Sequence[EffectivePolicy], str]] = []
        for known, policies in await self._with_policies(meta, tables):
            before = marks.get(known.entry.id)
            if not policies and before is None and not force:
                continue
            fingerprint = policy_fingerprint(policies)
            is_known = before is not None and before[:2] == (known.entry.version_token, fingerprint)
            if force or before is None or not is_known or before.due_ms <= now_ms:
                changed.append((known, policies, fingerprint))
        if not changed:
            return []
        ids = [known.entry.id for known, _, _ in changed]
        runs = await self._history.runs(meta, ids)
        opened = await self._submissions.open_for(meta, ids)
        speeds = await self._history.speeds(meta)
        plans: list[TablePlan] = []
        for known, policies, fingerprint in changed:
            entry_id = known.entry.id
            state = _State(runs.get(entry_id, {}), opened.get(entry_id, ()), speeds, force)
            plans.append(await self._examine(known, policies, fingerprint, state))
            # Statements do not suspend on every store: other coroutines run between tables.
            await asyncio.sleep(0)
        return plans

    async def apply(self, tx: Transaction, plans: Sequence[TablePlan], events: list[OutboxEvent]) -> PlanningTotals:
        """Submit, revise and withdraw tasks as planned, as a step of a transaction. Idempotent.

        Adds its events to `events`, for `append_events` at the end of the transaction's work.
        """
        total = PlanningTotals()
        for one in plans:
            revised = withdrawn = placed = 0
            for opened, planned in one.revisions:
                revised += await self._submissions.revise(
                    tx, opened.task.id, planned.spec, events, run_at_ms=planned.run_at_ms
                )
            for opened in one.withdrawals:
                withdrawn += await self._submissions.withdraw(tx, opened.task.id, opened.spec, _NOT_REQUIRED, events)
            for planned in one.plan.tasks:
                placed += (await self._submissions.submit(tx, planned.spec, events, run_at_ms=planned.run_at_ms)).is_new
            if one.mark is None:
                await self._history.clear_mark(tx, one.known.entry.id)
            else:
                await self._history.mark_planned(tx, one.known.entry.id, one.mark)
            total = total.plus(PlanningTotals(1, placed, revised, withdrawn))
        return total

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _with_policies(
        self, reader: Reader, tables: Sequence[LiveEntry]
    ) -> list[tuple[LiveEntry, Sequence[EffectivePolicy]]]:
        """Tables with the policies that apply to them; a few statements for each table bucket.

        No policy applies to tables of external catalogs: the catalog that commits to them maintains them.
        """
        found: list[tuple[LiveEntry, Sequence[EffectivePolicy]]] = []
        in_order = sorted(tables, key=lambda known: (known.entry.catalog, known.entry.id))
        for catalog, group in groupby(in_order, key=lambda known: known.entry.catalog):
            members = list(group)
            if members[0].catalog.is_external:
                found += [(known, ()) for known in members]
                continue
            attached = await read_attached(reader, catalog)
            attached = await attached.with_entries(reader, members[0].entry.id, members[-1].entry.id)
            found += [(known, attached.applicable_to(known.namespace.levels, known.entry)) for known in members]
        return found

    async def _examine(
        self,
        known: LiveEntry,
        policies: Sequence[EffectivePolicy],
        fingerprint: str,
        state: _State,
    ) -> TablePlan:
        now_ms = self._f.clock.now_ms()
        origins = _required_jobs(policies)
        ours = {one.spec.job: one for one in state.opened if _is_of_policy(one)}
        withdrawals = [one for job, one in ours.items() if job not in origins]
        if not policies:
            return TablePlan(known, policies, TaskPlan(), withdrawals=withdrawals)
        # Tasks of another policy than the one that applies now, or of an older version of it.
        stale = {job: one for job, one in ours.items() if origins.get(job, one.spec.policy) != one.spec.policy}
        is_open = {one.spec.job for one in state.opened} - stale.keys()
        if origins and origins.keys() <= is_open and not state.force:
            # All required jobs have an open task: no need to read the table.
            planned_mark = PlanningMark(known.entry.version_token, fingerprint, now_ms + OPEN_PAUSE_MS)
            return TablePlan(known, policies, TaskPlan(), withdrawals=withdrawals, mark=planned_mark)
        try:
            plan = await self._plan(known, policies, state, is_open)
        except LakebedError as error:
            log.warning("table planning failed", extra={"table": known.entry.id, "reason": str(error)})
            planned_mark = PlanningMark(known.entry.version_token, fingerprint, now_ms + UNREADABLE_PAUSE_MS)
            return TablePlan(known, policies, TaskPlan(), withdrawals=withdrawals, mark=planned_mark)
        latest_ms = now_ms + (OPEN_PAUSE_MS if is_open else MAX_PAUSE_MS)
        due_ms = latest_ms if plan.again_ms is None else min(plan.again_ms, latest_ms)
        revised = {one.spec.job: one for one in plan.tasks if one.spec.job in stale}
        return TablePlan(
            known,
            policies,
            replace(plan, tasks=tuple(one for one in plan.tasks if one.spec.job not in stale)),
            revisions=[(stale[job], one) for job, one in revised.items()],
            withdrawals=[*withdrawals, *(one for job, one in stale.items() if job not in revised)],
            mark=PlanningMark(known.entry.version_token, fingerprint, due_ms),
        )

    async def _plan(
        self,
        known: LiveEntry,
        policies: Sequence[EffectivePolicy],
        state: _State,
        is_open: Container[JobKind],
    ) -> TaskPlan:
        """Plan by the summary, and in more detail if that does not decide."""
        now_ms = self._f.clock.now_ms()
        subject = TableState(
            known,
            (await self._entries.peek_metadata(known.catalog, known.entry)).table,
            now_ms,
            signals=await self._signals(known.entry.id, now_ms),
            last_runs={job: run.succeeded_ms for job, run in state.runs.items() if run.succeeded_ms is not None},
        )
        plan = plan_table(subject, policies, state.runs, state.speeds, is_open=is_open)
        if plan.detail > subject.detail:
            subject = await self._with_detail(subject, plan.detail)
            plan = plan_table(subject, policies, state.runs, state.speeds, is_open=is_open, before=plan)
        return plan

    async def live_files(self, entry_id: str, snapshot: Snapshot) -> LiveFiles:
        """The live files of a snapshot of a table."""
        return await self._walker(entry_id).live_files(snapshot)

    def _walker(self, entry_id: str) -> Walker:
        return walker_of(self._files, self._f.meta, entry_id, SURVEY_LIMITS)

    async def _with_detail(self, subject: TableState, detail: DetailLevel) -> TableState:
        snapshot = subject.table.current_snapshot
        if snapshot is None:
            return subject
        if detail is DetailLevel.FILES:
            return replace(subject, live=await self.live_files(subject.known.entry.id, snapshot))
        manifests, problems = await self._walker(subject.known.entry.id).manifests(snapshot)
        if problems:
            return replace(subject, live=LiveFiles([], [], problems, manifests))
        return replace(subject, manifests=manifests)

    async def _signals(self, entry_id: str, now_ms: int) -> EngineSignals:
        found = await self._f.meta.rows(REPORTS_BEFORE, entry_id, _NEWEST, _REPORTS)
        if not found:
            return NO_SIGNALS
        oldest_ms = now_ms - _SIGNALS_MS
        return read_signals((kind, document) for _, kind, document, _, received_ms in found if received_ms > oldest_ms)


def _required_jobs(policies: Sequence[EffectivePolicy]) -> dict[JobKind, PolicyOrigin]:
    """The jobs that policies require, each with its policy."""
    required: dict[JobKind, PolicyOrigin] = {}
    for applicable in policies:
        reading = read_policy(applicable.policy.type, applicable.policy.content, applicable.parameters)
        if reading is not None and reading.enabled:
            required.update((instruction.job, policy_origin(applicable)) for instruction in reading.instructions)
    return required


def _is_of_policy(one: OpenTask) -> bool:
    """Whether a waiting task is a policy's: requested tasks are not withdrawn."""
    return one.task.state is TaskState.READY and one.spec.policy is not None
