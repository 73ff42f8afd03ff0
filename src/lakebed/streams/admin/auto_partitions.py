"""Partitions that come and go with time: a chore of the home of streams.

Each round makes what is due of every table that is partitioned by itself and drops what is over. A table that is new or
has changed has a round of its own at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller

from ..cluster_configs import ClusterConfigs
from ..partitions import StreamPartitions
from ..table import StreamTable
from ..tables import StreamTables

__all__ = ["AutoPartitionTask"]

_log: Final = logging.getLogger("lakebed.streams")


class AutoPartitionTask:
    """The chore."""

    def __init__(
        self,
        clock: Clock,
        tables: StreamTables,
        partitions: StreamPartitions,
        configs: ClusterConfigs,
        server: Caller,
        is_leader: Callable[[], bool],
    ) -> None:
        """`server` is who makes and drops: the server itself, while it is the home."""
        self._clock = clock
        self._tables = tables
        self._partitions = partitions
        self._configs = configs
        self._server = server
        self._is_leader = is_leader

    async def run(self) -> None:
        """Do a round whenever it is time, until cancelled."""
        while True:
            try:
                if self._is_leader():
                    await self.round()
                pause_ms = await self._configs.number("auto-partition.check.interval")
            except LakebedError as error:
                _log.warning("partitions by time: the round is tried again. reason=%s", error)
                pause_ms = 10_000
            await asyncio.sleep(pause_ms / 1000)

    async def round(self) -> None:
        """Look after every table. What cannot be done for one does not keep it from the others."""
        for table in await self._tables.all():
            try:
                await self.look_after(table)
            except FlussError as failure:
                # Dropped meanwhile, or it has as many partitions as it may.
                _log.warning("partitions by time. table=%s reason=%s", table.path, failure)

    async def look_after(self, table: StreamTable) -> None:
        """Make what is due of a table and drop what is over. Idempotent. Error codes: PARTITION_MAX_NUM."""
        calendar = table.definition.auto_partition_strategy()
        if calendar is None:
            return
        now_ms = self._clock.now_ms()
        for name in calendar.due(now_ms):
            await self._partitions.add(self._server, table, name)
        times = {
            partition.name: partition.values(table)[calendar.key] for partition in await self._partitions.of(table)
        }
        over = set(calendar.over(times.values(), now_ms))
        for name, time in times.items():
            if time in over:
                await self._partitions.remove(self._server, table, name)

    async def changed(self, table: StreamTable) -> None:
        """A table is new, or another than before: for `StreamTables.when_changed`."""
        try:
            await self.look_after(table)
        except FlussError as failure:
            if failure.code not in (ErrorCode.PARTITION_MAX_NUM, ErrorCode.TABLE_NOT_EXIST):
                raise
            _log.warning("partitions by time. table=%s reason=%s", table.path, failure)
