"""Plans lake tiering: the leader queues a tiering task when a table's freshness requires it (ADR 35).

When a table is due and all its records are in the lake, it is marked as fresh as of that time. Otherwise the planner
queues a task and assigns the table to it, so that no other worker gets it. While the task is open, it counts as
heartbeat; its outcome is the outcome of the round. After a failed round the table is retried with backoff.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import FlussError
from lakebed.fluss.table_options import flag

from ..buckets.open_buckets import OpenBucket
from ..partitions import StreamPartitions
from ..table import StreamTable
from ..tables import StreamTables
from .schedule import TieringTable
from .service import LakeTiering, TieringReport, pending_records

__all__ = ["TaskOutcome", "TieringPlanner", "TieringTaskQueue"]

_log: Final = logging.getLogger("lakebed.streams")

_TICK_SECONDS: Final = 1.0
_MAINTENANCE_INTERVAL_MS: Final = 3_600_000
"""Minimum interval between maintenance tasks of a lake table: a round adds few files."""
_COMPACT: Final = "table.datalake.auto-compaction"
_EXPIRE: Final = "table.datalake.auto-expire-snapshot"
_NOT_ASSIGNED: Final = "table was dropped, lake tiering was disabled, or another worker has the table"

Find = Callable[[StreamTable, int | None, int], Awaitable[OpenBucket]]
"""The bucket of a table, by its partition and number."""


class TaskOutcome(StrEnum):
    """The outcome of a tiering task."""

    OPEN = "open"
    DONE = "done"
    GIVEN_UP = "given up"


class TieringTaskQueue(Protocol):
    """The queue of tiering tasks."""

    async def submit(self, database: str, table: str, reason: str) -> int:
        """Queue a tiering task of a table; its number. A table has at most one open task.

        Raises LakebedError.
        """
        ...

    async def outcome(self, number: int) -> TaskOutcome:
        """The outcome of a task. Raises LakebedError."""
        ...

    async def withdraw(self, number: int, reason: str) -> None:
        """Remove a waiting task. Raises LakebedError."""
        ...

    async def maintain(self, database: str, table: str, *, compact: bool, expire: bool) -> None:
        """Queue compaction or snapshot expiration of the lake table.

        Raises LakebedError.
        """
        ...


class _Submitted(NamedTuple):
    """A table with a tiering task."""

    report: TieringReport
    number: int


class TieringPlanner:
    """The background task."""

    def __init__(
        self,
        clock: Clock,
        lake: LakeTiering,
        tables: StreamTables,
        partitions: StreamPartitions,
        find: Find,
        task_queue: TieringTaskQueue,
        is_leader: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._lake = lake
        self._tables = tables
        self._partitions = partitions
        self._find = find
        self._task_queue = task_queue
        self._is_leader = is_leader
        self._submitted: dict[int, _Submitted] = {}
        self._maintained_ms: dict[int, int] = {}

    async def run(self) -> None:
        """Plan at intervals, until cancelled."""
        while True:
            try:
                if self._is_leader():
                    await self.plan()
            except LakebedError as error:
                _log.warning("tiering planning failed, retrying. reason=%s", error)
            except Exception:
                # A bug must not stop planning until the next restart.
                _log.exception("tiering planning crashed, retrying")
            await asyncio.sleep(_TICK_SECONDS)

    async def plan(self) -> None:
        """Check the outcomes of submitted tasks, and submit those that are due."""
        await self._check_outcomes()
        for waiting in await self._lake.waiting():
            if self._clock.now_ms() < waiting.backoff_until_ms:
                continue
            try:
                await self._plan_table(waiting)
            except LakebedError as error:
                _log.warning("tiering was not submitted, retrying. table_id=%s reason=%s", waiting.table_id, error)
                with suppress(FlussError):  # dropped or assigned meanwhile
                    self._lake.postpone(waiting.table_id)

    async def _check_outcomes(self) -> None:
        reports: dict[TaskOutcome, list[TieringReport]] = {outcome: [] for outcome in TaskOutcome}
        for submitted in self._submitted.values():
            reports[await self._task_queue.outcome(submitted.number)].append(submitted.report)
        in_progress, finished, failed = await self._lake.record(
            reports[TaskOutcome.OPEN], reports[TaskOutcome.DONE], reports[TaskOutcome.GIVEN_UP]
        )
        for table_id, refusal in (*in_progress, *finished, *failed):
            if refusal is not None:
                await self._task_queue.withdraw(self._submitted[table_id].number, _NOT_ASSIGNED)
        for table_id in (table_id for table_id, refusal in finished if refusal is None):
            await self._maintain(table_id)
        still = {table_id for table_id, refusal in in_progress if refusal is None}
        self._submitted = {table_id: each for table_id, each in self._submitted.items() if table_id in still}

    async def _maintain(self, table_id: int) -> None:
        """Queue maintenance of a lake table, if its options require it and it is due."""
        try:
            table = await self._tables.by_id(table_id)
            options = table.definition.options
            compact, expire = (flag(options.get(name, "false")) for name in (_COMPACT, _EXPIRE))
            now_ms = self._clock.now_ms()
            if (compact or expire) and now_ms >= self._maintained_ms.get(table_id, 0) + _MAINTENANCE_INTERVAL_MS:
                await self._task_queue.maintain(*table.path, compact=compact, expire=expire)
                self._maintained_ms[table_id] = now_ms
        except LakebedError as error:
            _log.warning("queueing maintenance of a lake table failed. table_id=%s reason=%s", table_id, error)

    async def _plan_table(self, waiting: TieringTable) -> None:
        # Before counting: records that arrive meanwhile may be missing from the count, and are newer than this.
        now_ms = self._clock.now_ms()
        table = await self._tables.by_id(waiting.table_id)
        records = await self._pending_records(table)
        if not records:
            self._lake.mark_fresh(table.id, now_ms)
            return
        report = await self._lake.assign(table.id)
        try:
            number = await self._task_queue.submit(*table.path, _reason(waiting, records, now_ms))
        except LakebedError as error:
            _log.warning("tiering was not submitted, retrying. table=%s reason=%s", table.path, error)
            await self._lake.record(failed=[report])
        else:
            self._submitted[table.id] = _Submitted(report, number)

    async def _pending_records(self, table: StreamTable) -> int:
        """The number of records that are not in the lake. Opens the table's buckets."""
        offsets = await self._lake.offsets(table.id)
        count = 0
        for partition_id in await self._partitions.ids(table):
            for number in range(table.bucket_count):
                opened = await self._find(table, partition_id, number)
                count += pending_records(opened, offsets)
        return count


def _reason(waiting: TieringTable, records: int, now_ms: int) -> str:
    freshness = f"freshness is {waiting.freshness_ms / 1000:g} s"
    if waiting.tiered_ms is None:
        return f"{records:,} records are not in the lake, and the table was never tiered; {freshness}"
    age = round((now_ms - waiting.tiered_ms) / 1000)
    return f"{records:,} records are not in the lake, which is {age} s old; {freshness}"
