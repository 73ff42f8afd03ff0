"""Plans and runs a query on DataFusion, in its own session and within limits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from lakebed.core.errors import LakebedError, NoSuchKey, Unavailable

from ..dialect.scalar_functions import register_functions
from ..dialect.statement import SelectStatement, read_statement
from ..errors import SelectCode, failure
from ..formats.arrow import open_arrow
from ..formats.arrow_relation import ArrowRelation
from ..formats.avro import open_avro
from ..formats.csv_relation import CsvRelation, open_csv
from ..formats.json_relation import JsonRelation, open_json
from ..formats.parquet import open_parquet
from ..model import (
    ArrowInput,
    AvroInput,
    Compression,
    CsvInput,
    JsonInput,
    JsonOutput,
    Output,
    ParquetInput,
    SelectLimits,
    SelectRequest,
)
from ..output.writers import Writer, open_writer
from ..request_checks import check_request
from ..sources.byte_streams import Meter
from .dataset import ScanDataset
from .multi_object_scan import MultiObjectScan, ObjectSupply, OpenedObject
from .plan_cache import PlanCache, PlanKey, PreparedPlan, is_cacheable, open_session, plan_sql
from .query import TABLE, build_query
from .relation import Relation
from .scanning import Scan

if TYPE_CHECKING:
    from ..sources.object_bytes import ObjectBytes

_ERRORS: Final[tuple[tuple[str, SelectCode, str], ...]] = (
    (r"Divide by zero|DivideByZero", SelectCode.EVALUATOR_INVALID_ARGUMENTS, "division by zero"),
    (
        r"out of range|verflow|too large to fit|Invalid argument error: \d+ is too large to store in a Decimal",
        SelectCode.INTEGER_OVERFLOW,
        "number is out of range",
    ),
    (r"Cannot cast|Cast error|[Cc]ast|Parser error", SelectCode.CAST_FAILED, "value cannot be cast"),
    (
        r"negative substring length",
        SelectCode.EVALUATOR_INVALID_ARGUMENTS,
        "SUBSTRING requires a length that is not negative",
    ),
    (
        r"must appear in the GROUP BY|could not be resolved from available columns|not.*GROUP BY",
        SelectCode.UNSUPPORTED_SQL_STRUCTURE,
        "selected columns must be in GROUP BY or in an aggregate",
    ),
    (
        r"For SELECT DISTINCT",
        SelectCode.UNSUPPORTED_SQL_STRUCTURE,
        "with DISTINCT, ORDER BY may only use selected columns",
    ),
    (r"recursion limit", SelectCode.MAX_OPERATORS_EXCEEDED, "expression is nested too deeply"),
    (r"This feature is not implemented", SelectCode.UNSUPPORTED_SQL_OPERATION, "the operation is not supported"),
    (
        r"Error during planning|type_coercion|coerce|No function matches",
        SelectCode.INCORRECT_SQL_FUNCTION_ARGUMENT_TYPE,
        "operation is not supported for values of this type",
    ),
)
"""Patterns of DataFusion's messages, with S3's code and message. Its messages are dropped: they quote generated SQL."""

_SMALL_BYTES: Final = 256 * 1024
_GATHERED_BYTES: Final = 64 * 1024
_ENDINGS: Final = {
    "gz": Compression.GZIP,
    "bz2": Compression.BZIP2,
    "zst": Compression.ZSTD,
    "lz4": Compression.LZ4,
    "snappy": Compression.SNAPPY,
}


_R = TypeVar("_R")


class Execution:
    """A planned query. Its records are read, or it is stopped."""

    def __init__(self, writer: Writer, scan: Scan, stream: Any, running: _Running, *, is_small: bool = False) -> None:
        self.writer = writer
        self.is_small = is_small
        """Whether reading it takes less time than switching threads, so that `gather` is faster."""
        self.has_ended = False
        """Whether the last batch was read."""
        self._scan = scan
        self._stream = stream
        self._running = running

    async def next_batch(self) -> pa.RecordBatch | None:
        """The next batch of the result, or None after the last. Raises as `explain`."""
        try:
            batch = await self._stream.__anext__()
        except StopAsyncIteration:
            self.has_ended = True
            return None
        except Exception as error:
            raise explain(error, self._running.errors) from error
        return batch.to_pyarrow()

    def gather(self) -> bytes:
        """The next records as bytes, about as many as are sent at once; empty after the end. Blocks.

        Raises as `next_batch`.
        """
        gathered: list[bytes] = []
        while not self.has_ended and sum(map(len, gathered)) < _GATHERED_BYTES:
            stream = self._stream
            if stream is None:
                raise Unavailable("the select was stopped")
            try:
                batch = next(stream).to_pyarrow()
            except StopIteration:
                self.has_ended = True
                gathered.append(self.writer.finish())
            except Exception as error:
                raise explain(error, self._running.errors) from error
            else:
                gathered.append(self.writer.write(batch))
        return b"".join(gathered)

    def stop(self) -> None:
        """Stop the query. Its memory is released once no caller awaits a batch."""
        self._scan.stop()
        self._stream = None
        running, self._running = self._running, _Running([])
        if self.has_ended:
            running.on_end()


class _Running(NamedTuple):
    """The state of a running query."""

    errors: list[LakebedError]
    """Errors raised by this package inside DataFusion."""
    on_end: Callable[[], None] = lambda: None
    """Called when the query was read to its end."""


def plan(
    source: ObjectBytes,
    request: SelectRequest,
    limits: SelectLimits,
    meter: Meter,
    now: datetime,
    spill: Path | None,
    plan_cache: PlanCache | None = None,
) -> Execution:
    """Plan a query. Blocks: it reads the beginning of the object. Raises SelectError.

    Without `spill`, nothing is written to disk, and a query that exceeds the memory limit fails.
    """
    check_request(request)
    statement = read_statement(request.expression)
    relation, scan = open_input(source, request, statement, meter)
    is_small = _is_small(source, request)
    return plan_over(
        statement, relation, scan, request.output, limits, now, spill, plan_cache=plan_cache, is_small=is_small
    )


def _is_small(source: ObjectBytes, request: SelectRequest) -> bool:
    """Whether the object is small and not compressed: decompressed data may be many times larger."""
    return (
        source.size <= _SMALL_BYTES
        and request.compression is Compression.NONE
        and isinstance(request.input, CsvInput | JsonInput)
    )


def plan_objects(
    supply: ObjectSupply, request: SelectRequest, limits: SelectLimits, meter: Meter, now: datetime
) -> Execution:
    """Plan a query over all objects of a supply. Blocks like `plan`. Raises NoSuchKey if there are none.

    Nothing is written to disk, because some objects may be encrypted.
    """
    check_request(request)
    if request.scan_range is not None:
        raise failure(SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT, "a scan range requires a single object")
    statement = read_statement(request.expression)
    first = supply.take()
    if first is None:
        raise NoSuchKey("no object under the prefix has content")
    try:
        relation, scan = open_input(first.source, _with_compression(request, first.key), statement, meter)

        def open_next(opened: OpenedObject) -> Scan:
            return open_input(opened.source, _with_compression(request, opened.key), statement, meter, relation)[1]

        many = MultiObjectScan(first, scan, supply, open_next)
        return plan_over(statement, relation, many, request.output, limits, now, None)
    except BaseException:
        first.source.close()
        raise


def _with_compression(request: SelectRequest, key: str) -> SelectRequest:
    """The request for one of many objects, with the compression that its key's suffix names."""
    compression = _ENDINGS.get(key.rpartition(".")[2].lower())
    if (
        compression is None
        or request.compression is not Compression.NONE
        or not isinstance(request.input, CsvInput | JsonInput)
    ):
        return request
    return replace(request, compression=compression)


