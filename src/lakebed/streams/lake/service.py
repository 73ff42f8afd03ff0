"""How far tables are in the lake, and who takes them there: what a tiering job asks and tells (ADR 31).

A round: `heartbeat` gives a job a table and an epoch; the job reads from where `snapshot` says that the lake ends, and
`prepare` writes down how far it got, under a name; the job commits to the lake with that name in the snapshot, and
`commit` says that the snapshot holds the table up to there. A job that dies between the last two leaves the name in
the lake, for the next one to commit.
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
"""How long offsets stay that no snapshot refers to: a job may come back to commit them."""

Offsets = Mapping[tuple[int | None, int], int]
"""By partition and bucket: the one after the last that is in the lake."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int | None, int, int]]).decode


@dataclass(frozen=True, slots=True)
class LakeSnapshot:
    """A snapshot of the lake that holds a table up to these offsets."""

    snapshot_id: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class TieringReport:
    """What a job says of a table that it has, or had."""

    table_id: int
    coordinator_epoch: int
    epoch: int
    said: TieringStats = NO_STATS


ReportResult = tuple[int, FlussError | None]
"""Of a table: whether what was said of it counts."""


def is_tiered(table: StreamTable) -> bool:
    """Whether the table is to be in the lake."""
    return flag(table.definition.options.get("table.datalake.enabled", "false"))


def pending_records(opened: OpenBucket, reached: Offsets) -> int:
    """How many records of a bucket are not in a lake that is this far."""
    log, start = opened.log, opened.log.start_offset
    tiered = reached.get((opened.bucket.partition_id, opened.bucket.bucket), start)
    return max(log.stable_offset - max(tiered, start), 0)


