"""Unique numbers, allocated in ranges: the metadata store is needed once per range."""

from __future__ import annotations

from typing import Final

from lakebed.meta.seam import MetaStore, Transaction

__all__ = ["IdRanges", "WriterIds"]

_TAKE: Final = """
INSERT INTO stream_counters (name, next_value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET next_value = stream_counters.next_value + ?
RETURNING next_value
"""
_WRITERS: Final = "writers"
_WRITERS_AT_ONCE: Final = 1000


class IdRanges:
    """Allocates ranges of numbers by sequence name."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta

    async def take(self, name: str, count: int, *, first: int = 0) -> range:
        """The next `count` numbers of a sequence that began at `first`."""

        async def work(tx: Transaction) -> int:
            row = await tx.row(_TAKE, name, first + count, count)
            if row is None:
                raise RuntimeError("an insert returned no row")
            return int(row[0])

        end = await self._meta.transact(work)
        return range(end - count, end)


class WriterIds:
    """Writer ids, unique over all servers."""

    def __init__(self, counters: IdRanges) -> None:
        self._counters = counters
        self._left = iter(range(0))

    async def next(self) -> int:
        """The next id."""
        for number in self._left:
            return number
        self._left = iter(await self._counters.take(_WRITERS, _WRITERS_AT_ONCE))
        return next(self._left)
