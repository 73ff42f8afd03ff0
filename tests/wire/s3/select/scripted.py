"""Scripted queries, on objects and permissions of a real object store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from lakebed.objects.listing import Lister
from lakebed.objects.model import Caller
from lakebed.objects.reading import FoundObject, ObjectReader
from lakebed.select.model import QueryStats, SelectRequest

Step = bytes | Exception | asyncio.Event
"""Records, an error, or an event to wait for."""


class ScriptedQuery:
    """A query that executes a script as its results are read."""

    def __init__(self, found: FoundObject | None, steps: Sequence[Step], *, knows_its_end: bool = False) -> None:
        self._found = found
        self._knows_its_end = knows_its_end
        self._steps = steps
        self.returned = 0
        self.closed = 0
        self.was_read = False
        self._is_over = False

    @property
    def found(self) -> FoundObject | None:
        return self._found

    @property
    def counts(self) -> QueryStats:
        return QueryStats(7 * self.returned, 9 * self.returned, self.returned)

    @property
    def is_over(self) -> bool:
        return self._is_over

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.was_read = True
        for number, step in enumerate(self._steps, 1):
            assert not self.closed
            self._is_over = self._knows_its_end and number == len(self._steps)
            if isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, Exception):
                raise step
            else:
                self.returned += len(step)
                yield step

    async def aclose(self) -> None:
        self.closed += 1


class ScriptedSelects:
    """A query runner whose queries execute the same script."""

    def __init__(self, reader: ObjectReader, lister: Lister, *steps: Step, error: Exception | None = None) -> None:
        self._reader = reader
        self._lister = lister
        self._steps = steps
        self._error = error
        self.requests: list[SelectRequest] = []
        self.opened: list[ScriptedQuery] = []

    async def open(
        self, caller: Caller, bucket: str, key: str, request: SelectRequest, *, version: str | None = None
    ) -> ScriptedQuery:
        found = await self._reader.get(caller, bucket, key, version=version)
        self.requests.append(request)
        if self._error is not None:
            raise self._error
        self.opened.append(ScriptedQuery(found, self._steps))
        return self.opened[-1]

    async def open_prefix(self, caller: Caller, bucket: str, prefix: str, request: SelectRequest) -> ScriptedQuery:
        listed = await self._lister.objects(caller, bucket, prefix=prefix, delimiter="", after="", limit=1000)
        for entry in listed.entries:
            await self._reader.get(caller, bucket, entry.key)
        self.requests.append(request)
        self.opened.append(ScriptedQuery(None, self._steps))
        return self.opened[-1]
