"""The scheduler: plans tables on events and on a timer, in one process of all that share a metadata store.

It plans a table a short time after a commit to it, and all tables at an interval, a page at a time. Its position in the
outbox is a cursor in the store, which moves in the transaction that submits the tasks of those events: no event is lost
when a process stops. A table whose events are read twice is planned twice, with the same tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from lakebed.core.errors import Fenced, LakebedError, NotFound
from lakebed.meta.leases import Lease, Leases
from lakebed.meta.outbox import OutboxEntry, OutboxEvent
from lakebed.meta.seam import Transaction
from lakebed.objects.context import ObjectContext

from .. import rows
from ..entries import Entries, LiveEntry, live_entry_from
from ..events import decode_event
from ..model import EntryKind
from .table_planner import PlanningTotals, TablePlan, TablePlanner
from .tasks.events import append_events

__all__ = ["CURSOR", "LEASE", "Scheduler", "SchedulerRound"]

log = logging.getLogger("lakebed.catalog")

LEASE: Final = "upkeep scheduler"
CURSOR: Final = "upkeep scheduler"
"""Names in the store, from earlier releases."""

PAGE: Final = 50
"""Tables that are planned together; their tasks commit together."""
MAX_PENDING: Final = 10_000
"""Tables that may be pending; at this number no more events are read."""
LEASE_SECONDS: Final = 20.0
"""How long planning stops after its process was killed."""

_EVENTS_AT_ONCE: Final = 10_000
_TICK_SECONDS: Final = 1.0
_CURSOR_REST_MS: Final = 5_000
"""How often the cursor moves past events that need no planning."""

TABLE_EVENTS: Final = ("TableCommitted", "TableCreated", "TableRegistered", "TableRestored", "TableRenamed")
POLICY_EVENTS: Final = (
    "CatalogPolicyUpdated",
    "CatalogPolicyAttached",
    "CatalogPolicyDetached",
    "CatalogPolicyDropped",
)


class SchedulerRound(NamedTuple):
    """What one round did."""

    planned: PlanningTotals = PlanningTotals()
    passed: bool = False
    """Whether a pass over all tables ended."""
    more: bool = False
    """Whether the next round should begin at once."""


class _Pending(NamedTuple):
    """A table to be planned."""

    first_seq: int
    """The first of its events: the cursor stays before it."""
    due_ms: int


class Scheduler:
    """Plans tables while it holds the lease. Each process has one; one of them is active."""

    def __init__(
        self,
        object_context: ObjectContext,
        entries: Entries,
        leases: Leases,
        planner: TablePlanner,
        holder: str,
        *,
        interval_seconds: float,
        debounce_seconds: float,
    ) -> None:
        self._f = object_context
        self._entries = entries
        self._leases = leases
        self._planner = planner
        self._holder = holder
        self._interval_ms = round(interval_seconds * 1000)
        self._debounce_ms = round(debounce_seconds * 1000)
        self._tick_seconds = min(_TICK_SECONDS, max(0.01, debounce_seconds / 2), max(0.01, interval_seconds / 2))
        self._lease: Lease | None = None
        self._pending: dict[str, _Pending] = {}
        self._read_seq = 0
        """The last event that was read."""
        self._cursor_seq = 0
        """The last event that is done, as stored."""
        self._cursor_ms = 0
        self._after: str | None = None
        """The last table of the current pass; None between passes."""
        self._next_pass_ms = 0

    async def run(self, on_planned: Callable[[PlanningTotals], None]) -> None:
        """Wait for the lease, and plan while it is held. Raises what a round raises; call it again to start over."""
        keeper = asyncio.create_task(self._keep())
        try:
            while True:
                if not await self.hold():
                    await asyncio.sleep(LEASE_SECONDS / 4)
                    continue
                done = await self.step()
                on_planned(done.planned)
                await asyncio.sleep(0 if done.more else self._tick_seconds)
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            lease, self._lease = self._lease, None
            if lease is not None:
                # The next process need not wait for it to expire.
                with suppress(LakebedError):
                    await asyncio.shield(self._leases.release(lease))

    async def hold(self) -> bool:
        """Acquire or renew the lease; False if another process holds it."""
        now_ms = self._f.clock.now_ms()
        if self._lease is not None and self._lease.expires_ms - now_ms <= LEASE_SECONDS * 500:
            await self._renew(self._lease)
        if self._lease is not None:
            return True
        # A read costs less than an attempt, which is a transaction.
        other = await self._leases.find(self._f.meta, LEASE)
        if other is not None and other.holder != self._holder and other.expires_ms > now_ms:
            return False
        self._lease = await self._leases.acquire(LEASE, self._holder, LEASE_SECONDS)
        if self._lease is not None:
            await self._begin()
        return self._lease is not None

    async def step(self) -> SchedulerRound:
        """One round under the lease: read events, plan pending tables, continue the pass. Raises Fenced."""
        await self._read_events()
        now_ms = self._f.clock.now_ms()
        due = [entry for entry, pending in self._pending.items() if pending.due_ms <= now_ms][:PAGE]
        if due:
            return SchedulerRound(await self._plan_pending(due), more=len(due) == PAGE)
        if self._after is None and now_ms >= self._next_pass_ms:
            self._after = ""
            self._next_pass_ms = now_ms + self._interval_ms
        if self._after is not None:
            return await self._continue_pass(self._after)
        await self._catch_up(now_ms)
        return SchedulerRound()

    async def _keep(self) -> None:
        """Renew the lease during long rounds: without it their transaction is fenced out."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 4)
            if self._lease is not None:
                with suppress(LakebedError):
                    await self._renew(self._lease)

    async def _renew(self, lease: Lease) -> None:
        try:
            renewed: Lease | None = await self._leases.renew(lease, LEASE_SECONDS)
        except Fenced:
            renewed = None
        if self._lease is lease:
            self._lease = renewed

    # -- events ---------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Start from the stored cursor, without state of an earlier lease."""
        outbox = self._f.outbox

        async def work(tx: Transaction) -> int:
            # A new cursor begins at the end: the first pass covers earlier changes.
            return await outbox.open_cursor(tx, CURSOR, at_seq=await outbox.last_seq(tx))

        self._cursor_seq = self._read_seq = await self._f.meta.transact(work)
        self._cursor_ms = self._f.clock.now_ms()
        self._pending.clear()
        self._after = None
        self._next_pass_ms = 0

    async def _read_events(self) -> None:
        meta, outbox = self._f.meta, self._f.outbox
        last_seq = await outbox.last_seq(meta)
        while self._read_seq < last_seq and len(self._pending) < MAX_PENDING:
            up_to = min(last_seq, self._read_seq + _EVENTS_AT_ONCE)
            kinds = (*TABLE_EVENTS, *POLICY_EVENTS)
            for entry in await outbox.read_kinds(meta, self._read_seq, up_to, kinds):
                self._take(entry)
            self._read_seq = up_to

    def _take(self, entry: OutboxEntry) -> None:
        # The writer's clock may be ahead.
        due_ms = min(entry.event.occurred_ms, self._f.clock.now_ms()) + self._debounce_ms
        table_id = decode_event(entry.event.payload).id
        if table_id:
            # From the first event on, so that constant commits do not postpone planning forever.
            self._pending.setdefault(table_id, _Pending(entry.seq, due_ms))
        elif entry.event.kind in POLICY_EVENTS:
            # It may apply to any number of tables. Others are skipped quickly by their planning marks.
            self._next_pass_ms = min(self._next_pass_ms, due_ms)

    def _done_seq(self, planned: Container[str] = ()) -> int:
        """The last event that is done once these tables are planned."""
        left = [pending.first_seq for entry, pending in self._pending.items() if entry not in planned]
        return min(left) - 1 if left else self._read_seq

    async def _catch_up(self, now_ms: int) -> None:
        """Move the cursor past events that need no planning, so that the outbox can be trimmed."""
        done_seq = self._done_seq()
        if done_seq > self._cursor_seq and now_ms - self._cursor_ms >= _CURSOR_REST_MS:
            await self._commit([], done_seq)

    # -- planning -------------------------------------------------------------------------------------------------

    async def _plan_pending(self, due: Sequence[str]) -> PlanningTotals:
        tables: list[LiveEntry] = []
        for entry_id in due:
            # Dropped tables need nothing; nor do views, though policies can be attached to them.
            with suppress(NotFound):
                known = await self._entries.by_id(entry_id)
                if known.entry.kind is EntryKind.TABLE:
                    tables.append(known)
        plans = await self._planner.plan_tables(tables)
        planned = await self._commit(plans, self._done_seq(frozenset(due)))
        for entry_id in due:
            del self._pending[entry_id]
        return planned

    async def _continue_pass(self, after: str) -> SchedulerRound:
        """One page of a pass over all tables."""
        page = [live_entry_from(row) for row in await self._f.meta.rows(rows.TABLES_AFTER, after, PAGE)]
        plans = await self._planner.plan_tables(page) if page else []
        planned = await self._commit(plans, self._done_seq()) if plans else PlanningTotals()
        is_last = len(page) < PAGE
        self._after = None if is_last else page[-1].entry.id
        return SchedulerRound(planned, passed=is_last, more=not is_last)

    async def _commit(self, plans: Sequence[TablePlan], done_seq: int) -> PlanningTotals:
        """Submit the tasks and move the cursor in one transaction, as the holder of the lease."""
        lease = self._lease
        if lease is None:
            raise Fenced(f"the lease is not held. name={LEASE}")

        async def work(tx: Transaction) -> PlanningTotals:
            await self._leases.check(tx, lease)
            events: list[OutboxEvent] = []
            planned = await self._planner.apply(tx, plans, events)
            await self._f.outbox.advance(tx, CURSOR, done_seq)
            await append_events(self._f.outbox, tx, events)
            return planned

        try:
            planned = await self._f.meta.transact(work)
        except Fenced:
            self._lease = None
            raise
        self._cursor_seq = max(self._cursor_seq, done_seq)
        self._cursor_ms = self._f.clock.now_ms()
        return planned
