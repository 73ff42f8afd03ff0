"""Converts literals of an expression to values of the compared column's type.

Clients send single values as JSON text, but also plain numbers for dates and timestamps, because engines push filters
down in their own units. A number beyond the column's range becomes `OutOfRange`, because the result of its comparison
is known.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Final
from uuid import UUID

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.types import PrimitiveType, parse_primitive

from ..temporal import DAY_NANOS, parse_date, parse_time, parse_timestamp
from ..values import FLOATING, INT_BOUNDS, NANOS, Value, unscaled
from .unbound import Literal

__all__ = ["OutOfRange", "TypedLiteral", "convert_literal"]


class OutOfRange(Enum):
    """A number outside the range of a column."""

    ABOVE = "above"
    BELOW = "below"


TypedLiteral = Value | OutOfRange

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,100}(?:\.\d{0,100})?|\.\d{1,100})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_WHOLE: Final = frozenset({"int", "long"})
_LONG: Final = parse_primitive("long")
_INFINITIES: Final = {"Infinity": math.inf, "-Infinity": -math.inf}
_NOT_A_VALUE: Final = "literal is not a value of its column"


def convert_literal(literal: Literal, kind: PrimitiveType) -> TypedLiteral:
    """Convert a literal to a value of the type. Raises InvalidInput if that is not possible."""
    stated = literal.kind
    if stated is None or stated.name == kind.name:
        return _read(literal.value, kind)
    # A literal with its own type is converted only without loss.
    value = _read(literal.value, stated)
    if isinstance(value, OutOfRange):
        raise _refused(literal.value, stated)
    if stated.name in _WHOLE and type(value) is int:
        return _read(value, kind)
    if stated.name in FLOATING and kind.name in FLOATING:
        return _read(value, kind)
    if stated.name == "decimal" and kind.name in FLOATING:
        return _read(float(literal.value), kind)
    if stated.name in NANOS and kind.name in NANOS and _agree_on_zone(stated.name, kind.name):
        return _in_unit(int(value) * NANOS[stated.name], kind, literal.value)
    if stated.name == "string" and isinstance(value, str):
        return _read(value, kind)
    if isinstance(value, bytes) and kind.name in ("fixed", "binary", "uuid"):
        return _sized(value, kind)
    raise _refused(literal.value, kind)


def _agree_on_zone(one: str, other: str) -> bool:
    zoned = [name.startswith("timestamptz") for name in (one, other)]
    return zoned[0] == zoned[1] and "time" not in (one, other)


def _read(value: object, kind: PrimitiveType) -> TypedLiteral:
    reader = _READERS.get(kind.name)
    if reader is None:
        raise InvalidInput(f"values of this type cannot be compared. type={kind.name}", argument="filter")
    try:
        return reader(value, kind)
    except (ValueError, InvalidOperation) as error:
        raise _refused(value, kind, str(error)) from error


def _read_boolean(value: object, kind: PrimitiveType) -> TypedLiteral:
    if not isinstance(value, bool):
        raise _refused(value, kind)
    return value


def _read_whole(value: object, kind: PrimitiveType) -> TypedLiteral:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused(value, kind)
    return _within(value, kind)


def _read_float(value: object, kind: PrimitiveType) -> TypedLiteral:
    if isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(value, kind)
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if math.isnan(number):
        raise _refused(value, kind, "use is-nan")
    if kind.name == "double":
        return number
    try:
        # The shortest text of a float names it: 0.1 means the float nearest to 0.1.
        (nearest,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return number
    return float(nearest)


def _read_decimal(value: object, kind: PrimitiveType) -> TypedLiteral:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _refused(value, kind)
    text = repr(value) if isinstance(value, float) else str(value)
    if not _DECIMAL.fullmatch(text):
        raise _refused(value, kind)
    return _within(unscaled(Decimal(text), kind.scale), kind)


def _read_time(parse: Callable[[str], int]) -> Callable[[object, PrimitiveType], TypedLiteral]:
    def read(value: object, kind: PrimitiveType) -> TypedLiteral:
        if isinstance(value, str):
            return _in_unit(parse(value) * (DAY_NANOS if kind.name == "date" else 1), kind, value)
        if not kind.name.endswith("_ns"):
            return _read_whole(value, kind)
        # Plain numbers are microseconds, for nanosecond columns too.
        micros = _read_whole(value, _LONG)
        return micros if isinstance(micros, OutOfRange) else _within(int(micros) * 1000, kind)

    return read


def _read_string(value: object, kind: PrimitiveType) -> TypedLiteral:
    if not isinstance(value, str):
        raise _refused(value, kind)
    value.encode()  # an unpaired surrogate is not valid text
    return value


def _read_uuid(value: object, kind: PrimitiveType) -> TypedLiteral:
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise _refused(value, kind)
    return UUID(value).bytes


def _read_bytes(value: object, kind: PrimitiveType) -> TypedLiteral:
    if not isinstance(value, str) or not value.isascii() or not (value == "" or value.isalnum()):
        raise _refused(value, kind, "expected hexadecimal digits")
    return _sized(bytes.fromhex(value), kind)


def _sized(value: bytes, kind: PrimitiveType) -> Value:
    expected = 16 if kind.name == "uuid" else kind.length if kind.name == "fixed" else len(value)
    if len(value) != expected:
        raise _refused(value.hex(), kind)
    return value


def _in_unit(nanos: int, kind: PrimitiveType, written: object) -> TypedLiteral:
    count, rest = divmod(nanos, NANOS[kind.name])
    if rest:
        raise _refused(written, kind, "more precise than the column")
    return _within(count, kind)


def _within(value: int, kind: PrimitiveType) -> TypedLiteral:
    least, greatest = INT_BOUNDS[kind.name]
    return OutOfRange.BELOW if value < least else OutOfRange.ABOVE if value > greatest else value


def _refused(value: object, kind: PrimitiveType, reason: str = "") -> InvalidInput:
    because = f": {reason}" if reason else ""
    return InvalidInput(f"{_NOT_A_VALUE}{because}. type={kind.name} value={value!r:.80}", argument="filter")


_READERS: Final[dict[str, Callable[[object, PrimitiveType], TypedLiteral]]] = {
    "boolean": _read_boolean,
    "int": _read_whole,
    "long": _read_whole,
    "float": _read_float,
    "double": _read_float,
    "decimal": _read_decimal,
    "date": _read_time(parse_date),
    "time": _read_time(parse_time),
    "timestamp": _read_time(lambda text: parse_timestamp(text, zoned=False)),
    "timestamptz": _read_time(lambda text: parse_timestamp(text, zoned=True)),
    "timestamp_ns": _read_time(lambda text: parse_timestamp(text, zoned=False)),
    "timestamptz_ns": _read_time(lambda text: parse_timestamp(text, zoned=True)),
    "string": _read_string,
    "uuid": _read_uuid,
    "fixed": _read_bytes,
    "binary": _read_bytes,
}
