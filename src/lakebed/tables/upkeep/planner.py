"""Plans tables of the catalog: reads what planning needs, no more of it than decides, and puts tasks into the queue.

A table is passed over while it is at the version that was planned last, under the same policies, and time alone asks
for nothing. Otherwise its metadata is looked at, and its manifests only where that may lead to a task.
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
from lakebed.governance.policies import Applicable
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.meta.outbox import Event
from lakebed.meta.seam import Reader, Transaction
from lakebed.meta.tasks import TaskState
from lakebed.objects.facilities import Facilities
from lakebed.tables.entries import Entries, Known
from lakebed.tables.files import TableFiles
from lakebed.tables.maintenance.walking import LiveFiles, Walker, WalkLimits, walker_of
from lakebed.tables.restrictions import is_of_copies
from lakebed.tables.rows import REPORTS_BEFORE

from .applicable import read_attached
from .model import Plan, PlannedTask, Run
from .orders import OpenTask, Orders
from .planning import fingerprint, origin_of, plan_table
from .policy_options import read_policy
from .records import Looked, Records
from .signals import NO_SIGNALS, Signals, read_signals
from .triggers import Look, Subject

__all__ = ["Planned", "Planner", "TablePlan"]

log = logging.getLogger("lakebed.tables")

SURVEY_LIMITS: Final = WalkLimits(manifests=2_000, files=100_000)
"""How much of a table is read to plan it; beyond that its summary has to do."""

AT_THE_LATEST_MS: Final = 24 * 3_600_000
"""When a table is looked at again that waits for nothing."""
OPEN_REST_MS: Final = 300_000
"""When one is that has open tasks. Their end asks for a look too; one that is under way just then may hide that."""
UNREADABLE_REST_MS: Final = 3_600_000
"""When one is whose metadata could not be read."""

_REPORTS: Final = 20
_NEWEST: Final = (1 << 63) - 1
_SIGNALS_MS: Final = 86_400_000
_NO_LONGER: Final = "no policy asks for it any more"


class Planned(NamedTuple):
    """What came of plans."""

    tables: int = 0
    """That were looked at."""
    tasks: int = 0
    revised: int = 0
    withdrawn: int = 0

    def plus(self, other: Planned) -> Planned:
        """Both together."""
        return Planned(*(mine + its for mine, its in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What is to be done about a table."""

    known: Known
    policies: Sequence[Applicable]
    plan: Plan
    revisions: Sequence[tuple[OpenTask, PlannedTask]] = ()
    """Orders that wait, and what they should say instead."""
    withdrawals: Sequence[OpenTask] = ()
    """Orders that wait, and that no policy asks for any more."""
    looked: Looked | None = None
    """Up to where the table is planned by this; None if nothing holds for it."""


class _State(NamedTuple):
    """What else is known of a table that is planned."""

    runs: Mapping[JobKind, Run]
    opened: Sequence[OpenTask]
    speeds: Mapping[JobKind, int]
    is_pressing: bool


