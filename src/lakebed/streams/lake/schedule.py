"""The tiering schedule: which table is tiered next, by which worker. Pure: methods return a new value.

    Scheduled --freshness elapsed--> Pending --assigned to a worker--> Tiering --finished--> Scheduled
                                        ^                                 |
                                        '--failed, or heartbeat timeout --'

Each assignment increments the table's epoch. Reports with an older epoch are rejected; what such a worker committed to
the lake is found there by the current one.

Workers that request tables get any waiting one. The server's own tiering tasks (ADR 35) back off after failures, and
skip tables without new records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["HEARTBEAT_TIMEOUT_MS", "TieringSchedule", "TieringState", "TieringStats", "TieringTable"]

HEARTBEAT_TIMEOUT_MS: Final = 120_000
"""After this without a heartbeat, a table is taken from its worker."""

FIRST_BACKOFF_MS: Final = 60_000
MAX_BACKOFF_MS: Final = 3_600_000
"""The backoff of tiering tasks after failed rounds doubles from the first to the maximum."""


class TieringState(StrEnum):
    """The state of a table."""

    SCHEDULED = "scheduled"
    """Until its freshness has elapsed."""

    PENDING = "pending"
    """Waits for a worker."""

    TIERING = "tiering"
    """Assigned to a worker."""


@dataclass(frozen=True, slots=True)
class TieringStats:
    """A worker's statistics of a finished round."""

    file_size: int | None = None
    record_count: int | None = None


NO_STATS: Final = TieringStats()


@dataclass(frozen=True, slots=True)
class TieringTable:
    """The state of one tiered table."""

    table_id: int
    freshness_ms: int
    """Maximum age of the lake table."""

    state: TieringState
    since_ms: int
    """The time of the last state change or, while tiering, of the last heartbeat."""

    epoch: int = 0
    """The number of assignments."""

    tiered_ms: int | None = None
    """The time as of which all records were in the lake."""

    started_ms: int | None = None
    took_ms: int | None = None
    """The duration of the last finished round."""

    last: TieringStats = NO_STATS
    failures: int = 0
    failed_in_row: int = 0
    """Failures since the last complete round."""

    @property
    def due_ms(self) -> int:
        """When a scheduled table becomes pending."""
        return self.since_ms + self.freshness_ms

    @property
    def backoff_until_ms(self) -> int:
        """When a tiering task may be submitted for a pending table."""
        if not self.failed_in_row:
            return self.since_ms
        return self.since_ms + min(FIRST_BACKOFF_MS << min(self.failed_in_row - 1, 16), MAX_BACKOFF_MS)


