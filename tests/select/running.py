"""Runs selects over bytes, without an object store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakebed.objects.blobs.contents import OpenSlice
from lakebed.select.execution.engine import Execution, plan
from lakebed.select.execution.plan_cache import PlanCache
from lakebed.select.model import (
    Compression,
    CsvInput,
    CsvOutput,
    HeaderUse,
    Input,
    JsonInput,
    JsonKind,
    JsonOutput,
    Output,
    QueryStats,
    ScanRange,
    SelectLimits,
    SelectRequest,
)
from lakebed.select.sources.byte_streams import Meter
from lakebed.select.sources.object_bytes import LocalBytes

NOW = datetime(2026, 11, 15, 12, 30, 45, 123000, UTC)
HEADED = CsvInput(header=HeaderUse.USE)
LINES = JsonInput(JsonKind.LINES)
DOCUMENT = JsonInput(JsonKind.DOCUMENT)
LIMITS = SelectLimits(partitions=2)
PLANS = PlanCache()
"""Shared by all tests, as by the requests of a worker."""


def request(
    expression: str,
    read: Input | None = None,
    write: Output | None = None,
    compression: Compression = Compression.NONE,
    scan: tuple[int | None, int | None] | None = None,
) -> SelectRequest:
    """A request with defaults."""
    return SelectRequest(
        expression,
        read if read is not None else CsvInput(),
        write if write is not None else CsvOutput(),
        compression,
        None if scan is None else ScanRange(*scan),
    )


async def answer(
    select_request: SelectRequest,
    data: bytes | Sequence[OpenSlice | bytes],
    limits: SelectLimits = LIMITS,
    spill: Path | None = None,
) -> tuple[bytes, QueryStats]:
    """The bytes of a result, and its statistics."""
    meter = Meter()
    source = LocalBytes([data] if isinstance(data, bytes) else list(data))
    try:
        execution = await asyncio.to_thread(plan, source, select_request, limits, meter, NOW, spill, PLANS)
        try:
            return b"".join([part async for part in _pieces(execution)]), meter.counts
        finally:
            execution.stop()
    finally:
        source.close()


async def _pieces(execution: Execution) -> AsyncIterator[bytes]:
    """The pieces of a result, read as the service does."""
    if execution.is_small:
        while part := await asyncio.to_thread(execution.gather):
            yield part
        return
    while (batch := await execution.next_batch()) is not None:
        yield execution.writer.write(batch)
    yield execution.writer.finish()


def select(expression: str, data: bytes, read: Input | None = None, write: Output | None = None, **others: Any) -> str:
    """The text of a result."""
    return asyncio.run(answer(request(expression, read, write, **others), data))[0].decode()


def rows(expression: str, data: bytes, read: Input | None = None, **others: Any) -> list[str]:
    """The lines of a CSV result."""
    return select(expression, data, read, **others).split("\n")[:-1]


def objects(expression: str, data: bytes, read: Input | None = None, **others: Any) -> list[Any]:
    """The records of a JSON result."""
    return [json.loads(line) for line in select(expression, data, read, JsonOutput(), **others).split("\n")[:-1]]
