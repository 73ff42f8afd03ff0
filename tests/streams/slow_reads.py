"""A metadata store that can delay the result of a read."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from lakebed.meta.seam import MetaStore, Row, Value, Work

__all__ = ["SlowReads"]

T = TypeVar("T")


class SlowReads:
    """Wraps a `MetaStore`: a row that was read can arrive late, as from a busy database."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store
        self.is_held = False
        """Whether to delay the next read."""

        self.has_read = asyncio.Event()
        """Set when the delayed read has its row."""

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
        """The owner of the wrapped store closes it."""
