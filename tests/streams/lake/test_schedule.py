from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.lake.schedule import (
    FIRST_BACKOFF_MS,
    HEARTBEAT_TIMEOUT_MS,
    MAX_BACKOFF_MS,
    TieringSchedule,
    TieringState,
    TieringStats,
)

FRESHNESS = 1_000


def test_tiering_of_a_table() -> None:
    tiering = TieringSchedule().with_table(7, FRESHNESS, 10_000)
    assert tiering.next(10_000)[1] is None
    tiering, given = tiering.at(10_000).next(10_000)
    assert given is not None
    assert (given.table_id, given.epoch, given.state) == (7, 1, TieringState.TIERING)
    tiering = tiering.heartbeat(7, 1, 10_500).finish(7, 1, 10_600, TieringStats(12, 3))
    assert tiering.tables[7].tiered_ms == 10_000
    assert tiering.tables[7].last == TieringStats(12, 3)
    assert tiering.tables[7].took_ms == 600
    # Due one freshness interval after the start of the last tiering, not after its end.
    assert tiering.at(10_999).next(10_999)[1] is None
    _, again = tiering.at(11_000).next(11_000)
    assert again is not None
    assert again.epoch == 2


def test_worker_without_heartbeats_loses_its_table() -> None:
    tiering, _ = TieringSchedule().with_table(7, FRESHNESS, 0).at(0).next(0)
    tiering = tiering.at(HEARTBEAT_TIMEOUT_MS - 1)
    assert tiering.tables[7].state is TieringState.TIERING
    tiering, given = tiering.at(HEARTBEAT_TIMEOUT_MS).next(HEARTBEAT_TIMEOUT_MS)
    assert given is not None
    assert (given.epoch, given.failures) == (2, 1)
    with pytest.raises(FlussError) as caught:
        tiering.finish(7, 1, HEARTBEAT_TIMEOUT_MS + 1)
    assert caught.value.code is ErrorCode.FENCED_TIERING_EPOCH


def test_incomplete_tiering_continues_at_once() -> None:
    tiering, _ = TieringSchedule().with_table(7, FRESHNESS, 0).at(0).next(0)
    tiering = tiering.finish(7, 1, 5, is_incomplete=True)
    assert tiering.tables[7].tiered_ms is None
    assert tiering.tables[7].took_ms == 5
    _, given = tiering.next(5)
    assert given is not None
    assert given.epoch == 2


def test_tiered_table_waits_until_it_is_due() -> None:
    tiering = TieringSchedule().with_table(7, FRESHNESS, 5_000, epoch=9, tiered_ms=4_500)
    assert tiering.at(5_499).next(5_499)[1] is None
    _, given = tiering.at(5_500).next(5_500)
    assert given is not None
    assert given.epoch == 10


def test_changed_freshness_takes_effect_at_once() -> None:
    tiering = TieringSchedule().with_table(7, 60_000, 0, tiered_ms=0).with_table(7, 100, 50)
    assert tiering.at(100).tables[7].state is TieringState.PENDING


def test_table_without_new_records_is_fresh_as_of_the_check() -> None:
    tiering = TieringSchedule().with_table(7, FRESHNESS, 0).at(0).mark_fresh(7, 300)
    assert (tiering.tables[7].state, tiering.tables[7].tiered_ms, tiering.tables[7].epoch) == (
        TieringState.SCHEDULED,
        300,
        0,
    )
    assert tiering.at(1_299).tables[7].state is TieringState.SCHEDULED
    assert tiering.at(1_300).tables[7].state is TieringState.PENDING


def test_backoff_grows_with_failures_and_ends_with_a_success() -> None:
    tiering, now_ms, backoffs = TieringSchedule().with_table(7, FRESHNESS, 0).at(0), 0, []
    assert tiering.tables[7].backoff_until_ms <= 0
    for number in range(9):
        if number % 2:
            tiering = tiering.postpone(7, now_ms)
        else:
            tiering, given = tiering.assign(7, now_ms)
            tiering = tiering.fail(7, given.epoch, now_ms)
        backoffs.append(tiering.tables[7].backoff_until_ms - now_ms)
        now_ms = tiering.tables[7].backoff_until_ms
    assert backoffs == [min(FIRST_BACKOFF_MS << number, MAX_BACKOFF_MS) for number in range(9)]
    tiering, given = tiering.assign(7, now_ms)
    tiering = tiering.finish(7, given.epoch, now_ms).at(now_ms + FRESHNESS)
    assert tiering.tables[7].backoff_until_ms == now_ms + FRESHNESS
    assert tiering.tables[7].failures == 9


