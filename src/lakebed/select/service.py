"""Runs selects: authorization, concurrency and time limits."""

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
"""The source that a query reads and closes."""


LARGE_BYTES: Final = 32 * 1024 * 1024
"""Bytes read by a query after which freed memory is returned to the system: the scan for it takes milliseconds."""


class SelectService:
    """Runs selects on objects that the caller may read."""

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
        """Folder for data that does not fit into memory; None to fail the query instead."""
        self._running = 0
        self._loaded: _Engine | None = None

    @property
    def running(self) -> int:
        """The number of open queries."""
        return self._running

    async def open(
        self, caller: Caller, bucket: str, key: str, request: SelectRequest, *, version: str | None = None
    ) -> RunningSelect:
        """Start a query on the current version of an object, or on the given one.

        Raises as a GET of the object; SelectError for errors found before the first record; Throttled if the limit of
        concurrent queries is reached; MissingExtra if the engine is not installed.
        """
        engine = await self._engine()
        found = await self._reader.get(caller, bucket, key, version=version)
        source = found.source
        assert source is not None  # noqa: S101  # `get` opens the content
        # Encrypted objects must not be written to disk in plain text.
        spill = None if found.object.attributes.encrypted else self._spill
        loop = asyncio.get_running_loop()

        def plan(opened: ObjectBytes, meter: Meter) -> Execution:
            return engine.plan(opened, request, self._limits, meter, self._now(), spill, engine.plan_cache)

        async def begin() -> ObjectBytes:
            return await engine.open_bytes(source, loop)

        return await self._start(engine, found, begin, plan)

    async def open_prefix(self, caller: Caller, bucket: str, prefix: str, request: SelectRequest) -> RunningSelect:
        """Start a query on all objects under a prefix as one, in key order.

        Raises as `open` for each object, and as a listing. NoSuchKey if there is no object.
        """
        engine = await self._engine()
        loop = asyncio.get_running_loop()

        def plan(objects: PrefixObjects, meter: Meter) -> Execution:
            return engine.plan_objects(objects, request, self._limits, meter, self._now())

        async def begin() -> PrefixObjects:
            return engine.prefix_objects(self._reader, self._lister, caller, bucket, prefix, loop)

        return await self._start(engine, None, begin, plan)

    async def _start(
        self,
        engine: _Engine,
        found: FoundObject | None,
        begin: Callable[[], Awaitable[Source]],
        plan: Callable[[Source, Meter], Execution],
    ) -> RunningSelect:
        if self._running >= self._limits.concurrent:
            raise Throttled(f"too many concurrent selects. maximum={self._limits.concurrent}")
        self._running += 1
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        source: Source | None = None
        try:
            source = await begin()
            meter = engine.meter()
            execution, first = await asyncio.to_thread(_start_execution, plan, source, meter)
        except BaseException:
            self._running -= 1
            if source is not None:
                await asyncio.shield(asyncio.to_thread(source.close))
            raise
        return RunningSelect(found, execution, first, source, meter, deadline, self._ended)

    async def _engine(self) -> _Engine:
        if self._loaded is None:
            self._loaded = await asyncio.to_thread(_load)
        return self._loaded

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def _ended(self) -> None:
        self._running -= 1


def _start_execution(
    plan: Callable[[Source, Meter], Execution], source: Source, meter: Meter
) -> tuple[Execution, bytes | None]:
    """A planned query; of a small one, its first records too, which saves a thread switch."""
    execution = plan(source, meter)
    try:
        return execution, execution.gather() if execution.is_small else None
    except BaseException:
        execution.stop()
        raise


class RunningSelect:
    """An open query. Its records are read once."""

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
        """The current progress."""
        return self._meter.counts

    @property
    def is_over(self) -> bool:
        """Whether it is known that no more records follow; only known for small objects."""
        return self._was_read and self._execution.is_small and self._execution.has_ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The records as bytes; of a small object, in as few pieces as possible."""
        pieces = self._pieces() if self._first is None else self._gathered(self._first)
        async for data in pieces:
            if data:
                self._meter.add(returned=len(data))
                yield data

    async def _pieces(self) -> AsyncIterator[bytes]:
        """Compute one batch ahead while the previous one is written."""
        writer = self._execution.writer
        self._begin(self._execution.next_batch())
        while (batch := await self._result()) is not None:
            self._begin(self._execution.next_batch())
            yield await asyncio.to_thread(writer.write, batch)
        yield await asyncio.to_thread(writer.finish)

    async def _gathered(self, first: bytes) -> AsyncIterator[bytes]:
        self._was_read = True
        yield first
        while not self._execution.has_ended:
            self._begin(asyncio.to_thread(self._execution.gather))
            yield await self._result()

    async def aclose(self) -> None:
        """Stop the query and release its resources. Idempotent; returns when both are done."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._closing is not None:
            work.close()
            raise Unavailable("the select was stopped")
        self._pending = asyncio.create_task(work)

    async def _result(self) -> Any:  # of the pending task
        assert self._pending is not None  # noqa: S101  # set by `_begin`
        loop = asyncio.get_running_loop()
        # Not awaited directly: cancelling the caller would cancel the task, while its thread would continue.
        await asyncio.wait({self._pending}, timeout=self._deadline - loop.time())
        if not self._pending.done():
            raise Unavailable("the query exceeds its time limit; select from a part of the object")
        return self._pending.result()

    async def _close(self) -> None:
        try:
            self._execution.stop()
            if self._pending is not None:
                if not self._execution.is_small:
                    self._pending.cancel()
                # Retrieve its error, which the reader already has.
                await asyncio.wait({self._pending})
                if not self._pending.cancelled():
                    self._pending.exception()
        finally:
            if self._execution.is_small:
                # No thread is reading, so this does not block.
                self._source.close()
            else:
                await asyncio.to_thread(self._release)
            self._ended()

    def _release(self) -> None:
        self._source.close()
        if self._meter.counts.processed >= LARGE_BYTES:
            release_free_memory()


class _Engine(NamedTuple):
    """The functions that the first select imports, so that servers without selects do not load them."""

    plan: Callable[..., Execution]
    plan_objects: Callable[..., Execution]
    open_bytes: Callable[..., Awaitable[ObjectBytes]]
    prefix_objects: Callable[..., PrefixObjects]
    meter: Callable[[], Meter]
    plan_cache: PlanCache


def _load() -> _Engine:
    require_extra("select", "select")
    import pyarrow as pa

    from .execution.engine import plan, plan_objects
    from .execution.plan_cache import PlanCache
    from .sources.byte_streams import Meter
    from .sources.object_bytes import open_bytes
    from .sources.prefix_objects import PrefixObjects

    # Arrow uses the system's allocator: memory in a separate pool could not be used by the rest of the process.
    pa.set_memory_pool(pa.system_memory_pool())
    return _Engine(plan, plan_objects, open_bytes, PrefixObjects, Meter, PlanCache())
