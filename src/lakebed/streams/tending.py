"""Logs that are looked after: copied to the byte store when sealed, let go of when too old, handed over at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine

from lakebed.core.errors import LakebedError

from .buckets import Buckets, OpenBucket
from .log.retention import retention_of
from .log.tiered import TieredLog
from .tables import Tables

__all__ = ["Tending"]

log = logging.getLogger("lakebed.streams")


class Tending:
    """Looks after the logs of all open buckets. What one of them fails with concerns no other."""

    def __init__(self, buckets: Buckets, tables: Tables, is_home: Callable[[], bool]) -> None:
        self._buckets = buckets
        self._tables = tables
        self._is_home = is_home

    async def tend(self) -> int:
        """Look after all once; how many could not be."""
        return await self._each(self._tend)

    async def hand_over(self) -> int:
        """Have all that was acknowledged in the byte store, for another server to go on; of how many that failed."""
        return await self._each(lambda opened, tiered: tiered.hand_over())

    async def _each(self, work: Callable[[OpenBucket, TieredLog], Coroutine[None, None, None]]) -> int:
        failed = 0
        for opened in self._buckets:
            tiered = opened.log
            if not self._is_home():
                break
            if isinstance(tiered, TieredLog) and tiered.failure is None:
                try:
                    await work(opened, tiered)
                except LakebedError as error:
                    failed += 1
                    log.warning("a log could not be looked after", extra={"bucket": str(opened.bucket)}, exc_info=error)
        return failed

    async def _tend(self, opened: OpenBucket, tiered: TieredLog) -> None:
        table = await self._tables.by_id(opened.bucket.table_id)
        await tiered.tend(retention_of(table.definition.options))
