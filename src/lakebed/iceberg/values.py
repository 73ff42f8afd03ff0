"""Single values of columns: comparable values, bounds in manifests, and JSON.

Planning has one form for the values of each type, so that comparing and truncating need no case by type. Numbers,
dates, times and timestamps are ints in the type's unit, decimals are unscaled ints, uuids and fixed are bytes; boolean,
string, binary, float and double are Python's types. Python orders all of them as Iceberg does, except uuids, see
`ranges`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeAlias
from uuid import UUID

from lakebed.core.errors import InvalidInput

from .manifests import PartitionValue
from .temporal import DAY_NANOS, format_date, format_time, format_timestamp
from .types import PrimitiveType

__all__ = ["FLOATING", "INT_BOUNDS", "NANOS", "Value", "canonical", "decode_bound", "is_nan", "to_json", "unscaled"]

Value: TypeAlias = bool | int | float | str | bytes

FLOATING: Final = frozenset({"float", "double"})

NANOS: Final = {
    "date": DAY_NANOS,
    "time": 1000,
    "timestamp": 1000,
    "timestamptz": 1000,
    "timestamp_ns": 1,
    "timestamptz_ns": 1,
}
"""The unit of each time type, in nanoseconds."""

_INT: Final = (-(2**31), 2**31 - 1)
_LONG: Final = (-(2**63), 2**63 - 1)
INT_BOUNDS: Final = {
    **dict.fromkeys(NANOS, _LONG),
    "int": _INT,
    "long": _LONG,
    "date": _INT,
    "time": (0, DAY_NANOS // NANOS["time"] - 1),
    "decimal": (1 - 10**38, 10**38 - 1),
}
"""The range of types whose values are ints in planning."""


def is_nan(value: Value | None) -> bool:
    """Whether it is a floating-point NaN."""
    return isinstance(value, float) and math.isnan(value)


def canonical(kind: PrimitiveType | None, stored: PartitionValue) -> Value | None:
    """A partition value in planning's form. Raises InvalidInput for a decimal with another scale than its column's.

    Without a type, for partitions of a dropped column, the form only supports serialization.
    """
    if isinstance(stored, UUID):
        return stored.bytes if kind is not None else str(stored)
    if isinstance(stored, Decimal):
        return unscaled(stored, kind.scale) if kind is not None else format(stored, "f")
    return stored


def unscaled(number: Decimal, scale: int) -> int:
    """A decimal as an unscaled int. Raises InvalidInput if it has more digits than its scale."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInput(f"not a finite decimal. value={number}")
    whole: int = int("".join(map(str, digits)))
    power = exponent + scale
    if power < 0:
        whole, rest = divmod(whole, 10**-power)
        if rest:
            raise InvalidInput(
                f"decimal has more digits after the point than the scale of its column. value={number} scale={scale}"
            )
    else:
        whole *= 10**power
    return -whole if sign else whole


def decode_bound(kind: PrimitiveType, data: bytes) -> Value:
    """Decode a single-value serialized bound. Raises ValueError for bytes that do not match the type.

    Columns may have been widened since: shorter bytes are of the type before.
    """
    decode = _DECODERS.get(kind.name)
    if decode is None:
        raise ValueError(f"bounds of this type cannot be compared. type={kind.name}")
    try:
        return decode(data)
    except struct.error as error:
        raise ValueError(f"not the bytes of a value. type={kind.name} length={len(data)}") from error


def to_json(kind: PrimitiveType | None, value: Value | None) -> object:
    """A value as JSON single-value serialization; None is null."""
    if kind is not None and value is not None and (write := _WRITERS.get(kind.name)) is not None:
        return write(kind, value)
    return value.hex().upper() if isinstance(value, bytes) else value


def _decode_int(data: bytes) -> int:
    (value,) = struct.unpack("<i", data)
    return int(value)


def _decode_long(data: bytes) -> int:
    (value,) = struct.unpack("<i" if len(data) == 4 else "<q", data)
    return int(value)


def _decode_float(data: bytes) -> float:
    (value,) = struct.unpack("<f", data)
    return float(value)


def _decode_double(data: bytes) -> float:
    (value,) = struct.unpack("<f" if len(data) == 4 else "<d", data)
    return float(value)


def _decode_boolean(data: bytes) -> bool:
    if len(data) != 1:
        raise ValueError(f"not the bytes of a value. type=boolean length={len(data)}")
    return data != b"\x00"


def _decode_decimal(data: bytes) -> int:
    if not data:
        raise ValueError("not the bytes of a value. type=decimal length=0")
    return int.from_bytes(data, "big", signed=True)


def _decode_uuid(data: bytes) -> bytes:
    if len(data) != 16:
        raise ValueError(f"not the bytes of a value. type=uuid length={len(data)}")
    return data


def _decode_since_epoch(unit_nanos: int) -> Callable[[bytes], int]:
    def decode(data: bytes) -> int:
        value = _decode_long(data)
        # Four bytes are a date from before the column was promoted.
        return value * (DAY_NANOS // unit_nanos) if len(data) == 4 else value

    return decode


_DECODERS: Final[dict[str, Callable[[bytes], Value]]] = {
    "boolean": _decode_boolean,
    "int": _decode_int,
    "long": _decode_long,
    "float": _decode_float,
    "double": _decode_double,
    "decimal": _decode_decimal,
    "date": _decode_int,
    "time": _decode_long,
    "timestamp": _decode_since_epoch(NANOS["timestamp"]),
    "timestamptz": _decode_since_epoch(NANOS["timestamptz"]),
    "timestamp_ns": _decode_since_epoch(NANOS["timestamp_ns"]),
    "timestamptz_ns": _decode_since_epoch(NANOS["timestamptz_ns"]),
    "string": bytes.decode,
    "uuid": _decode_uuid,
    "fixed": bytes,
    "binary": bytes,
}


def _write_float(_: PrimitiveType, value: Value) -> object:
    # JSON has no numbers for these; readers accept the words.
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _write_decimal(kind: PrimitiveType, value: Value) -> object:
    digits = str(abs(int(value))).rjust(kind.scale + 1, "0")
    text = f"{digits[: -kind.scale]}.{digits[-kind.scale :]}" if kind.scale else digits
    return f"-{text}" if int(value) < 0 else text


def _write_timestamp(digits: int, offset: str) -> Callable[[PrimitiveType, Value], object]:
    return lambda kind, value: format_timestamp(int(value) * NANOS[kind.name], digits) + offset


_WRITERS: Final[dict[str, Callable[[PrimitiveType, Value], object]]] = {
    "float": _write_float,
    "double": _write_float,
    "decimal": _write_decimal,
    "date": lambda _, value: format_date(int(value)),
    "time": lambda _, value: format_time(int(value) * NANOS["time"], 6),
    "timestamp": _write_timestamp(6, ""),
    "timestamptz": _write_timestamp(6, "+00:00"),
    "timestamp_ns": _write_timestamp(9, ""),
    "timestamptz_ns": _write_timestamp(9, "+00:00"),
    "uuid": lambda _, value: str(UUID(bytes=value)) if isinstance(value, bytes) else value,
}
