"""Scans objects: with one reader that keeps the order of records, or several in parallel."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from lakebed.core.errors import Unavailable

from ..sources.record_blocks import Blocks

T = TypeVar("T")

BatchReader = Callable[[list[str]], Iterator[pa.RecordBatch]]
"""Reads the named columns in batches."""


class Scan(Protocol):
    """An object that is scanned once."""

    @property
    def schema(self) -> pa.Schema:
        """The available columns."""
        ...

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Skip data that cannot satisfy the condition. Called before reading."""
        ...

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """At most `count` readers, which together read every record once; one reader if the order matters."""
        ...

    def stop(self) -> None:
        """Stop all readers soon. Idempotent."""
        ...


class BlockSource(Protocol):
    """Supplies blocks of any type that the read function of `BlockScan` accepts."""

    def take(self) -> object | None:
        """The next block, or None after the last."""
        ...

    def stop(self) -> None:
        """Stop supplying blocks."""
        ...


class SampledBlocks(Generic[T]):
    """Blocks of values, the first of which can be sampled before it is taken. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: list[T] | None = None
        self._stopped = False

    def first(self) -> list[T]:
        """The first block, which `take` returns too."""
        with self._lock:
            if self._first is None:
                self._first = self._next()
            return self._first

    def take(self) -> list[T] | None:
        """The next block, or None after the last. Raises Unavailable after `stop`."""
        with self._lock:
            block, self._first = self._first, None
            return block or self._next() or None

    def stop(self) -> None:
        """Stop supplying blocks."""
        self._stopped = True

    def _next(self) -> list[T]:
        if self._stopped:
            raise Unavailable("the select was stopped")
        return self._read()

    def _read(self) -> list[T]:
        """Read the next block; empty at the end."""
        raise NotImplementedError


class BlockScan:
    """Scans blocks that can be read independently."""

    def __init__(
        self,
        schema: pa.Schema | Callable[[], pa.Schema],
        blocks: Blocks | BlockSource,
        read: Callable[..., pa.RecordBatch],
        *,
        threaded: bool,
    ) -> None:
        self._schema = schema
        self._blocks = blocks
        self._read = read
        self._threaded = threaded
        """Whether reading releases the GIL, so that several threads are faster."""
        self._pool: ThreadPoolExecutor | None = None

    @property
    def schema(self) -> pa.Schema:
        """The available columns."""
        return self._schema() if callable(self._schema) else self._schema

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Do nothing: blocks have no statistics."""

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """Readers of the blocks."""
        if not self._threaded or count == 1:
            return [self._one_by_one]
        if in_order:
            return [lambda columns: self._ahead(columns, count)]
        return [self._one_by_one] * count

    def stop(self) -> None:
        """Stop all readers."""
        self._blocks.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _one_by_one(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        while (block := self._blocks.take()) is not None:
            yield self._read(block, columns)

    def _ahead(self, columns: list[str], count: int) -> Iterator[pa.RecordBatch]:
        """Read in order, with a few blocks ahead in parallel."""
        self._pool = pool = ThreadPoolExecutor(count, thread_name_prefix="select-read")
        waiting: deque[Future[pa.RecordBatch]] = deque()
        try:
            while True:
                while len(waiting) <= count and (block := self._blocks.take()) is not None:
                    waiting.append(pool.submit(self._read, block, columns))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