class LakeTiering:
    """The use cases of tiering. One object of the home: it knows which job has what."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        authorizer: StreamAuthorizer,
        tables: StreamTables,
        epoch: Callable[[], int],
    ) -> None:
        """`epoch` is that of the home: who was given a table by another has it no more."""
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._tables = tables
        self._epoch = epoch
        self._tiering = TieringSchedule()
        self._wanted: Mapping[int, int] | None = None
        """How old each table may get that is to be in the lake; None if that has to be looked up."""
        self._changes = 0
        tables.on_changed(self._changed)
        tables.on_dropped(self._dropped)

    async def begin(self, lease: Lease) -> None:
        """Believe nothing of before: another may have been the home, and given tables to others."""
        self._tiering, self._wanted = TieringSchedule(), None

    # -- what is in the lake ----------------------------------------------------------------------------------------

    async def snapshot(
        self, caller: Caller, database: str, name: str, snapshot_id: int | None = None, *, readable: bool = False
    ) -> tuple[StreamTable, LakeSnapshot]:
        """The latest, the latest that can be read, or the one of this id.

        Error codes: TABLE_NOT_EXIST, LAKE_SNAPSHOT_NOT_EXIST.
        """
        table = await self._tables.get(caller, database, name)
        if snapshot_id is not None and readable:
            raise FlussError(ErrorCode.INVALID_CONFIG, "a snapshot is asked for by its id, or as one that can be read")
        for found, tiered, read, _ in await self._meta.rows(_SNAPSHOTS, table.id):
            if readable:
                if read is not None:
                    return table, LakeSnapshot(found, _unpack(read))
            elif snapshot_id in (None, found):
                return table, LakeSnapshot(found, _unpack(tiered))
        raise FlussError(ErrorCode.LAKE_SNAPSHOT_NOT_EXIST, f"no such snapshot in the lake. table={table.path}")

    async def offsets(self, table_id: int) -> Offsets:
        """How far a table is in the lake, whoever asks."""
        return await _latest(self._meta, table_id)

    async def prepare(self, caller: Caller, table_id: int, offsets: Offsets, *, from_nothing: bool = False) -> str:
        """Write down how far a table will be, with what it was before where that is not told; under which name.

        Error codes: UNKNOWN_TABLE_OR_BUCKET.
        """
        await self.admit(caller)
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
        """The snapshot is in the lake, and holds what was prepared under these names. Idempotent.

        `keep_from` is the oldest snapshot that stays known, None for this one; all stay if there is none of its id. The
        latest that can be read stays in any case. Error codes: UNKNOWN_TABLE_OR_BUCKET, LAKE_SNAPSHOT_NOT_EXIST for
        names that were not prepared.
        """
        await self.admit(caller)
        table = await self._tables.by_id(table_id)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            for name in (tiered, readable):
                if name is not None and await tx.row(_OFFSETS, name, table_id) is None:
                    raise FlussError(
                        ErrorCode.LAKE_SNAPSHOT_NOT_EXIST,
                        f"no such offsets were prepared. table={table.path} path={name}",
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

    # -- who takes it there -----------------------------------------------------------------------------------------

    @property
    def coordinator_epoch(self) -> int:
        """That a job has to say with what it says of tables."""
        return self._epoch()

    @property
    def tiering(self) -> TieringSchedule:
        """Which table waits for what, as of the last heartbeat: for metrics."""
        return self._tiering

    async def report(
        self,
        caller: Caller,
        at_work: Iterable[TieringReport] = (),
        finished: Iterable[TieringReport] = (),
        failed: Iterable[TieringReport] = (),
        cut_short: Iterable[int] = (),
    ) -> tuple[Sequence[ReportResult], Sequence[ReportResult], Sequence[ReportResult]]:
        """A job says what it does, and what it has done: for each, whether that counts."""
        await self.admit(caller)
        return await self.note(at_work, finished, failed, cut_short)

    async def note(
        self,
        at_work: Iterable[TieringReport] = (),
        finished: Iterable[TieringReport] = (),
        failed: Iterable[TieringReport] = (),
        cut_short: Iterable[int] = (),
    ) -> tuple[Sequence[ReportResult], Sequence[ReportResult], Sequence[ReportResult]]:
        """The same of what is said by the server itself."""
        await self._refresh()
        now_ms, cut = self._clock.now_ms(), frozenset(cut_short)

        def beat(said: TieringReport) -> TieringSchedule:
            return self._tiering.beat(said.table_id, said.epoch, now_ms)

        def finish(said: TieringReport) -> TieringSchedule:
            return self._tiering.finish(said.table_id, said.epoch, now_ms, said.said, is_cut_short=said.table_id in cut)

        def fail(said: TieringReport) -> TieringSchedule:
            return self._tiering.fail(said.table_id, said.epoch, now_ms)

        answers = self._each(at_work, beat), self._each(finished, finish), self._each(failed, fail)
        for table_id, failure in answers[1]:
            if failure is None:
                await self._write_down(self._tiering.tables[table_id])
        return answers

    async def next_table(self, caller: Caller) -> tuple[StreamTable, int] | None:
        """The table that the job is to take next, and its epoch; None if none waits."""
        await self.admit(caller)
        await self._refresh()
        self._tiering, given = self._tiering.next(self._clock.now_ms())
        if given is None:
            return None
        # Before anybody is told of it: an epoch is given once, whatever becomes of this process.
        await self._write_down(given)
        return await self._tables.by_id(given.table_id), given.epoch

    async def waiting(self) -> Sequence[TieringTable]:
        """The tables that wait for a worker, the longest first."""
        await self._refresh()
        found = [table for table in self._tiering.tables.values() if table.state is TieringState.PENDING]
        return sorted(found, key=lambda table: (table.since_ms, table.table_id))

    async def give(self, table_id: int) -> TieringReport:
        """Give a table that waits to our own pipeline; what to say of it.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        self._tiering, given = self._tiering.give(table_id, self._clock.now_ms())
        await self._write_down(given)
        return TieringReport(table_id, self._epoch(), given.epoch)

    def mark_fresh(self, table_id: int, as_of_ms: int) -> None:
        """A table that waits has nothing that is not in the lake.

        Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH.
        """
        self._tiering = self._tiering.mark_fresh(table_id, as_of_ms)

    def postpone(self, table_id: int) -> None:
        """Nobody could be asked for a table that waits. Error codes: UNKNOWN_TABLE_OR_BUCKET, FENCED_TIERING_EPOCH."""
        self._tiering = self._tiering.postpone(table_id, self._clock.now_ms())

    async def admit(self, caller: Caller) -> None:
        """Return if the caller may work for the lake. Raises AccessDenied."""
        await self._authorizer.authorize(caller, StreamOperation.WRITE)

    def _each(
        self, said: Iterable[TieringReport], step: Callable[[TieringReport], TieringSchedule]
    ) -> list[ReportResult]:
        answers: list[ReportResult] = []
        for one in said:
            try:
                if one.coordinator_epoch != self._epoch():
                    raise FlussError(
                        ErrorCode.FENCED_TIERING_EPOCH,
                        f"the table was given by another home. epoch={one.coordinator_epoch}",
                    )
                self._tiering = step(one)
            except FlussError as failure:
                answers.append((one.table_id, failure))
            else:
                answers.append((one.table_id, None))
        return answers

    async def _refresh(self) -> None:
        """Know of the tables that are to be tiered now, and of no others; and what time it is."""
        wanted = await self._all_wanted()
        new = wanted.keys() - self._tiering.tables.keys()
        known = {row[0]: row[1:] for row in await self._meta.rows(_EPOCHS)} if new else {}
        now_ms, tiering = self._clock.now_ms(), self._tiering
        for table_id in tiering.tables.keys() - wanted.keys():
            tiering = tiering.without(table_id)
        for table_id, freshness_ms in wanted.items():
            epoch, tiered_ms = known.get(table_id, (0, None))
            tiering = tiering.with_table(table_id, freshness_ms, now_ms, epoch=epoch, tiered_ms=tiered_ms)
        self._tiering = tiering.at(now_ms)

    async def _all_wanted(self) -> Mapping[int, int]:
        while self._wanted is None:
            seen = self._changes
            found = {table.id: _freshness_ms(table) for table in await self._tables.all() if is_tiered(table)}
            if seen == self._changes:  # or a table changed while they were looked up
                self._wanted = found
        return self._wanted

    async def _changed(self, table: StreamTable) -> None:
        self._wanted, self._changes = None, self._changes + 1

    async def _dropped(self, table_id: int) -> None:
        self._wanted, self._changes = None, self._changes + 1

    async def _write_down(self, table: TieringTable) -> None:
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
