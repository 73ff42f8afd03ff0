"""Selects that answer as a test tells them, on objects that are really there and to callers who really may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from lakebed.objects.listing import Lister
from lakebed.objects.model import Caller
from lakebed.objects.reading import FoundObject, ObjectReader
from lakebed.select.model import QueryStats, SelectRequest

Step = bytes | Exception | asyncio.Event
"""Records, what goes wrong, or something to wait for."""


class ScriptedQuery:
    """A query that does one step after the other, as far as it is read."""

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
    """Opens queries of one script."""

    def __init__(self, reader: ObjectReader, lister: Lister, *steps: Step, refusal: Exception | None = None) -> None:
        self._reader = reader
        self._lister = lister
        self._steps = steps
        self._refusal = refusal
        self.asked: list[SelectRequest] = []
        self.opened: list[ScriptedQuery] = []

    async def open(
        self, caller: Caller, bucket: str, key: str, request: SelectRequest, *, version: str | None = None
    ) -> ScriptedQuery:
        found = await self._reader.get(caller, bucket, key, version=version)
        self.asked.append(request)
        if self._refusal is not None:
            raise self._refusal
        self.opened.append(ScriptedQuery(found, self._steps))
        return self.opened[-1]

    async def open_prefix(self, caller: Caller, bucket: str, prefix: str, request: SelectRequest) -> ScriptedQuery:
        listed = await self._lister.objects(caller, bucket, prefix=prefix, delimiter="", after="", limit=1000)
        for entry in listed.entries:
            await self._reader.get(caller, bucket, entry.key)
        self.asked.append(request)
        self.opened.append(ScriptedQuery(None, self._steps))
        return self.opened[-1]
