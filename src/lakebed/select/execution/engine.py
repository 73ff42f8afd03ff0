"""Runs one query on DataFusion: in a session that nobody else uses meanwhile, within limits."""

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

_TOLD: Final[tuple[tuple[str, SelectCode, str], ...]] = (
    (r"Divide by zero|DivideByZero", SelectCode.EVALUATOR_INVALID_ARGUMENTS, "a number is divided by zero"),
    (
        r"out of range|verflow|too large to fit|Invalid argument error: \d+ is too large to store in a Decimal",
        SelectCode.INTEGER_OVERFLOW,
        "a number is out of range",
    ),
    (r"Cannot cast|Cast error|[Cc]ast|Parser error", SelectCode.CAST_FAILED, "a value cannot be cast"),
    (
        r"negative substring length",
        SelectCode.EVALUATOR_INVALID_ARGUMENTS,
        "SUBSTRING takes a length that is not negative",
    ),
    (
        r"must appear in the GROUP BY|could not be resolved from available columns|not.*GROUP BY",
        SelectCode.UNSUPPORTED_SQL_STRUCTURE,
        "what is selected is neither grouped by nor a sum",
    ),
    (
        r"For SELECT DISTINCT",
        SelectCode.UNSUPPORTED_SQL_STRUCTURE,
        "records that differ are sorted by what is selected of them",
    ),
    (r"recursion limit", SelectCode.MAX_OPERATORS_EXCEEDED, "the expression is nested too deeply"),
    (r"This feature is not implemented", SelectCode.UNSUPPORTED_SQL_OPERATION, "the operation is not supported"),
    (
        r"Error during planning|type_coercion|coerce|No function matches",
        SelectCode.INCORRECT_SQL_FUNCTION_ARGUMENT_TYPE,
        "an operation is not for values of this type",
    ),
)
"""What DataFusion says, and what S3 says to it. What it says in full stays here: it speaks of SQL that nobody wrote."""

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
    """A query that was planned. Its records are taken, or it is stopped."""

    def __init__(self, writer: Writer, scan: Scan, stream: Any, running: _Running, *, is_small: bool = False) -> None:
        self.writer = writer
        self.is_small = is_small
        """Whether it is over sooner than threads are changed: `gather` is the way to its records."""
        self.has_ended = False
        """Whether the last batch was taken."""
        self._scan = scan
        self._stream = stream
        self._running = running

    async def next_batch(self) -> pa.RecordBatch | None:
        """The next batch of the result, or None after the last. Raises what `explain` makes of it."""
        try:
            batch = await self._stream.__anext__()
        except StopAsyncIteration:
            self.has_ended = True
            return None
        except Exception as error:
            raise explain(error, self._running.noted) from error
        return batch.to_pyarrow()

    def gather(self) -> bytes:
        """The next records as bytes: as many as are sent at once, fewer only at the end, none after it. Blocks.

        Raises as `next_batch` does.
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
                raise explain(error, self._running.noted) from error
            else:
                gathered.append(self.writer.write(batch))
        return b"".join(gathered)

    def stop(self) -> None:
        """End the query, if it has not ended. What it holds is free once nobody awaits a batch of it any more."""
        self._scan.stop()
        self._stream = None
        running, self._running = self._running, _Running([])
        if self.has_ended:
            running.give_back()


class _Running(NamedTuple):
    """What a query runs by."""

    noted: list[LakebedError]
    """What went wrong, in our words."""
    give_back: Callable[[], None] = lambda: None
    """Called when it came to its end."""


def plan(
    source: ObjectBytes,
    request: SelectRequest,
    limits: SelectLimits,
    meter: Meter,
    now: datetime,
    spill: Path | None,
    plan_cache: PlanCache | None = None,
) -> Execution:
    """Plan a query. Blocks: the beginning of the object is read. Raises SelectError.

    Without `spill` nothing of the object goes to disk, and a query that does not fit into memory ends.
    """
    check_request(request)
    statement = read_statement(request.expression)
    relation, scan = open_input(source, request, statement, meter)
    is_small = _is_small(source, request)
    return plan_over(
        statement, relation, scan, request.output, limits, now, spill, plan_cache=plan_cache, is_small=is_small
    )


def _is_small(source: ObjectBytes, request: SelectRequest) -> bool:
    """Whether there is little to read, and little when it is read: what is packed may be many times as much."""
    return (
        source.size <= _SMALL_BYTES
        and request.compression is Compression.NONE
        and isinstance(request.input, CsvInput | JsonInput)
    )


def plan_objects(
    supply: ObjectSupply, request: SelectRequest, limits: SelectLimits, meter: Meter, now: datetime
) -> Execution:
    """Plan a query over all objects of a supply. Blocks, as `plan` does. Raises NoSuchKey where there is none.

    Nothing of them goes to disk: some may be sealed.
    """
    check_request(request)
    if request.scan_range is not None:
        raise failure(SelectCode.UNSUPPORTED_SCAN_RANGE_INPUT, "a scan range is of one object")
    statement = read_statement(request.expression)
    first = supply.take()
    if first is None:
        raise NoSuchKey("no object here has anything in it")
    try:
        relation, scan = open_input(first.source, _of(request, first.key), statement, meter)

        def follow(each: OpenedObject) -> Scan:
            return open_input(each.source, _of(request, each.key), statement, meter, relation)[1]

        many = MultiObjectScan(first, scan, supply, follow)
        return plan_over(statement, relation, many, request.output, limits, now, None)
    except BaseException:
        first.source.close()
        raise


def _of(request: SelectRequest, key: str) -> SelectRequest:
    """The request as it is for one of many objects: some may be compressed, and say so by their names."""
    named = _ENDINGS.get(key.rpartition(".")[2].lower())
    if (
        named is None
        or request.compression is not Compression.NONE
        or not isinstance(request.input, CsvInput | JsonInput)
    ):
        return request
    return replace(request, compression=named)


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
    """Plan a query over records that are there to be scanned, by a kept plan if there is one. Raises SelectError."""
    query = build_query(statement, relation, now, named=isinstance(output, JsonOutput))
    threads = 1 if is_small else limits.partitions or os.cpu_count() or 1
    noted: list[LakebedError] = []
    try:
        if plan_cache is not None and is_cacheable(query, threads):
            key = PlanKey(query.sql, scan.schema)
            prepared = plan_cache.take(key) or PreparedPlan(key, limits, noted)
            noted = prepared.noted
            stream = prepared.run(scan, threads)
            running = _Running(noted, lambda: plan_cache.put(prepared))
        else:
            context = open_session(limits, 1 if query.in_order else threads, spill)
            register_functions(context, noted.append)
            context.register_dataset(TABLE, ScanDataset(scan, threads, noted.append, in_order=query.in_order))
            stream = plan_sql(context, query.sql).execute_stream()
            running = _Running(noted)
    except LakebedError:
        raise
    except Exception as error:
        raise explain(error, noted) from error
    return Execution(open_writer(output, query.outputs), scan, stream, running, is_small=is_small)


def explain(error: Exception, noted: list[LakebedError]) -> Exception:
    """An error that came out of DataFusion: the one of ours that went in, or one of ours for its own."""
    if noted:
        return noted[0]
    if isinstance(error, LakebedError):
        return error
    said = str(error)
    if "Resources exhausted" in said or "ResourcesExhausted" in said:
        return Unavailable("the query takes more memory than it may; select less, or fewer groups")
    for pattern, code, message in _TOLD:
        if re.search(pattern, said):
            return failure(code, message)
    return error


def open_input(
    source: ObjectBytes, request: SelectRequest, statement: SelectStatement, meter: Meter, like: Relation | None = None
) -> tuple[Relation, Scan]:
    """The records of an object. Blocks: it reads as much of it as tells what is in there. Raises SelectError.

    With `like`, the columns are those of another object, of the same format, which this one follows.
    """
    if statement.source and not isinstance(request.input, JsonInput):
        raise failure(SelectCode.DATA_SOURCE_PATH_UNSUPPORTED, "a path after FROM is for JSON")
    match request.input:
        case CsvInput():
            return open_csv(
                source, request.input, request.compression, request.scan_range, meter, _as(CsvRelation, like)
            )
        case JsonInput():
            alike = _as(JsonRelation, like)
            return open_json(
                source, request.input, statement.source, request.compression, request.scan_range, meter, alike
            )
        case ParquetInput():
            return open_parquet(source, request.scan_range, meter, _as(ArrowRelation, like))
        case ArrowInput():
            return open_arrow(source, meter, _as(ArrowRelation, like))
        case AvroInput():
            return open_avro(source, meter, _as(JsonRelation, like))


def _as(kind: type[_R], like: Relation | None) -> _R | None:
    assert like is None or isinstance(like, kind)  # noqa: S101  # of one format there is one kind of relation
    return like
