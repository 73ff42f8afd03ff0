"""Runs selects without a server, over batches from a caller, such as those of a table."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from lakebed.core.errors import Unavailable

from ..dialect.statement import SelectStatement
from ..errors import SelectCode, failure
from ..formats.arrow_relation import ArrowRelation
from ..model import Output, SelectLimits
from .engine import Execution, plan_over
from .scanning import BatchReader

__all__ = ["BatchReader", "select_batches"]


def select_batches(
    statement: SelectStatement, schema: pa.Schema, read: BatchReader, output: Output, *, spill: Path
) -> Iterator[bytes]:
    """The result of a statement over batches of a schema, as bytes. Raises SelectError.

    `spill` is the folder for data that does not fit into memory.
    """
    if statement.source:
        raise failure(SelectCode.DATA_SOURCE_PATH_UNSUPPORTED, "a path after FROM requires JSON")
    scan = _BatchScan(schema, read)
    return _records(plan_over(statement, scan.relation, scan, output, SelectLimits(), _now(), spill))


def _now() -> datetime:
    return datetime.now(UTC)


def _records(execution: Execution) -> Iterator[bytes]:
    writer = execution.writer
    with asyncio.Runner() as runner:
        try:
            while (batch := runner.run(execution.next_batch())) is not None:
                if data := writer.write(batch):
                    yield data
            if data := writer.finish():
                yield data
        finally:
            execution.stop()


class _BatchScan:
    """Batches from one reader, in sequence."""

    def __init__(self, schema: pa.Schema, read: BatchReader) -> None:
        self._read = read
        self._stopped = False
        self.relation = ArrowRelation(schema)

    @property
    def schema(self) -> pa.Schema:
        """The available columns."""
        return self.relation.schema

    def prune(self, condition: object) -> None:
        """Do nothing: batches have no statistics."""

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """The only reader."""
        return [self._columns]

    def stop(self) -> None:
        """Stop the reader."""
        self._stopped = True

    def _columns(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._read(self.relation.stored(columns)):
            if self._stopped:
                raise Unavailable("the select was stopped")
            yield self.relation.build(batch, columns)
