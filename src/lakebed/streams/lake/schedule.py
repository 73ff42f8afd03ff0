"""Which table is tiered into the lake next, by whom, and whether it still is. Pure: a value, an event and the time
give the next value.

    Scheduled --freshness has passed--> Pending --given to a worker--> Tiering --finished--> Scheduled
                                           ^                              |
                                           '--failed, or not heard of ----'

Each time that a table is given to a worker its epoch rises. Who speaks of an older one is told so, and has written
nothing that counts: what it committed to the lake is found there by who has the table now.

Workers that ask for tables are given any that waits. Our own pipeline is asked by the home (ADR 35), which leaves alone
for a while what has failed, and what has nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["HEARTBEAT_TIMEOUT_MS", "TieringSchedule", "TieringState", "TieringStats", "TieringTable"]

HEARTBEAT_TIMEOUT_MS: Final = 120_000
"""How long a worker may be silent about a table that it has."""

FIRST_BACKOFF_MS: Final = 60_000
MAX_BACKOFF_MS: Final = 3_600_000
"""How long our own pipeline is not asked again after rounds that failed: doubling from the first."""


class TieringState(StrEnum):
    """What a table waits for."""

    SCHEDULED = "scheduled"
    """That what is in the lake gets older than it may."""

    PENDING = "pending"
    """For a worker."""

    TIERING = "tiering"
    """For its worker to end."""


@dataclass(frozen=True, slots=True)
class TieringStats:
    """What a worker said of a round that it ended."""

    file_size: int | None = None
    record_count: int | None = None


NO_STATS: Final = TieringStats()


@dataclass(frozen=True, slots=True)
class TieringTable:
    """One table of those that are tiered."""

    table_id: int
    freshness_ms: int
    """How old what is in the lake may get."""

    state: TieringState
    since_ms: int
    """When it came to wait for that; of one that is tiered, when its worker was last heard of."""

    epoch: int = 0
    """How often it was given to a worker."""

    tiered_ms: int | None = None
    """When it was last in the lake as far as it went."""

    started_ms: int | None = None
    took_ms: int | None = None
    """How long the last round took that its worker ended."""

    last: TieringStats = NO_STATS
    failures: int = 0
    failed_in_row: int = 0
    """Since it was last in the lake as far as it went."""

    @property
    def due_ms(self) -> int:
        """When it is to be tiered again, if it is scheduled."""
        return self.since_ms + self.freshness_ms

    @property
    def backoff_until_ms(self) -> int:
        """Until when our own pipeline is not asked, if it waits for a worker."""
        if not self.failed_in_row:
            return self.since_ms
        return self.since_ms + min(FIRST_BACKOFF_MS << min(self.failed_in_row - 1, 16), MAX_BACKOFF_MS)


@dataclass(frozen=True, slots=True)
class TieringSchedule:
    """All tables that are tiered, by id. Methods give another one; none changes it."""

    tables: Mapping[int, TieringTable] = field(default_factory=dict)

    def with_table(
        self, table_id: int, freshness_ms: int, now_ms: int, *, epoch: int = 0, tiered_ms: int | None = None
    ) -> TieringSchedule:
        """The table is to be tiered, or at another freshness than before; `epoch` is its last, if it had one.

        A new one is tiered at once, one that was before when it has become older than it may.
        """
        there = self.tables.get(table_id)
        if there is not None:
            return self._with(replace(there, freshness_ms=freshness_ms))
        since_ms = now_ms - freshness_ms if tiered_ms is None else min(tiered_ms, now_ms)
        return self._with(TieringTable(table_id, freshness_ms, TieringState.SCHEDULED, since_ms, epoch, tiered_ms))

    def without(self, table_id: int) -> TieringSchedule:
        """The table is not to be tiered any more, or gone. Its worker is told when it speaks of it."""
        return TieringSchedule({each: table for each, table in self.tables.items() if each != table_id})

    def at(self, now_ms: int) -> TieringSchedule:
        """What the time alone changes: what is due waits for a worker, and so does what a silent one had."""
        moved = dict(self.tables)
        for table_id, table in self.tables.items():
            if table.state is TieringState.SCHEDULED and now_ms >= table.due_ms:
                moved[table_id] = replace(table, state=TieringState.PENDING, since_ms=table.due_ms)
            elif table.state is TieringState.TIERING and now_ms - table.since_ms >= HEARTBEAT_TIMEOUT_MS:
                moved[table_id] = _failed(table, now_ms)
        return self if moved == self.tables else TieringSchedule(moved)

    def next(self, now_ms: int) -> tuple[TieringSchedule, TieringTable | None]:
        """Give the table that has waited longest to the worker that asks; None if none waits."""
        waiting = [table for table in self.tables.values() if table.state is TieringState.PENDING]
        if not waiting:
            return self, None
        chosen = min(waiting, key=lambda table: (table.since_ms, table.table_id))
        return self.give(chosen.table_id, now_ms)

    def give(self, table_id: int, now_ms: int) -> tuple[TieringSchedule, TieringTable]:
        """Give this table, which waits, to a worker. Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH."""
        chosen = self._waiting(table_id)
        given = replace(chosen, state=TieringState.TIERING, since_ms=now_ms, started_ms=now_ms, epoch=chosen.epoch + 1)
        return self._with(given), given

    def mark_fresh(self, table_id: int, now_ms: int) -> TieringSchedule:
        """The table, which waits, is in the lake as far as it goes.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        table = self._waiting(table_id)
        return self._with(
            replace(
                table, state=TieringState.SCHEDULED, since_ms=now_ms, tiered_ms=now_ms, started_ms=None, failed_in_row=0
            )
        )

    def postpone(self, table_id: int, now_ms: int) -> TieringSchedule:
        """Nobody could be asked for the table, which waits.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        return self._with(_failed(self._waiting(table_id), now_ms))

    def beat(self, table_id: int, epoch: int, now_ms: int) -> TieringSchedule:
        """Its worker is at it. Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH."""
        return self._with(replace(self._held(table_id, epoch), since_ms=now_ms))

    def finish(
        self, table_id: int, epoch: int, now_ms: int, said: TieringStats = NO_STATS, *, is_cut_short: bool = False
    ) -> TieringSchedule:
        """Its worker has ended the round, before all was in the lake if it was cut short: then it goes on soon.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        table = self._held(table_id, epoch)
        began = now_ms if table.started_ms is None else table.started_ms
        table = replace(table, started_ms=None, took_ms=now_ms - began, last=said)
        if is_cut_short:
            return self._with(replace(table, state=TieringState.PENDING, since_ms=now_ms))
        # Fresh as of when the round began: what came meanwhile is as old as that.
        return self._with(
            replace(table, state=TieringState.SCHEDULED, since_ms=began, tiered_ms=began, failed_in_row=0)
        )

    def fail(self, table_id: int, epoch: int, now_ms: int) -> TieringSchedule:
        """Its worker could not. Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH."""
        return self._with(_failed(self._held(table_id, epoch), now_ms))

    def _waiting(self, table_id: int) -> TieringTable:
        table = self._known(table_id)
        if table.state is not TieringState.PENDING:
            raise FlussError(
                ErrorCode.FENCED_TIERING_EPOCH,
                f"the table waits for no worker. table_id={table_id} state={table.state}",
            )
        return table

    def _known(self, table_id: int) -> TieringTable:
        table = self.tables.get(table_id)
        if table is None:
            raise FlussError(ErrorCode.UNKNOWN_TABLE_OR_BUCKET, f"the table is not tiered. table_id={table_id}")
        return table

    def _held(self, table_id: int, epoch: int) -> TieringTable:
        table = self._known(table_id)
        if table.epoch != epoch or table.state is not TieringState.TIERING:
            raise FlussError(
                ErrorCode.FENCED_TIERING_EPOCH,
                f"the table is tiered by another, or by none. table_id={table_id} epoch={epoch} now={table.epoch}",
            )
        return table

    def _with(self, table: TieringTable) -> TieringSchedule:
        return TieringSchedule({**self.tables, table.table_id: table})


def _failed(table: TieringTable, now_ms: int) -> TieringTable:
    return replace(
        table,
        state=TieringState.PENDING,
        since_ms=now_ms,
        started_ms=None,
        failures=table.failures + 1,
        failed_in_row=table.failed_in_row + 1,
    )
