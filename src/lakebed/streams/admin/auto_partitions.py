"""Creates and drops partitions of auto-partitioned tables, on the leader.

Each round creates due partitions of every such table and drops expired ones. A new or altered table is handled at once.
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
    """The background task."""

    def __init__(
        self,
        clock: Clock,
        tables: StreamTables,
        partitions: StreamPartitions,
        configs: ClusterConfigs,
        server: Caller,
        is_leader: Callable[[], bool],
    ) -> None:
        """`server` is the caller that partitions are created and dropped as."""
        self._clock = clock
        self._tables = tables
        self._partitions = partitions
        self._configs = configs
        self._server = server
        self._is_leader = is_leader

    async def run(self) -> None:
        """Run rounds at the configured interval, until cancelled."""
        while True:
            try:
                if self._is_leader():
                    await self.round()
                pause_ms = await self._configs.number("auto-partition.check.interval")
            except LakebedError as error:
                _log.warning("auto-partitioning failed, retrying. reason=%s", error)
                pause_ms = 10_000
            await asyncio.sleep(pause_ms / 1000)

    async def round(self) -> None:
        """Handle every table. A failure of one does not affect the others."""
        for table in await self._tables.all():
            try:
                await self.update(table)
            except FlussError as failure:
                # Dropped meanwhile, or at its partition limit.
                _log.warning("auto-partitioning of a table failed. table=%s reason=%s", table.path, failure)

    async def update(self, table: StreamTable) -> None:
        """Create a table's due partitions and drop its expired ones. Idempotent. Error codes: PARTITION_MAX_NUM."""
        strategy = table.definition.auto_partition_strategy()
        if strategy is None:
            return
        now_ms = self._clock.now_ms()
        for name in strategy.due(now_ms):
            await self._partitions.add(self._server, table, name)
        times = {
            partition.name: partition.values(table)[strategy.key] for partition in await self._partitions.of(table)
        }
        expired = set(strategy.expired(times.values(), now_ms))
        for name, time in times.items():
            if time in expired:
                await self._partitions.remove(self._server, table, name)

    async def changed(self, table: StreamTable) -> None:
        """Handle a new or altered table: for `StreamTables.on_changed`."""
        try:
            await self.update(table)
        except FlussError as failure:
            if failure.code not in (ErrorCode.PARTITION_MAX_NUM, ErrorCode.TABLE_NOT_EXIST):
                raise
            _log.warning("auto-partitioning of a table failed. table=%s reason=%s", table.path, failure)
