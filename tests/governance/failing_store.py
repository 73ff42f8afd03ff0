"""A metadata store whose writes fail."""

from __future__ import annotations

from typing import TypeVar

from lakebed.core.errors import Unavailable
from lakebed.meta.seam import MetaStore, Row, Value, Work

T = TypeVar("T")


class FailingStore:
    """Fails writes while `is_down`."""

    def __init__(self, inner: MetaStore) -> None:
        self._inner = inner
        self.dialect = inner.dialect
        self.is_down = True

    async def row(self, sql: str, *args: Value) -> Row | None:
        return await self._inner.row(sql, *args)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        return await self._inner.rows(sql, *args)

    async def transact(self, work: Work[T]) -> T:
        if self.is_down:
            raise Unavailable("down")
        return await self._inner.transact(work)

    async def sync(self) -> None:
        await self._inner.sync()

    async def close(self) -> None:
        await self._inner.close()
