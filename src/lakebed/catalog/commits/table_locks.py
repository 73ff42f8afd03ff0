"""Serializes changes of a table within a worker: of two concurrent ones, the slower would repeat its work.

Workers do not share these locks. Between workers the pointer decides, and the later commit is retried.
"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from ..identifiers import Identifier


class TableLocks:
    """One lock per table or view, in order of arrival."""

    def __init__(self) -> None:
        # An entry lives as long as its lock is held or awaited.
        self._locks: WeakValueDictionary[tuple[str, Identifier], Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, catalog_name: str, identifiers: Iterable[Identifier]) -> AsyncIterator[None]:
        """Hold the locks of all these entries."""
        async with AsyncExitStack() as stack:
            # In a fixed order, against deadlocks.
            for identifier in sorted(set(identifiers)):
                lock = self._locks.setdefault((catalog_name, identifier), Lock())
                await stack.enter_async_context(lock)
            yield
