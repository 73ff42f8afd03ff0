"""Selects: who may ask, how many at a time, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakebed.core.clock import Clock
from lakebed.core.errors import NotSupported, Throttled, Unavailable
from lakebed.objects.listing import Lister
from lakebed.objects.model import Caller
from lakebed.objects.reading import FoundObject, ObjectReader

from .model import Counts, SelectLimits, SelectRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from .engine import Execution
    from .object_bytes import ObjectBytes
    from .streams import Meter
    from .walking import ObjectWalk

Source = TypeVar("Source", "ObjectBytes", "ObjectWalk")
"""What a query reads, and closes."""


class Selects:
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

    @property
    def running(self) -> int:
        """How many queries are open."""
        return self._running

    async def open(
        self, caller: Caller, bucket: str, key: str, request: SelectRequest, *, version: str | None = None
    ) -> RunningSelect:
        """Start a query on the current version of an object, or on the one named.

        Raises what a GET of the object raises; SelectFailure for whatever is wrong that can be known before the first
        record; Throttled when as many queries as may be are running; NotSupported where the engine is not installed.
        """
        parts = await asyncio.to_thread(_load)
        found = await self._reader.get(caller, bucket, key, version=version)
        source = found.source
        assert source is not None  # noqa: S101  # a GET has one
        # What is encrypted where it is stored is not written anywhere else in the clear.
        spill = None if found.object.attributes.encrypted else self._spill
        loop = asyncio.get_running_loop()

        def plan(opened: ObjectBytes, meter: Meter) -> Execution:
            return parts.plan(opened, request, self._limits, meter, self._now(), spill)

        return await self._start(parts, found, lambda: parts.open_bytes(source, loop), plan)

    async def open_all(self, caller: Caller, bucket: str, prefix: str, request: SelectRequest) -> RunningSelect:
        """Start a query on all objects whose keys begin with that, as one, in the order of their keys.

        Raises as `open`, of any of them; and what a listing raises. NoSuchKey where there is none.
        """
        parts = await asyncio.to_thread(_load)
        loop = asyncio.get_running_loop()

        def plan(walk: ObjectWalk, meter: Meter) -> Execution:
            return parts.plan_many(walk, request, self._limits, meter, self._now())

        def begin() -> ObjectWalk:
            return parts.walk(self._reader, self._lister, caller, bucket, prefix, loop)

        return await self._start(parts, None, begin, plan)

    async def _start(
        self,
        parts: _Parts,
        found: FoundObject | None,
        begin: Callable[[], Source],
        plan: Callable[[Source, Meter], Execution],
    ) -> RunningSelect:
        if self._running >= self._limits.concurrent:
            raise Throttled(f"as many selects as may be are running. maximum={self._limits.concurrent}")
        self._running += 1
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        source: Source | None = None
        try:
            source = begin()
            meter = parts.meter()
            execution = await asyncio.to_thread(plan, source, meter)
        except BaseException:
            self._running -= 1
            if source is not None:
                await asyncio.shield(asyncio.to_thread(source.close))
            raise
        return RunningSelect(found, execution, source, meter, deadline, self._ended)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def _ended(self) -> None:
        self._running -= 1


class RunningSelect:
    """A query under way. Its records are read once."""

    def __init__(
        self,
        found: FoundObject | None,
        execution: Execution,
        source: ObjectBytes | ObjectWalk,
        meter: Meter,
        deadline: float,
        ended: Callable[[], None],
    ) -> None:
        self.found = found
        self._execution = execution
        self._source = source
        self._meter = meter
        self._deadline = deadline
        self._ended = ended
        self._pending: asyncio.Task[pa.RecordBatch | None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def counts(self) -> Counts:
        """How much was done, true at any moment."""
        return self._meter.counts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The records as bytes. One batch is computed while the last is being written, and no more."""
        writer = self._execution.writer
        self._ask()
        while (batch := await self._answer()) is not None:
            self._ask()
            data = await asyncio.to_thread(writer.write, batch)
            if data:
                self._meter.add(returned=len(data))
                yield data
        data = await asyncio.to_thread(writer.finish)
        if data:
            self._meter.add(returned=len(data))
            yield data

    async def aclose(self) -> None:
        """Stop the query and free what it holds. Idempotent; returns when both have happened."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    def _ask(self) -> None:
        if self._closing is not None:
            raise Unavailable("the select was stopped")
        self._pending = asyncio.create_task(self._execution.next_batch())

    async def _answer(self) -> pa.RecordBatch | None:
        assert self._pending is not None  # noqa: S101  # as `_ask` has made it
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._pending
        except TimeoutError as error:
            raise Unavailable("the query takes longer than it may; select from a part of the object") from error

    async def _close(self) -> None:
        try:
            self._execution.stop()
            if self._pending is not None:
                self._pending.cancel()
                # However it ended: whoever reads has been told already.
                await asyncio.wait({self._pending})
                if not self._pending.cancelled():
                    self._pending.exception()
        finally:
            await asyncio.to_thread(self._source.close)
            self._ended()


class _Parts(NamedTuple):
    """What is imported with the first select: a server that is never asked for one does without."""

    plan: Callable[..., Execution]
    plan_many: Callable[..., Execution]
    open_bytes: Callable[..., ObjectBytes]
    walk: Callable[..., ObjectWalk]
    meter: Callable[[], Meter]


def _load() -> _Parts:
    try:
        from .engine import plan, plan_many
        from .object_bytes import open_bytes
        from .streams import Meter
        from .walking import ObjectWalk

        _share_allocator()
    except ImportError as error:
        raise NotSupported("select needs its engine; install it: pip install 'lakebed[select]'") from error
    return _Parts(plan, plan_many, open_bytes, ObjectWalk, Meter)


def _share_allocator() -> None:
    """Have Arrow take memory from where all else takes it: a place of its own keeps what others could use."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
