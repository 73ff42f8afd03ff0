"""Partition transforms as functions on values: bucket, truncate, year, month, day, hour.

Arguments and results are in the form of `values`. All transforms return null for null, so null is not handled here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from lakebed.core.murmur3 import murmur3_32

from .temporal import DAY_NANOS, civil_of
from .transforms import IDENTITY, Transform
from .types import PrimitiveType, parse_primitive
from .values import NANOS, Value

__all__ = ["TIME_UNITS", "TransformFunction", "function_of", "preserves_order", "result_type", "width_of"]

TransformFunction: TypeAlias = Callable[[Value], Value]

TIME_UNITS: Final = frozenset({"year", "month", "day", "hour"})

_HOUR_NANOS: Final = DAY_NANOS // 24
_INT: Final = parse_primitive("int")
_DATE: Final = parse_primitive("date")
_WHOLE_NUMBERS: Final = frozenset({"int", "long", "date", "time", "timestamp", "timestamptz"})
_NANOSECONDS: Final = frozenset({"timestamp_ns", "timestamptz_ns"})


def width_of(transform: Transform) -> int:
    """The parameter of a bucket or truncate transform."""
    return int(transform.text[transform.text.index("[") + 1 : -1])


def preserves_order(transform: Transform) -> bool:
    """Whether it is order-preserving: a greater value has no lesser result."""
    return transform.family in TIME_UNITS or transform.family in (IDENTITY, "truncate")


def result_type(transform: Transform, source: PrimitiveType) -> PrimitiveType:
    """The type of the results. A `day` is a number of days, written as a date."""
    if transform.family == "day":
        return _DATE
    if transform.family == "bucket" or transform.family in TIME_UNITS:
        return _INT
    return source


def function_of(transform: Transform, source: PrimitiveType) -> TransformFunction | None:
    """The transform for a type; None if it is unknown, or does not support the type."""
    if not transform.accepts(source.name):
        return None
    if transform.family == IDENTITY:
        return lambda value: value
    if transform.family == "bucket":
        return _bucket(source.name, width_of(transform))
    if transform.family == "truncate":
        return _truncate(source.name, width_of(transform))
    if transform.family in TIME_UNITS:
        return _count_units(transform.family, NANOS[source.name])
    return None


def _truncate(source: str, width: int) -> TransformFunction:
    if source in ("string", "binary"):
        return lambda value: value[:width] if isinstance(value, str | bytes) else value
    return lambda value: value - value % width if isinstance(value, int) else value


def _count_units(family: str, unit_nanos: int) -> TransformFunction:
    """Time units since 1970, rounded down, also before 1970."""
    nanos = _HOUR_NANOS if family == "hour" else DAY_NANOS
    per_unit = nanos // unit_nanos

    def whole_units(value: Value) -> Value:
        return int(value) // per_unit

    def months(value: Value) -> Value:
        year, month, _ = civil_of(int(value) // per_unit)
        return (year - 1970) * 12 + month - 1

    def years(value: Value) -> Value:
        return civil_of(int(value) // per_unit)[0] - 1970

    return {"year": years, "month": months}.get(family, whole_units)


def _bucket(source: str, count: int) -> TransformFunction:
    as_bytes = _hashed_bytes(source)
    return lambda value: (murmur3_32(as_bytes(value)) & 0x7FFFFFFF) % count


def _hashed_bytes(source: str) -> Callable[[Value], bytes]:
    if source in _WHOLE_NUMBERS:
        # An int is hashed as a long, because columns can be widened.
        return lambda value: struct.pack("<q", value)
    if source in _NANOSECONDS:
        return lambda value: struct.pack("<q", int(value) // 1000)
    if source == "decimal":
        return lambda value: _shortest(int(value))
    return lambda value: value if isinstance(value, bytes) else str(value).encode()


def _shortest(number: int) -> bytes:
    """Two's complement in the minimum number of bytes."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
