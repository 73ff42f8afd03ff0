"""Rows of stream tables as lines of JSON: an object a row, days and times as text, as `tail` prints them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.json

from lakebed.core.errors import InvalidInput


def read_rows(lines: bytes, schema: pa.Schema, *, is_whole: bool) -> Iterator[pa.RecordBatch]:
    """The rows of lines, which have no other columns if they are whole. Raises InvalidInput."""
    # The reader takes days and times of day for numbers; people write them as text, and so does `tail`.
    read_as = pa.schema([field.with_type(pa.string()) if _is_text(field.type) else field for field in schema])
    options = pyarrow.json.ParseOptions(
        explicit_schema=read_as, unexpected_field_behavior="error" if is_whole else "ignore"
    )
    try:
        found = pyarrow.json.read_json(pa.BufferReader(lines), parse_options=options)
        columns = [_typed(found.column(field.name), field.type) for field in schema]
        yield from pa.table(columns, schema=schema).combine_chunks().to_batches()
    except (ValueError, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"a row is a JSON object of the table's columns on a line. reason={reason}") from error


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) or pa.types.is_time(type_))


def _typed(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_time(type_):
        return column.cast(type_)
    times = [None if said is None else datetime.time.fromisoformat(said) for said in column.to_pylist()]
    return pa.chunked_array([pa.array(times, type_)])
