"""Lake tiering: tiered offsets of tables, and the assignment of tables to tiering jobs (ADR 31).

A round: `heartbeat` assigns a table and an epoch to a job. The job reads from the end offsets of `snapshot`. `prepare`
stores its new offsets under a name. The job commits to the lake with that name in the lake snapshot. `commit` records
that the lake snapshot contains the table up to these offsets. If a job dies between the last two steps, the next job
finds the name in the lake and commits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import msgspec

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.table_options import DEFAULT_FRESHNESS, flag, milliseconds
from lakebed.meta.leases import Lease
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.objects.model import Caller

from ..authorization import StreamAuthorizer, StreamOperation
from ..buckets.open_buckets import OpenBucket
from ..events import append_event
from ..table import StreamTable
from ..tables import StreamTables
from .schedule import NO_STATS, TieringSchedule, TieringState, TieringStats, TieringTable

__all__ = ["LakeSnapshot", "LakeTiering", "TieringReport", "is_tiered", "pending_records"]

_SCHEME: Final = "lakebed-streams:"

_OFFSETS: Final = "SELECT offsets FROM stream_lake_offsets WHERE name = ? AND table_id = ?"
_INSERT_OFFSETS: Final = "INSERT INTO stream_lake_offsets (name, table_id, offsets, prepared_ms) VALUES (?, ?, ?, ?)"
_SNAPSHOTS: Final = """
SELECT s.snapshot_id, t.offsets, r.offsets, s.committed_ms FROM stream_lake_snapshots s
JOIN stream_lake_offsets t ON t.name = s.tiered LEFT JOIN stream_lake_offsets r ON r.name = s.readable
WHERE s.table_id = ? ORDER BY s.number DESC
"""
_NUMBER: Final = "SELECT COALESCE(MAX(number), 0) + 1 FROM stream_lake_snapshots WHERE table_id = ?"
_OF_SNAPSHOT: Final = "SELECT number FROM stream_lake_snapshots WHERE table_id = ? AND snapshot_id = ?"
_INSERT: Final = """
INSERT INTO stream_lake_snapshots (table_id, snapshot_id, tiered, readable, number, committed_ms)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (table_id, snapshot_id) DO UPDATE SET tiered = excluded.tiered, readable = excluded.readable
"""
_FORGET_SNAPSHOTS: Final = "DELETE FROM stream_lake_snapshots WHERE table_id = ? AND number < ?"
_LATEST_READABLE: Final = "SELECT MAX(number) FROM stream_lake_snapshots WHERE table_id = ? AND readable IS NOT NULL"
_FORGET_OFFSETS: Final = """
DELETE FROM stream_lake_offsets WHERE table_id = ? AND prepared_ms < ?
AND name NOT IN (SELECT tiered FROM stream_lake_snapshots WHERE table_id = ?)
AND name NOT IN (SELECT readable FROM stream_lake_snapshots WHERE table_id = ? AND readable IS NOT NULL)
"""
_EPOCHS: Final = "SELECT table_id, epoch, tiered_ms FROM stream_tiering"
_SET_EPOCH: Final = """
INSERT INTO stream_tiering (table_id, epoch, tiered_ms) VALUES (?, ?, ?)
ON CONFLICT (table_id) DO UPDATE SET epoch = excluded.epoch, tiered_ms = excluded.tiered_ms
"""

_UNUSED_MS: Final = 7 * 86_400_000
"""How long offsets without a snapshot are kept: a job may still commit them."""

Offsets = Mapping[tuple[int | None, int], int]
"""The end of the tiered records, by partition and bucket."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int | None, int, int]]).decode


@dataclass(frozen=True, slots=True)
class LakeSnapshot:
    """A lake snapshot that contains a table up to these offsets."""

    snapshot_id: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class TieringReport:
    """A job's report on a table that was assigned to it."""

    table_id: int
    coordinator_epoch: int
    epoch: int
    stats: TieringStats = NO_STATS


