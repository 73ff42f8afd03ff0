"""Removes the files of dropped tables and partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.meta.seam import MetaStore, Transaction

from .buckets.open_buckets import OpenBuckets

__all__ = ["Purger"]

log = logging.getLogger("lakebed.streams")

_DROPPED: Final = "SELECT table_id, partition_id FROM stream_dropped ORDER BY dropped_ms, table_id, partition_id"
_DELETE: Final = "DELETE FROM stream_dropped WHERE table_id = ? AND partition_id = ?"
_PAUSE_SECONDS: Final = 60.0


class Purger:
    """Removes the files of dropped tables and partitions."""

    def __init__(
        self,
        meta: MetaStore,
        buckets: OpenBuckets,
        is_leader: Callable[[], bool],
        confirm_ownership: Callable[[], Awaitable[None]],
    ) -> None:
        """`confirm_ownership` raises StoreMismatch if the local folder belongs to another deployment."""
        self._confirm_ownership = confirm_ownership
        self._meta = meta
        self._buckets = buckets
        self._is_leader = is_leader
        self._wake = asyncio.Event()

    async def wake(self, *_: int) -> None:
        """Run soon: something was dropped, and its buckets are closed."""
        self._wake.set()

    async def run(self) -> None:
        """Purge whenever something was dropped, until cancelled."""
        while True:
            self._wake.clear()
            try:
                if self._is_leader():
                    await self.purge()
            except (LakebedError, OSError) as error:
                log.warning("removing files of dropped tables failed, retrying", exc_info=error)
            try:
                async with asyncio.timeout(_PAUSE_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def purge(self) -> int:
        """Remove the files of everything dropped; how many tables and partitions."""
        dropped = await self._meta.rows(_DROPPED)
        for table_id, partition_id in dropped:
            await self._confirm_ownership()
            await self._buckets.remove(table_id, partition_id or None)
            log.info(
                "files of dropped table deleted", extra={"table_id": table_id, "partition_id": partition_id or None}
            )
            await self._mark_purged(table_id, partition_id)
        return len(dropped)

    async def _mark_purged(self, table_id: int, partition_id: int) -> None:
        async def work(tx: Transaction) -> None:
            await tx.run(_DELETE, table_id, partition_id)

        await self._meta.transact(work)
