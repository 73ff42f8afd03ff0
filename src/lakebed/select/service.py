"""Selects: who may ask, how many at a time, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from lakebed.core.clock import Clock
from lakebed.core.errors import Throttled, Unavailable
from lakebed.core.extras import require_extra
from lakebed.core.memory import release_free_memory
from lakebed.objects.listing import Lister
from lakebed.objects.model import Caller
from lakebed.objects.reading import FoundObject, ObjectReader

from .model import QueryStats, SelectLimits, SelectRequest

if TYPE_CHECKING:
    from .execution.engine import Execution
    from .execution.plan_cache import PlanCache
    from .sources.byte_streams import Meter
    from .sources.object_bytes import ObjectBytes
    from .sources.prefix_objects import PrefixObjects

Source = TypeVar("Source", "ObjectBytes", "PrefixObjects")
"""What a query reads, and closes."""


LARGE_BYTES: Final = 32 * 1024 * 1024
"""Bytes read by a query after which freed memory is returned to the system: the scan for it takes milliseconds."""


class SelectService:
    """Answers selects, of objects that the caller may read."""

    def __init__(
        self,
        reader: ObjectReader,
        lister: Lister,
        clock: Clock,
        limits: SelectLimits | None = None,
        spill: Path | None = None,
    ) -> None:
        self._reader = reader
        self._lister = lister
        self._clock = clock
        self._limits = limits or SelectLimits()
        self._spill = spill
        """Where what does not fit into memory goes; None to end the query instead."""
        self._running = 0
        self._loaded: _Parts | None = None

    @property
    def running(self) -> int:
        """How many queries are open."""
        return self._running

    async def open(
        self, caller: Caller, bucket: str, key: str, request: SelectRequest, *, version: str | None = None
    ) -> RunningSelect:
        """Start a query on the current version of an object, or on the one named.

        Raises what a GET of the object raises; SelectError for whatever is wrong that can be known before the first
        record; Throttled when as many queries as may be are running; MissingExtra where the engine is not installed.
        """
        parts = await self._parts()
        found = await self._reader.get(caller, bucket, key, version=version)
        source = found.source
        assert source is not None  # noqa: S101  # a GET has one
        # What is encrypted where it is stored is not written anywhere else in the clear.
        spill = None if found.object.attributes.encrypted else self._spill
        loop = asyncio.get_running_loop()

        def plan(opened: ObjectBytes, meter: Meter) -> Execution:
            return parts.plan(opened, request, self._limits, meter, self._now(), spill, parts.plan_cache)

        async def begin() -> ObjectBytes:
            return await parts.open_bytes(source, loop)

        return await self._start(parts, found, begin, plan)

    async def open_prefix(self, caller: Caller, bucket: str, prefix: str, request: SelectRequest) -> RunningSelect:
        """Start a query on all objects whose keys begin with that, as one, in the order of their keys.

        Raises as `open`, of any of them; and what a listing raises. NoSuchKey where there is none.
        """
        parts = await self._parts()
        loop = asyncio.get_running_loop()

        def plan(walk: PrefixObjects, meter: Meter) -> Execution:
            return parts.plan_objects(walk, request, self._limits, meter, self._now())

        async def begin() -> PrefixObjects:
            return parts.walk(self._reader, self._lister, caller, bucket, prefix, loop)

        return await self._start(parts, None, begin, plan)

    async def _start(
        self,
        parts: _Parts,
        found: FoundObject | None,
        begin: Callable[[], Awaitable[Source]],
        plan: Callable[[Source, Meter], Execution],
    ) -> RunningSelect:
        if self._running >= self._limits.concurrent:
            raise Throttled(f"as many selects as may be are running. maximum={self._limits.concurrent}")
        self._running += 1
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        source: Source | None = None
        try:
            source = await begin()
            meter = parts.meter()
            execution, first = await asyncio.to_thread(_begun, plan, source, meter)
        except BaseException:
            self._running -= 1
            if source is not None:
                await asyncio.shield(asyncio.to_thread(source.close))
            raise
        return RunningSelect(found, execution, first, source, meter, deadline, self._ended)

    async def _parts(self) -> _Parts:
        if self._loaded is None:
            self._loaded = await asyncio.to_thread(_load)
        return self._loaded

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def _ended(self) -> None:
        self._running -= 1


def _begun(plan: Callable[[Source, Meter], Execution], source: Source, meter: Meter) -> tuple[Execution, bytes | None]:
    """A query that was planned, and of a small one its first records: coming back for them would take longer."""
    execution = plan(source, meter)
    try:
        return execution, execution.gather() if execution.is_small else None
    except BaseException:
        execution.stop()
        raise


class RunningSelect:
    """A query under way. Its records are read once."""

    def __init__(
        self,
        found: FoundObject | None,
        execution: Execution,
        first: bytes | None,
        source: ObjectBytes | PrefixObjects,
        meter: Meter,
        deadline: float,
        ended: Callable[[], None],
    ) -> None:
        self.found = found
        self._execution = execution
        self._first = first
        self._was_read = False
        self._source = source
        self._meter = meter
        self._deadline = deadline
        self._ended = ended
        self._pending: asyncio.Task[Any] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def counts(self) -> QueryStats:
        """How much was done, true at any moment."""
        return self._meter.counts

    @property
    def is_over(self) -> bool:
        """Whether it is known that nothing follows what was read: of small objects it is."""
        return self._was_read and self._execution.is_small and self._execution.has_ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The records as bytes, of a small object as few pieces as may be."""
        pieces = self._pieces() if self._first is None else self._gathered(self._first)
        async for data in pieces:
            if data:
                self._meter.add(returned=len(data))
                yield data

    async def _pieces(self) -> AsyncIterator[bytes]:
        """One batch is computed while the last is being written, and no more."""
        writer = self._execution.writer
        self._ask(self._execution.next_batch())
        while (batch := await self._answer()) is not None:
            self._ask(self._execution.next_batch())
            yield await asyncio.to_thread(writer.write, batch)
        yield await asyncio.to_thread(writer.finish)

    async def _gathered(self, first: bytes) -> AsyncIterator[bytes]:
        self._was_read = True
        yield first
        while not self._execution.has_ended:
            self._ask(asyncio.to_thread(self._execution.gather))
            yield await self._answer()

    async def aclose(self) -> None:
        """Stop the query and free what it holds. Idempotent; returns when both have happened."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    def _ask(self, answer: Coroutine[Any, Any, Any]) -> None:
        if self._closing is not None:
            answer.close()
            raise Unavailable("the select was stopped")
        self._pending = asyncio.create_task(answer)

    async def _answer(self) -> Any:  # of whatever was asked for
        assert self._pending is not None  # noqa: S101  # as `_ask` has made it
        loop = asyncio.get_running_loop()
        # Not awaited itself: that would cancel it with whoever waits, and what runs in a thread goes on nevertheless.
        await asyncio.wait({self._pending}, timeout=self._deadline - loop.time())
        if not self._pending.done():
            raise Unavailable("the query takes longer than it may; select from a part of the object")
        return self._pending.result()

    async def _close(self) -> None:
        try:
            self._execution.stop()
            if self._pending is not None:
                if not self._execution.is_small:
                    self._pending.cancel()
                # However it ended: whoever reads has been told already.
                await asyncio.wait({self._pending})
                if not self._pending.cancelled():
                    self._pending.exception()
        finally:
            if self._execution.is_small:
                # Nobody reads any more, so that nobody is waited for.
                self._source.close()
            else:
                await asyncio.to_thread(self._let_go)
            self._ended()

    def _let_go(self) -> None:
        self._source.close()
        if self._meter.counts.processed >= LARGE_BYTES:
            release_free_memory()


class _Parts(NamedTuple):
    """What is imported with the first select: a server that is never asked for one does without."""

    plan: Callable[..., Execution]
    plan_objects: Callable[..., Execution]
    open_bytes: Callable[..., Awaitable[ObjectBytes]]
    walk: Callable[..., PrefixObjects]
    meter: Callable[[], Meter]
    plan_cache: PlanCache


def _load() -> _Parts:
    require_extra("select", "select")
    import pyarrow as pa

    from .execution.engine import plan, plan_objects
    from .execution.plan_cache import PlanCache
    from .sources.byte_streams import Meter
    from .sources.object_bytes import open_bytes
    from .sources.prefix_objects import PrefixObjects

    # Arrow allocates from the system's pool: memory in a pool of its own is of no use to the rest of the process.
    pa.set_memory_pool(pa.system_memory_pool())
    return _Parts(plan, plan_objects, open_bytes, PrefixObjects, Meter, PlanCache())
