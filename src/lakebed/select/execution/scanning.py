"""How an object is scanned: by one reader that keeps the order of its records, or by several that share them out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import pyarrow as pa

from ..sources.record_blocks import Blocks

BatchReader = Callable[[list[str]], Iterator[pa.RecordBatch]]
"""Reads the columns named, and gives what it reads piece by piece."""


class Scan(Protocol):
    """An object to be scanned once."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that can be asked for."""
        ...

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Leave out what the condition is certainly not true of. Said before anything is read."""
        ...

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """At most so many readers, which between them read every record once; one if the order matters."""
        ...

    def stop(self) -> None:
        """End all readers soon. Idempotent."""
        ...


class BlockSource(Protocol):
    """Where blocks come from. They may be anything that `BlockScan` is given a reader of."""

    def take(self) -> object | None:
        """The next block, or None after the last."""
        ...

    def stop(self) -> None:
        """No more of them."""
        ...


class BlockScan:
    """Blocks that are read independently of each other."""

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
        """Whether reading lets other threads run, so that several at once are faster than one."""
        self._pool: ThreadPoolExecutor | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns that can be asked for."""
        return self._schema() if callable(self._schema) else self._schema

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Nothing is known of a block before it is read."""

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """Readers of the blocks."""
        if not self._threaded or count == 1:
            return [self._one_by_one]
        if in_order:
            return [lambda columns: self._ahead(columns, count)]
        return [self._one_by_one] * count

    def stop(self) -> None:
        """End all readers."""
        self._blocks.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _one_by_one(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        while (block := self._blocks.take()) is not None:
            yield self._read(block, columns)

    def _ahead(self, columns: list[str], count: int) -> Iterator[pa.RecordBatch]:
        """In order, with the next few being read while one is worked on."""
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