@pytest.mark.parametrize("act", ["assign", "mark_fresh", "postpone"])
def test_only_pending_tables_are_assigned_marked_fresh_or_postponed(act: str) -> None:
    scheduled = TieringSchedule().with_table(7, FRESHNESS, 0, tiered_ms=0)
    tiered, _ = scheduled.at(FRESHNESS).assign(7, FRESHNESS)
    for tiering, reason in (
        (scheduled, ErrorCode.FENCED_TIERING_EPOCH),
        (tiered, ErrorCode.FENCED_TIERING_EPOCH),
        (TieringSchedule(), ErrorCode.UNKNOWN_TABLE_OR_BUCKET),
    ):
        with pytest.raises(FlussError) as caught:
            getattr(tiering, act)(7, FRESHNESS)
        assert caught.value.code is reason


class Tables(RuleBasedStateMachine):
    """Workers that appear and disappear, against a model of the current assignments."""

    def __init__(self) -> None:
        super().__init__()
        self.tiering = TieringSchedule()
        self.now_ms = 0
        self.held: dict[int, int] = {}
        """Current assignments: table → epoch."""
        self.last_report: dict[int, int] = {}
        self.epochs: dict[int, int] = {}

    @rule(table=st.integers(1, 4), freshness=st.integers(0, 5_000))
    def enable(self, table: int, freshness: int) -> None:
        self.tiering = self.tiering.with_table(table, freshness, self.now_ms, epoch=self.epochs.get(table, 0))

    @precondition(lambda self: self.tiering.tables)
    @rule(data=st.data())
    def disable(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(sorted(self.tiering.tables)))
        self.tiering = self.tiering.without(table)
        self.held.pop(table, None)

    @rule(elapsed=st.integers(0, HEARTBEAT_TIMEOUT_MS + 1))
    def wait(self, elapsed: int) -> None:
        self.now_ms += elapsed
        self.tiering = self.tiering.at(self.now_ms)
        self.held = {
            table: epoch
            for table, epoch in self.held.items()
            if self.now_ms - self.last_report[table] < HEARTBEAT_TIMEOUT_MS
        }

    @rule()
    def request_table(self) -> None:
        waiting = [table for table in self.tiering.tables.values() if table.state is TieringState.PENDING]
        self.tiering, given = self.tiering.next(self.now_ms)
        assert (given is None) == (not waiting)
        if given is not None:
            assert given.table_id not in self.held
            assert given.since_ms >= min(table.since_ms for table in waiting)
            assert given.epoch == self.epochs.get(given.table_id, 0) + 1
            self.held[given.table_id] = self.epochs[given.table_id] = given.epoch
            self.last_report[given.table_id] = self.now_ms

    @rule(table=st.integers(1, 4), act=st.sampled_from(["assign", "mark fresh", "postpone"]))
    def plan(self, table: int, act: str) -> None:
        """Actions of the leader on pending tables."""
        entry = self.tiering.tables.get(table)
        if entry is None or entry.state is not TieringState.PENDING:
            return
        if act == "mark fresh":
            self.tiering = self.tiering.mark_fresh(table, self.now_ms)
        elif act == "postpone":
            self.tiering = self.tiering.postpone(table, self.now_ms)
        else:
            self.tiering, given = self.tiering.assign(table, self.now_ms)
            assert given.epoch == self.epochs.get(table, 0) + 1
            self.held[table] = self.epochs[table] = given.epoch
            self.last_report[table] = self.now_ms

    @rule(
        table=st.integers(1, 4),
        behind=st.integers(0, 2),
        action=st.sampled_from(["heartbeat", "finish", "incomplete", "fail"]),
    )
    def report(self, table: int, behind: int, action: str) -> None:
        epoch = self.epochs.get(table, 0) - behind
        is_current = self.held.get(table) == epoch
        if not is_current:
            with pytest.raises(FlussError) as caught:
                self.apply(action, table, epoch)
            entry = table in self.tiering.tables
            assert caught.value.code is (ErrorCode.FENCED_TIERING_EPOCH if entry else ErrorCode.UNKNOWN_TABLE_OR_BUCKET)
            return
        self.tiering = self.apply(action, table, epoch)
        self.last_report[table] = self.now_ms
        if action != "heartbeat":
            del self.held[table]
            after = TieringState.SCHEDULED if action == "finish" else TieringState.PENDING
            assert self.tiering.tables[table].state is after

    def apply(self, action: str, table: int, epoch: int) -> TieringSchedule:
        match action:
            case "heartbeat":
                return self.tiering.heartbeat(table, epoch, self.now_ms)
            case "fail":
                return self.tiering.fail(table, epoch, self.now_ms)
        return self.tiering.finish(table, epoch, self.now_ms, is_incomplete=action == "incomplete")

    @invariant()
    def one_worker_per_table(self) -> None:
        tiered = {
            table.table_id: table.epoch for table in self.tiering.tables.values() if table.state is TieringState.TIERING
        }
        assert tiered == self.held


TestTables = Tables.TestCase
