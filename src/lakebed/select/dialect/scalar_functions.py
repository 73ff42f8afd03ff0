"""Scalar functions that DataFusion lacks or defines differently, in Python over Arrow columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakebed.core.errors import LakebedError

from . import timestamp_patterns
from .timestamps import DatePart, Precision, Timestamp, add, difference, extract, parse_timestamp

if TYPE_CHECKING:
    import datafusion
    import pyarrow as pa

RecordError = Callable[[LakebedError], None]
"""Records the error of a function: DataFusion passes on only its text."""

_parse = lru_cache(maxsize=4096)(parse_timestamp)


def register_functions(context: datafusion.SessionContext, record_error: RecordError) -> None:
    """Register the functions in a session."""
    import datafusion
    import pyarrow as pa

    text, number, boolean = pa.string(), pa.int64(), pa.bool_()

    def register(name: str, row: Callable[..., object], arguments: list[pa.DataType], result: pa.DataType) -> None:
        def over_columns(*columns: pa.Array) -> pa.Array:
            try:
                return pa.array(
                    [
                        None if any(value is None for value in values) else row(*values)
                        for values in zip(*(column.to_pylist() for column in columns), strict=True)
                    ],
                    result,
                )
            except LakebedError as error:
                record_error(error)
                raise

        context.register_udf(datafusion.udf(over_columns, arguments, result, "immutable", name))

    register("s3_timestamp", lambda value: str(_parse(value)), [text], text)
    register("s3_instant", lambda value: _parse(value).instant, [text], number)
    register("s3_from_instant", _from_instant, [number], text)
    register("s3_extract", lambda part, value: extract(DatePart(part), _parse(value)), [text, text], number)
    register(
        "s3_date_add",
        lambda part, count, value: str(add(DatePart(part), count, _parse(value))),
        [text, number, text],
        text,
    )
    register(
        "s3_date_diff",
        lambda part, first, last: difference(DatePart(part), _parse(first), _parse(last)),
        [text, text, text],
        number,
    )
    register(
        "s3_to_string", lambda value, pattern: timestamp_patterns.write(_parse(value), pattern), [text, text], text
    )
    register(
        "s3_read_timestamp", lambda value, pattern: str(timestamp_patterns.read(value, pattern)), [text, text], text
    )
    context.register_udf(datafusion.udf(_holds, [boolean], boolean, "immutable", "s3_holds"))


def _holds(condition: Any) -> Any:  # an Arrow column, returned unchanged
    return condition


def _from_instant(microseconds: int) -> str:
    moment = parse_timestamp("1970-01-01T00:00:00Z")
    seconds, rest = divmod(microseconds, 1_000_000)
    moved = add(DatePart.SECOND, seconds, moment)
    fraction = f"{rest:06}".rstrip("0")
    return str(
        Timestamp(
            moved.year,
            moved.month,
            moved.day,
            moved.hour,
            moved.minute,
            moved.second,
            fraction,
            0,
            Precision.SECOND,
        )
    )