@dataclass(frozen=True, slots=True)
class TieringSchedule:
    """All tiered tables by id. Immutable."""

    tables: Mapping[int, TieringTable] = field(default_factory=dict)

    def with_table(
        self, table_id: int, freshness_ms: int, now_ms: int, *, epoch: int = 0, tiered_ms: int | None = None
    ) -> TieringSchedule:
        """Add a table, or change its freshness. `epoch` and `tiered_ms` are those of earlier rounds.

        A new table is due at once, another when its freshness has elapsed since `tiered_ms`.
        """
        existing = self.tables.get(table_id)
        if existing is not None:
            return self._with(replace(existing, freshness_ms=freshness_ms))
        since_ms = now_ms - freshness_ms if tiered_ms is None else min(tiered_ms, now_ms)
        return self._with(TieringTable(table_id, freshness_ms, TieringState.SCHEDULED, since_ms, epoch, tiered_ms))

    def without(self, table_id: int) -> TieringSchedule:
        """Remove a table. Later reports of its worker are rejected."""
        return TieringSchedule({each: table for each, table in self.tables.items() if each != table_id})

    def at(self, now_ms: int) -> TieringSchedule:
        """Advance the time: due tables become pending, and so do tables without heartbeats."""
        moved = dict(self.tables)
        for table_id, table in self.tables.items():
            if table.state is TieringState.SCHEDULED and now_ms >= table.due_ms:
                moved[table_id] = replace(table, state=TieringState.PENDING, since_ms=table.due_ms)
            elif table.state is TieringState.TIERING and now_ms - table.since_ms >= HEARTBEAT_TIMEOUT_MS:
                moved[table_id] = _failed(table, now_ms)
        return self if moved == self.tables else TieringSchedule(moved)

    def next(self, now_ms: int) -> tuple[TieringSchedule, TieringTable | None]:
        """Assign the table that has waited longest; None if none waits."""
        waiting = [table for table in self.tables.values() if table.state is TieringState.PENDING]
        if not waiting:
            return self, None
        chosen = min(waiting, key=lambda table: (table.since_ms, table.table_id))
        return self.assign(chosen.table_id, now_ms)

    def assign(self, table_id: int, now_ms: int) -> tuple[TieringSchedule, TieringTable]:
        """Assign a waiting table to a worker. Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH."""
        chosen = self._pending(table_id)
        assigned = replace(
            chosen, state=TieringState.TIERING, since_ms=now_ms, started_ms=now_ms, epoch=chosen.epoch + 1
        )
        return self._with(assigned), assigned

    def mark_fresh(self, table_id: int, now_ms: int) -> TieringSchedule:
        """Reschedule a waiting table whose records are all in the lake.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        table = self._pending(table_id)
        return self._with(
            replace(
                table, state=TieringState.SCHEDULED, since_ms=now_ms, tiered_ms=now_ms, started_ms=None, failed_in_row=0
            )
        )

    def postpone(self, table_id: int, now_ms: int) -> TieringSchedule:
        """Delay a waiting table for which no task could be submitted.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        return self._with(_failed(self._pending(table_id), now_ms))

    def heartbeat(self, table_id: int, epoch: int, now_ms: int) -> TieringSchedule:
        """Record a worker's heartbeat. Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH."""
        return self._with(replace(self._assigned(table_id, epoch), since_ms=now_ms))

    def finish(
        self, table_id: int, epoch: int, now_ms: int, stats: TieringStats = NO_STATS, *, is_incomplete: bool = False
    ) -> TieringSchedule:
        """End a round. An incomplete one is continued soon.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        table = self._assigned(table_id, epoch)
        began = now_ms if table.started_ms is None else table.started_ms
        table = replace(table, started_ms=None, took_ms=now_ms - began, last=stats)
        if is_incomplete:
            return self._with(replace(table, state=TieringState.PENDING, since_ms=now_ms))
        # Fresh as of the beginning of the round: later records may be missing.
        return self._with(
            replace(table, state=TieringState.SCHEDULED, since_ms=began, tiered_ms=began, failed_in_row=0)
        )

    def fail(self, table_id: int, epoch: int, now_ms: int) -> TieringSchedule:
        """Fail a round. Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH."""
        return self._with(_failed(self._assigned(table_id, epoch), now_ms))

    def _pending(self, table_id: int) -> TieringTable:
        table = self._known(table_id)
        if table.state is not TieringState.PENDING:
            raise FlussError(
                ErrorCode.FENCED_TIERING_EPOCH,
                f"table does not wait for a worker. table_id={table_id} state={table.state}",
            )
        return table

    def _known(self, table_id: int) -> TieringTable:
        table = self.tables.get(table_id)
        if table is None:
            raise FlussError(ErrorCode.UNKNOWN_TABLE_OR_BUCKET, f"table is not tiered. table_id={table_id}")
        return table

    def _assigned(self, table_id: int, epoch: int) -> TieringTable:
        table = self._known(table_id)
        if table.epoch != epoch or table.state is not TieringState.TIERING:
            raise FlussError(
                ErrorCode.FENCED_TIERING_EPOCH,
                f"table is not assigned with this epoch. table_id={table_id} epoch={epoch} current={table.epoch}",
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