ReportResult = tuple[int, FlussError | None]
"""A table, and the error if its report was rejected."""


def is_tiered(table: StreamTable) -> bool:
    """Whether lake tiering is enabled for the table."""
    return flag(table.definition.options.get("table.datalake.enabled", "false"))


def pending_records(opened: OpenBucket, offsets: Offsets) -> int:
    """The number of records of a bucket beyond the tiered offsets."""
    log, start = opened.log, opened.log.start_offset
    tiered = offsets.get((opened.bucket.partition_id, opened.bucket.bucket), start)
    return max(log.high_watermark - max(tiered, start), 0)


class LakeTiering:
    """Tiered offsets and assignments. One instance on the leader, with the assignments in memory."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        authorizer: StreamAuthorizer,
        tables: StreamTables,
        epoch: Callable[[], int],
    ) -> None:
        """`epoch` returns the leader epoch: assignments by another leader are void."""
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._tables = tables
        self._epoch = epoch
        self._tiering = TieringSchedule()
        self._freshness: Mapping[int, int] | None = None
        """The freshness of each tiered table; None if it must be loaded."""
        self._changes = 0
        tables.on_changed(self._changed)
        tables.on_dropped(self._dropped)

    async def begin(self, lease: Lease) -> None:
        """Reset when this server begins to lead: another server may have assigned tables."""
        self._tiering, self._freshness = TieringSchedule(), None

    # -- lake snapshots and offsets ---------------------------------------------------------------------------------

    async def snapshot(
        self, caller: Caller, database: str, name: str, snapshot_id: int | None = None, *, readable: bool = False
    ) -> tuple[StreamTable, LakeSnapshot]:
        """The latest snapshot, the latest readable one, or the one with this id.

        Error codes: TABLE_NOT_EXIST, LAKE_SNAPSHOT_NOT_EXIST.
        """
        table = await self._tables.get(caller, database, name)
        if snapshot_id is not None and readable:
            raise FlussError(ErrorCode.INVALID_CONFIG, "expected either a snapshot id or readable, not both")
        for found, tiered, read, _ in await self._meta.rows(_SNAPSHOTS, table.id):
            if readable:
                if read is not None:
                    return table, LakeSnapshot(found, _unpack(read))
            elif snapshot_id in (None, found):
                return table, LakeSnapshot(found, _unpack(tiered))
        raise FlussError(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST, f"no such lake snapshot. table={table.path}")

    async def offsets(self, table_id: int) -> Offsets:
        """The tiered offsets of a table, without a permission check."""
        return await _latest(self._meta, table_id)

    async def prepare(self, caller: Caller, table_id: int, offsets: Offsets, *, from_nothing: bool = False) -> str:
        """Store new offsets of a table, merged into the current ones; returns their name.

        Error codes: UNKNOWN_TABLE_OR_BUCKET.
        """
        await self.authorize(caller)
        await self._tables.by_id(table_id)
        name, now_ms = f"{_SCHEME}{uuid4().hex}", self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            before = {} if from_nothing else await _latest(tx, table_id)
            await tx.run(_INSERT_OFFSETS, name, table_id, _pack({**before, **offsets}), now_ms)

        await self._meta.transact(work)
        return name

    async def commit(
        self,
        caller: Caller,
        table_id: int,
        snapshot_id: int,
        tiered: str,
        readable: str | None = None,
        keep_from: int | None = None,
    ) -> None:
        """Record a lake snapshot with the offsets that were prepared under these names. Idempotent.

        Snapshots before `keep_from` are forgotten, except for the latest readable one. None means this snapshot; an
        unknown id keeps all. Error codes: UNKNOWN_TABLE_OR_BUCKET, LAKE_SNAPSHOT_NOT_EXIST for names that were not
        prepared.
        """
        await self.authorize(caller)
        table = await self._tables.by_id(table_id)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            for name in (tiered, readable):
                if name is not None and await tx.row(_OFFSETS, name, table_id) is None:
                    raise FlussError(
                        ErrorCode.LAKE_SNAPSHOT_NOT_EXIST,
                        f"offsets were not prepared. table={table.path} path={name}",
                    )
            number = await _count(tx, _NUMBER, table_id)
            await tx.run(_INSERT, table_id, snapshot_id, tiered, readable, number, now_ms)
            oldest = await tx.row(_OF_SNAPSHOT, table_id, snapshot_id if keep_from is None else keep_from)
            if oldest is not None:
                last_readable = await tx.row(_LATEST_READABLE, table_id)
                kept = [each[0] for each in (oldest, last_readable) if each is not None and each[0] is not None]
                await tx.run(_FORGET_SNAPSHOTS, table_id, min(kept))
            await tx.run(_FORGET_OFFSETS, table_id, now_ms - _UNUSED_MS, table_id, table_id)
            facts = {"snapshot_id": str(snapshot_id)}
            await append_event(
                self._outbox, tx, "StreamTableTiered", caller, now_ms, *table.path, table_id=table_id, facts=facts
            )

        await self._meta.transact(work)

    # -- assignments ------------------------------------------------------------------------------------------------

    @property
    def coordinator_epoch(self) -> int:
        """The leader epoch, which jobs send with their reports."""
        return self._epoch()

    @property
    def tiering(self) -> TieringSchedule:
        """The state of all tiered tables, as of the last heartbeat: for metrics."""
        return self._tiering

    async def report(
        self,
        caller: Caller,
        in_progress: Iterable[TieringReport] = (),
        finished: Iterable[TieringReport] = (),
        failed: Iterable[TieringReport] = (),
        incomplete: Iterable[int] = (),
    ) -> tuple[Sequence[ReportResult], Sequence[ReportResult], Sequence[ReportResult]]:
        """Record the reports of a job. Returns their results. `incomplete` has tables whose round was cut short."""
        await self.authorize(caller)
        return await self.record(in_progress, finished, failed, incomplete)

    async def record(
        self,
        in_progress: Iterable[TieringReport] = (),
        finished: Iterable[TieringReport] = (),
        failed: Iterable[TieringReport] = (),
        incomplete: Iterable[int] = (),
    ) -> tuple[Sequence[ReportResult], Sequence[ReportResult], Sequence[ReportResult]]:
        """Record reports of the server itself."""
        await self._refresh()
        now_ms, incomplete_ids = self._clock.now_ms(), frozenset(incomplete)

        def heartbeat(report: TieringReport) -> TieringSchedule:
            return self._tiering.heartbeat(report.table_id, report.epoch, now_ms)

        def finish(report: TieringReport) -> TieringSchedule:
            is_incomplete = report.table_id in incomplete_ids
            return self._tiering.finish(
                report.table_id, report.epoch, now_ms, report.stats, is_incomplete=is_incomplete
            )

        def fail(report: TieringReport) -> TieringSchedule:
            return self._tiering.fail(report.table_id, report.epoch, now_ms)

        answers = self._each(in_progress, heartbeat), self._each(finished, finish), self._each(failed, fail)
        for table_id, failure in answers[1]:
            if failure is None:
                await self._save(self._tiering.tables[table_id])
        return answers

    async def next_table(self, caller: Caller) -> tuple[StreamTable, int] | None:
        """Assign the next waiting table to the calling job, with its epoch; None if none waits."""
        await self.authorize(caller)
        await self._refresh()
        self._tiering, assigned = self._tiering.next(self._clock.now_ms())
        if assigned is None:
            return None
        # Before the response: an epoch must not be assigned twice, even after a crash.
        await self._save(assigned)
        return await self._tables.by_id(assigned.table_id), assigned.epoch

    async def waiting(self) -> Sequence[TieringTable]:
        """The tables that wait for a worker, longest wait first."""
        await self._refresh()
        found = [table for table in self._tiering.tables.values() if table.state is TieringState.PENDING]
        return sorted(found, key=lambda table: (table.since_ms, table.table_id))

    async def assign(self, table_id: int) -> TieringReport:
        """Assign a waiting table to a tiering task; returns the report for it.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        self._tiering, assigned = self._tiering.assign(table_id, self._clock.now_ms())
        await self._save(assigned)
        return TieringReport(table_id, self._epoch(), assigned.epoch)

    def mark_fresh(self, table_id: int, as_of_ms: int) -> None:
        """Record that all records of a waiting table are in the lake.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        self._tiering = self._tiering.mark_fresh(table_id, as_of_ms)

    def postpone(self, table_id: int) -> None:
        """Delay a waiting table. Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH."""
        self._tiering = self._tiering.postpone(table_id, self._clock.now_ms())

    async def authorize(self, caller: Caller) -> None:
        """Return if the caller may tier tables. Raises AccessDenied."""
        await self._authorizer.authorize(caller, StreamOperation.WRITE)

    def _each(
        self, reports: Iterable[TieringReport], step: Callable[[TieringReport], TieringSchedule]
    ) -> list[ReportResult]:
        results: list[ReportResult] = []
        for report in reports:
            try:
                if report.coordinator_epoch != self._epoch():
                    raise FlussError(
                        ErrorCode.FENCED_TIERING_EPOCH,
                        f"table was assigned by another leader. epoch={report.coordinator_epoch}",
                    )
                self._tiering = step(report)
            except FlussError as failure:
                results.append((report.table_id, failure))
            else:
                results.append((report.table_id, None))
        return results

    async def _refresh(self) -> None:
        """Update the schedule: tiered tables, their freshness, and the current time."""
        freshness = await self._load_freshness()
        new = freshness.keys() - self._tiering.tables.keys()
        known = {row[0]: row[1:] for row in await self._meta.rows(_EPOCHS)} if new else {}
        now_ms, tiering = self._clock.now_ms(), self._tiering
        for table_id in tiering.tables.keys() - freshness.keys():
            tiering = tiering.without(table_id)
        for table_id, freshness_ms in freshness.items():
            epoch, tiered_ms = known.get(table_id, (0, None))
            tiering = tiering.with_table(table_id, freshness_ms, now_ms, epoch=epoch, tiered_ms=tiered_ms)
        self._tiering = tiering.at(now_ms)

    async def _load_freshness(self) -> Mapping[int, int]:
        while self._freshness is None:
            seen = self._changes
            found = {table.id: _freshness_ms(table) for table in await self._tables.all() if is_tiered(table)}
            if seen == self._changes:  # no table changed during the read
                self._freshness = found
        return self._freshness

    async def _changed(self, table: StreamTable) -> None:
        self._freshness, self._changes = None, self._changes + 1

    async def _dropped(self, table_id: int) -> None:
        self._freshness, self._changes = None, self._changes + 1

    async def _save(self, table: TieringTable) -> None:
        async def work(tx: Transaction) -> None:
            await tx.run(_SET_EPOCH, table.table_id, table.epoch, table.tiered_ms)

        await self._meta.transact(work)


def _freshness_ms(table: StreamTable) -> int:
    return milliseconds(table.definition.options.get("table.datalake.freshness", DEFAULT_FRESHNESS))


async def _latest(reader: Reader, table_id: int) -> Offsets:
    row = await reader.row(_SNAPSHOTS, table_id)
    return {} if row is None else _unpack(row[1])


async def _count(reader: Reader, statement: str, table_id: int) -> int:
    row = await reader.row(statement, table_id)
    return 0 if row is None else int(row[0])


def _pack(offsets: Offsets) -> bytes:
    ordered = sorted(offsets.items(), key=lambda item: (item[0][0] or 0, item[0][1]))
    return _encode([(partition_id, bucket, offset) for (partition_id, bucket), offset in ordered])


def _unpack(packed: bytes) -> Offsets:
    return {(partition_id, bucket): offset for partition_id, bucket, offset in _decode(packed)}
