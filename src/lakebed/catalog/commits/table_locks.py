"""Changes of one table take turns within a worker: of two at once, the slower would do its work again and again.

Workers know nothing of each other's turns. Between them the pointer decides, and who finds it moved begins anew.
"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from ..identifiers import Identifier


class TableLocks:
    """One change of a table or view at a time, in the order in which they came."""

    def __init__(self) -> None:
        # A lock is here as long as somebody has it or waits for it.
        self._locks: WeakValueDictionary[tuple[str, Identifier], Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, catalog_name: str, identifiers: Iterable[Identifier]) -> AsyncIterator[None]:
        """Wait for the turn of all of them, and have it."""
        async with AsyncExitStack() as stack:
            # In one order, so that no two wait for each other.
            for identifier in sorted(set(identifiers)):
                lock = self._locks.setdefault((catalog_name, identifier), Lock())
                await stack.enter_async_context(lock)
            yield
