"""A metadata store whose reads can be held back after they have found what they return."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from lakebed.meta.seam import MetaStore, Row, Value, Work

__all__ = ["SlowReads"]

T = TypeVar("T")


class SlowReads:
    """Implements `MetaStore` on another. Rows arrive late, as from a database that is busy or far away."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store
        self.is_held = False
        """Whether the next read is held back."""

        self.has_read = asyncio.Event()
        """A read that is held back has its row."""

        self.may_return = asyncio.Event()

    @property
    def dialect(self) -> str:
        return self._store.dialect

    async def row(self, sql: str, *args: Value) -> Row | None:
        found = await self._store.row(sql, *args)
        if self.is_held:
            self.is_held = False
            self.has_read.set()
            await self.may_return.wait()
        return found

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        return await self._store.rows(sql, *args)

    async def transact(self, work: Work[T]) -> T:
        return await self._store.transact(work)

    async def sync(self) -> None:
        await self._store.sync()

    async def close(self) -> None:
        """The store has another owner."""