def plan_over(
    statement: SelectStatement,
    relation: Relation,
    scan: Scan,
    output: Output,
    limits: SelectLimits,
    now: datetime,
    spill: Path | None,
    *,
    plan_cache: PlanCache | None = None,
    is_small: bool = False,
) -> Execution:
    """Plan a query over a scan, with a cached plan if there is one. Raises SelectError."""
    query = build_query(statement, relation, now, named=isinstance(output, JsonOutput))
    threads = 1 if is_small else limits.partitions or os.cpu_count() or 1
    errors: list[LakebedError] = []
    try:
        if plan_cache is not None and is_cacheable(query, threads):
            key = PlanKey(query.sql, scan.schema)
            prepared = plan_cache.take(key) or PreparedPlan(key, limits, errors)
            errors = prepared.errors
            stream = prepared.run(scan, threads)
            running = _Running(errors, lambda: plan_cache.put(prepared))
        else:
            context = open_session(limits, 1 if query.in_order else threads, spill)
            register_functions(context, errors.append)
            context.register_dataset(TABLE, ScanDataset(scan, threads, errors.append, in_order=query.in_order))
            stream = plan_sql(context, query.sql).execute_stream()
            running = _Running(errors)
    except LakebedError:
        raise
    except Exception as error:
        raise explain(error, errors) from error
    return Execution(open_writer(output, query.outputs), scan, stream, running, is_small=is_small)


def explain(error: Exception, errors: list[LakebedError]) -> Exception:
    """The error to raise for an exception from DataFusion: the recorded one, or one mapped by its message."""
    if errors:
        return errors[0]
    if isinstance(error, LakebedError):
        return error
    description = str(error)
    if "Resources exhausted" in description or "ResourcesExhausted" in description:
        return Unavailable("the query exceeds its memory limit; select less, or fewer groups")
    for pattern, code, message in _ERRORS:
        if re.search(pattern, description):
            return failure(code, message)
    return error


def open_input(
    source: ObjectBytes, request: SelectRequest, statement: SelectStatement, meter: Meter, like: Relation | None = None
) -> tuple[Relation, Scan]:
    """Open an object's records. Blocks: it reads enough to find the columns. Raises SelectError.

    With `like`, the relation of the first object, the columns are those of that object.
    """
    if statement.source and not isinstance(request.input, JsonInput):
        raise failure(SelectCode.DATA_SOURCE_PATH_UNSUPPORTED, "a path after FROM requires JSON")
    match request.input:
        case CsvInput():
            return open_csv(
                source, request.input, request.compression, request.scan_range, meter, _as(CsvRelation, like)
            )
        case JsonInput():
            first = _as(JsonRelation, like)
            return open_json(
                source, request.input, statement.source, request.compression, request.scan_range, meter, first
            )
        case ParquetInput():
            return open_parquet(source, request.scan_range, meter, _as(ArrowRelation, like))
        case ArrowInput():
            return open_arrow(source, meter, _as(ArrowRelation, like))
        case AvroInput():
            return open_avro(source, meter, _as(JsonRelation, like))


def _as(kind: type[_R], like: Relation | None) -> _R | None:
    assert like is None or isinstance(like, kind)  # noqa: S101  # a format always has the same kind of relation
    return like
