"""Selects without a server: over batches that somebody reads, or over records that were gathered in a file.

For questions about many objects, or about a table, whose answer is not that of each part beside that of the others.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from lakebed.core.errors import Unavailable
from lakebed.objects.contents import OpenSlice

from .arrow_relation import ArrowRelation
from .dialect import tokenize
from .engine import Execution, plan_over
from .failures import SelectCode, failure
from .inputs import open_input
from .model import JsonInput, Output, SelectLimits, SelectRequest
from .object_bytes import LocalBytes
from .paths import Every, Name
from .scanning import Batches
from .statement import Statement, read_statement
from .streams import Meter

__all__ = ["BatchReader", "records_of", "select_batches", "select_gathered"]

BatchReader = Callable[[list[str]], Iterator[pa.RecordBatch]]
"""Reads columns, by name, and gives what it reads piece by piece. Called once; what it raises is an error of ours."""

_AFTER_RECORDS: Final = frozenset({TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.SEMICOLON})


def records_of(expression: str) -> str:
    """The statement of the records that this one counts, groups or sorts. Raises SelectFailure.

    Its source and its condition are taken as they were written: nothing of them is lost, and nothing changes meaning.
    """
    read_statement(expression)
    depth, start, end = 0, 0, len(expression)
    for word in tokenize(expression):
        kind = word.token_type
        if kind is TokenType.L_PAREN:
            depth += 1
        elif kind is TokenType.R_PAREN:
            depth -= 1
        elif not depth and not start and kind is TokenType.FROM:
            start = word.start
        elif not depth and start and kind in _AFTER_RECORDS:
            end = word.start
            break
    return f"SELECT * {expression[start:end].rstrip()}"


def select_batches(
    expression: str, schema: pa.Schema, read: BatchReader, output: Output, *, spill: Path, filtered: bool = False
) -> Iterator[bytes]:
    """The records of a statement over batches of that schema, as bytes. Raises SelectFailure.

    `spill` is where what does not fit into memory goes. `filtered` says that the batches have what the statement's
    condition lets through, and nothing else.
    """
    statement = read_statement(expression)
    if statement.source:
        raise failure(SelectCode.DATA_SOURCE_PATH_UNSUPPORTED, "a path after FROM is for JSON")
    if filtered:
        statement = replace(statement, where=None)
    scan = _BatchScan(schema, read)
    return _records(plan_over(statement, scan.relation, scan, output, SelectLimits(), _now(), spill))


def select_gathered(expression: str, gathered: Path, output: Output, *, spill: Path) -> Iterator[bytes]:
    """The records of a statement over those that `records_of` it gave, a line of JSON each. Raises SelectFailure."""
    statement = _without_source(read_statement(expression))
    request = SelectRequest(expression, JsonInput(), output)
    descriptor = os.open(gathered, os.O_RDONLY)
    source = LocalBytes([OpenSlice(descriptor, 0, gathered.stat().st_size)])
    try:
        relation, scan = open_input(source, request, statement, Meter())
        yield from _records(plan_over(statement, relation, scan, output, SelectLimits(), _now(), spill))
    finally:
        source.close()


def _without_source(statement: Statement) -> Statement:
    """The same over records that are there already; they keep the name that they had."""
    alias = statement.alias
    if alias is None and statement.source:
        last = statement.source[-1]
        alias = last if isinstance(last, Name) else Name("_1") if isinstance(last, Every) else None
    return replace(statement, source=(), where=None, alias=alias)


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
    """Batches, one after the other, from one reader."""

    def __init__(self, schema: pa.Schema, read: BatchReader) -> None:
        self._read = read
        self._stopped = False
        self.relation = ArrowRelation(schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns that can be asked for."""
        return self.relation.schema

    def prune(self, condition: object) -> None:
        """Nothing is known of a batch before it is read."""

    def readers(self, count: int, *, in_order: bool) -> list[Batches]:
        """One."""
        return [self._columns]

    def stop(self) -> None:
        """End the reader."""
        self._stopped = True

    def _columns(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._read(self.relation.stored(columns)):
            if self._stopped:
                raise Unavailable("the select was stopped")
            yield self.relation.build(batch, columns)
