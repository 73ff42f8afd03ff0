"""Tiering that nobody has to start: the home has each table of the lake tiered when its freshness asks for it (ADR 35).

A table whose time has come is looked at. If all its records are in the lake, the lake is as fresh as of that moment.
Otherwise our own pipeline is asked for a round, and the table is given to it as to any other worker: nobody else gets
it meanwhile. While the round is open the worker counts as alive; how it ended is how the worker ended. A round that was
given up is asked for again after a while, and then after a longer one.
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
_TIDY_MS: Final = 3_600_000
"""How long it is until a table is tidied up again: a round leaves little behind."""
_COMPACT: Final = "table.datalake.auto-compaction"
_EXPIRE: Final = "table.datalake.auto-expire-snapshot"
_SWITCHED_OFF: Final = "the table is not to be in the lake any more, or is gone, or another worker has it"

Find = Callable[[StreamTable, int | None, int], Awaitable[OpenBucket]]
"""The bucket of a table, by its partition and number."""


class TaskOutcome(StrEnum):
    """What became of a round that was asked for."""

    OPEN = "open"
    DONE = "done"
    GIVEN_UP = "given up"


class TieringTaskQueue(Protocol):
    """Where rounds are asked for."""

    async def ask(self, database: str, table: str, reason: str) -> int:
        """Have a table tiered; the number of the round. While one of the table is open, there is no other.

        Raises LakebedError.
        """
        ...

    async def outcome(self, number: int) -> TaskOutcome:
        """What became of a round. Raises LakebedError."""
        ...

    async def withdraw(self, number: int, why: str) -> None:
        """Take a round back that nobody has begun. Raises LakebedError."""
        ...

    async def tidy(self, database: str, table: str, *, compact: bool, expire: bool) -> None:
        """Have the small files that rounds leave in the lake merged, or the snapshots given up that are too old.

        Raises LakebedError.
        """
        ...


class _Asked(NamedTuple):
    """A table that is given to our own pipeline."""

    given: TieringReport
    number: int


class TieringPlanner:
    """The chore."""

    def __init__(
        self,
        clock: Clock,
        lake: LakeTiering,
        tables: StreamTables,
        partitions: StreamPartitions,
        find: Find,
        rounds: TieringTaskQueue,
        is_leader: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._lake = lake
        self._tables = tables
        self._partitions = partitions
        self._find = find
        self._rounds = rounds
        self._is_leader = is_leader
        self._asked: dict[int, _Asked] = {}
        self._tidied_ms: dict[int, int] = {}

    async def run(self) -> None:
        """Plan whenever something may be due, until cancelled."""
        while True:
            try:
                if self._is_leader():
                    await self.plan()
            except LakebedError as error:
                _log.warning("tiering is planned again soon. reason=%s", error)
            except Exception:
                # A mistake of ours must not end the chore for the life of the process.
                _log.exception("planning of tiering crashed; it is tried again soon")
            await asyncio.sleep(_TICK_SECONDS)

    async def plan(self) -> None:
        """Hear how the rounds are that were asked for, and ask for those that are due."""
        await self._hear()
        for waiting in await self._lake.waiting():
            if self._clock.now_ms() < waiting.backoff_until_ms:
                continue
            try:
                await self._see_to(waiting)
            except LakebedError as error:
                _log.warning("a stream table was not tiered; it waits. table_id=%s reason=%s", waiting.table_id, error)
                with suppress(FlussError):  # it was dropped just now, or somebody has it
                    self._lake.postpone(waiting.table_id)

    async def _hear(self) -> None:
        said: dict[TaskOutcome, list[TieringReport]] = {outcome: [] for outcome in TaskOutcome}
        for asked in self._asked.values():
            said[await self._rounds.outcome(asked.number)].append(asked.given)
        at_work, finished, failed = await self._lake.note(
            said[TaskOutcome.OPEN], said[TaskOutcome.DONE], said[TaskOutcome.GIVEN_UP]
        )
        for table_id, refusal in (*at_work, *finished, *failed):
            if refusal is not None:
                await self._rounds.withdraw(self._asked[table_id].number, _SWITCHED_OFF)
        for table_id in (table_id for table_id, refusal in finished if refusal is None):
            await self._tidy(table_id)
        still = {table_id for table_id, refusal in at_work if refusal is None}
        self._asked = {table_id: asked for table_id, asked in self._asked.items() if table_id in still}

    async def _tidy(self, table_id: int) -> None:
        """Have a table of the lake tidied up, if it says so and that is due."""
        try:
            table = await self._tables.by_id(table_id)
            options = table.definition.options
            compact, expire = (flag(options.get(name, "false")) for name in (_COMPACT, _EXPIRE))
            now_ms = self._clock.now_ms()
            if (compact or expire) and now_ms >= self._tidied_ms.get(table_id, 0) + _TIDY_MS:
                await self._rounds.tidy(*table.path, compact=compact, expire=expire)
                self._tidied_ms[table_id] = now_ms
        except LakebedError as error:
            _log.warning("a table of the lake was not tidied up. table_id=%s reason=%s", table_id, error)

    async def _see_to(self, waiting: TieringTable) -> None:
        # Before the look: what comes meanwhile may be in the count or not, and is no older than this.
        now_ms = self._clock.now_ms()
        table = await self._tables.by_id(waiting.table_id)
        records = await self._behind(table)
        if not records:
            self._lake.mark_fresh(table.id, now_ms)
            return
        given = await self._lake.give(table.id)
        try:
            number = await self._rounds.ask(*table.path, _reason(waiting, records, now_ms))
        except LakebedError as error:
            _log.warning("a stream table was not tiered; it waits. table=%s reason=%s", table.path, error)
            await self._lake.note(failed=[given])
        else:
            self._asked[table.id] = _Asked(given, number)

    async def _behind(self, table: StreamTable) -> int:
        """How many records of a table are not in the lake. Opens its buckets."""
        reached = await self._lake.offsets(table.id)
        parts: list[int | None] = [None]
        if table.is_partitioned:
            parts = [partition.id for partition in await self._partitions.of(table)]
        count = 0
        for partition_id in parts:
            for number in range(table.bucket_count):
                opened = await self._find(table, partition_id, number)
                count += pending_records(opened, reached)
        return count


def _reason(waiting: TieringTable, records: int, now_ms: int) -> str:
    fresh = f"{waiting.freshness_ms / 1000:g} s"
    if waiting.tiered_ms is None:
        return f"{records:,} records are not in the lake, which has none of the table yet; freshness is {fresh}"
    age = round((now_ms - waiting.tiered_ms) / 1000)
    return f"{records:,} records are not in the lake, which is as of {age} s ago; freshness is {fresh}"