class Planner:
    """Plans tables."""

    def __init__(
        self,
        facilities: Facilities,
        entries: Entries,
        files: TableFiles,
        orders: Orders,
        records: Records,
    ) -> None:
        self._f = facilities
        self._entries = entries
        self._orders = orders
        self._records = records
        self._files = files

    async def examine(self, tables: Sequence[Known], *, is_pressing: bool = False) -> list[TablePlan]:
        """The plans of those tables that have to be looked at: all of them, if it is pressing. Changes nothing."""
        meta, now_ms = self._f.meta, self._f.clock.now_ms()
        # Copies of what some see of tables are written once, and gone soon.
        tables = [known for known in tables if not is_of_copies(known.namespace.levels)]
        ids = [known.entry.id for known in tables]
        looks = await self._records.looks(meta, ids)
        changed: list[tuple[Known, Sequence[Applicable], str]] = []
        for known, policies in await self._with_policies(meta, tables):
            before = looks.get(known.entry.id)
            if not policies and before is None and not is_pressing:
                continue
            mark = fingerprint(policies)
            is_known = before is not None and before[:2] == (known.entry.version_token, mark)
            if is_pressing or before is None or not is_known or before.due_ms <= now_ms:
                changed.append((known, policies, mark))
        if not changed:
            return []
        ids = [known.entry.id for known, _, _ in changed]
        runs = await self._records.runs(meta, ids)
        opened = await self._orders.open_for(meta, ids)
        speeds = await self._records.speeds(meta)
        plans: list[TablePlan] = []
        for known, policies, mark in changed:
            entry_id = known.entry.id
            of_table = _State(runs.get(entry_id, {}), opened.get(entry_id, ()), speeds, is_pressing)
            plans.append(await self._examine(known, policies, mark, of_table))
            # Statements do not suspend on every store: others have to get their turn between tables.
            await asyncio.sleep(0)
        return plans

    async def enact(self, tx: Transaction, plans: Sequence[TablePlan], told: list[Event]) -> Planned:
        """Put what was planned into the queue, as a step of a transaction. Doing it twice is doing it once.

        What it did is added to `told`: for `tell_all`, at the end of the transaction's work.
        """
        total = Planned()
        for one in plans:
            revised = withdrawn = placed = 0
            for opened, planned in one.revisions:
                revised += await self._orders.revise(
                    tx, opened.task.id, planned.order, told, run_at_ms=planned.run_at_ms
                )
            for opened in one.withdrawals:
                withdrawn += await self._orders.withdraw(tx, opened.task.id, opened.order, _NO_LONGER, told)
            for planned in one.plan.tasks:
                placed += (await self._orders.place(tx, planned.order, told, run_at_ms=planned.run_at_ms)).is_new
            if one.looked is None:
                await self._records.look_again(tx, one.known.entry.id)
            else:
                await self._records.looked(tx, one.known.entry.id, one.looked)
            total = total.plus(Planned(1, placed, revised, withdrawn))
        return total

    # -- steps ----------------------------------------------------------------------------------------------------

    async def _with_policies(self, reader: Reader, tables: Sequence[Known]) -> list[tuple[Known, Sequence[Applicable]]]:
        """Tables with what holds for them; a few statements for each table bucket.

        Nothing holds for those of external catalogs: who moves their pointers looks after them.
        """
        found: list[tuple[Known, Sequence[Applicable]]] = []
        in_order = sorted(tables, key=lambda known: (known.entry.warehouse, known.entry.id))
        for warehouse, group in groupby(in_order, key=lambda known: known.entry.warehouse):
            members = list(group)
            if members[0].warehouse.is_external:
                found += [(known, ()) for known in members]
                continue
            attached = await read_attached(reader, warehouse)
            attached = await attached.with_entries(reader, members[0].entry.id, members[-1].entry.id)
            found += [(known, attached.applicable_to(known.namespace.levels, known.entry)) for known in members]
        return found

    async def _examine(
        self,
        known: Known,
        policies: Sequence[Applicable],
        mark: str,
        state: _State,
    ) -> TablePlan:
        now_ms = self._f.clock.now_ms()
        origins = _asked_for(policies)
        ours = {one.order.job: one for one in state.opened if _is_of_policy(one)}
        withdrawals = [one for job, one in ours.items() if job not in origins]
        if not policies:
            return TablePlan(known, policies, Plan(), withdrawals=withdrawals)
        # Of another policy than the one that holds now, or of an older version of it: to be said anew.
        stale = {job: one for job, one in ours.items() if origins.get(job, one.order.policy) != one.order.policy}
        is_open = {one.order.job for one in state.opened} - stale.keys()
        if origins and origins.keys() <= is_open and not state.is_pressing:
            # All of it waits or is under way: the table need not be looked at for that.
            looked = Looked(known.entry.version_token, mark, now_ms + OPEN_REST_MS)
            return TablePlan(known, policies, Plan(), withdrawals=withdrawals, looked=looked)
        try:
            plan = await self._plan(known, policies, state, is_open)
        except LakebedError as error:
            log.warning("a table could not be planned", extra={"table": known.entry.id, "reason": str(error)})
            looked = Looked(known.entry.version_token, mark, now_ms + UNREADABLE_REST_MS)
            return TablePlan(known, policies, Plan(), withdrawals=withdrawals, looked=looked)
        latest_ms = now_ms + (OPEN_REST_MS if is_open else AT_THE_LATEST_MS)
        due_ms = latest_ms if plan.again_ms is None else min(plan.again_ms, latest_ms)
        revised = {one.order.job: one for one in plan.tasks if one.order.job in stale}
        return TablePlan(
            known,
            policies,
            replace(plan, tasks=tuple(one for one in plan.tasks if one.order.job not in stale)),
            revisions=[(stale[job], one) for job, one in revised.items()],
            withdrawals=[*withdrawals, *(one for job, one in stale.items() if job not in revised)],
            looked=Looked(known.entry.version_token, mark, due_ms),
        )

    async def _plan(
        self,
        known: Known,
        policies: Sequence[Applicable],
        state: _State,
        is_open: Container[JobKind],
    ) -> Plan:
        """Plan from afar, and if that does not decide, from as near as it takes."""
        now_ms = self._f.clock.now_ms()
        subject = Subject(
            known,
            (await self._entries.glance(known.entry)).table,
            now_ms,
            signals=await self._signals(known.entry.id, now_ms),
            last_runs={job: run.succeeded_ms for job, run in state.runs.items() if run.succeeded_ms is not None},
        )
        plan = plan_table(subject, policies, state.runs, state.speeds, is_open=is_open)
        if plan.closer > subject.look:
            subject = await self._look_closer(subject, plan.closer)
            plan = plan_table(subject, policies, state.runs, state.speeds, is_open=is_open, before=plan)
        return plan

    async def live_files(self, entry_id: str, snapshot: Snapshot) -> LiveFiles:
        """The live files of a snapshot of a table."""
        return await self._walker(entry_id).live_files(snapshot)

    def _walker(self, entry_id: str) -> Walker:
        return walker_of(self._files, self._f.meta, entry_id, SURVEY_LIMITS)

    async def _look_closer(self, subject: Subject, look: Look) -> Subject:
        snapshot = subject.table.current_snapshot
        if snapshot is None:
            return subject
        if look is Look.FILES:
            return replace(subject, live=await self.live_files(subject.known.entry.id, snapshot))
        manifests, problems = await self._walker(subject.known.entry.id).manifests(snapshot)
        if problems:
            return replace(subject, live=LiveFiles([], [], problems, manifests))
        return replace(subject, manifests=manifests)

    async def _signals(self, entry_id: str, now_ms: int) -> Signals:
        found = await self._f.meta.rows(REPORTS_BEFORE, entry_id, _NEWEST, _REPORTS)
        if not found:
            return NO_SIGNALS
        oldest_ms = now_ms - _SIGNALS_MS
        return read_signals((kind, document) for _, kind, document, _, received_ms in found if received_ms > oldest_ms)


def _asked_for(policies: Sequence[Applicable]) -> dict[JobKind, PolicyOrigin]:
    """The jobs that policies ask for, and the policy that asks for each."""
    asked: dict[JobKind, PolicyOrigin] = {}
    for applicable in policies:
        reading = read_policy(applicable.policy.type, applicable.policy.content, applicable.parameters)
        if reading is not None and reading.enabled:
            asked.update((instruction.job, origin_of(applicable)) for instruction in reading.instructions)
    return asked


def _is_of_policy(one: OpenTask) -> bool:
    """Whether a task waits that a policy asked for: what people ask for is theirs to take back."""
    return one.task.state is TaskState.READY and one.order.policy is not None
