"""A metadata store that only the home of streams changes: each transaction looks first whether its server still is it.

Tables are remembered by the home, which has their files open. Whoever is it no more, and does not know yet, must not
alter or drop one behind its back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from lakebed.meta.seam import MetaStore, Row, Transaction, Value, Work

__all__ = ["LeaderStore"]

T = TypeVar("T")


class LeaderStore:
    """A `MetaStore` whose transactions raise Fenced anywhere but at home."""

    def __init__(self, store: MetaStore, fence: Callable[[Transaction], Awaitable[int]]) -> None:
        self._store = store
        self._fence = fence

    @property
    def dialect(self) -> str:
        """That of the store."""
        return self._store.dialect

    async def row(self, sql: str, *args: Value) -> Row | None:
        """The first row, or None."""
        return await self._store.row(sql, *args)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        """All rows."""
        return await self._store.rows(sql, *args)

    async def transact(self, work: Work[T]) -> T:
        """Run `work` if this is the home. Raises Fenced if it is not."""

        async def fenced(tx: Transaction) -> T:
            await self._fence(tx)
            return await work(tx)

        return await self._store.transact(fenced)

    async def sync(self) -> None:
        """Wait until all that is visible to reads is on stable storage too."""
        await self._store.sync()

    async def close(self) -> None:
        """Nothing: the store has another owner."""
