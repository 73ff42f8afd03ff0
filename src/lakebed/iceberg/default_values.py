"""Default values of columns, in the JSON serialization of single values.

A default that an engine cannot parse makes the whole table unreadable to it, so every default is validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal, InvalidOperation
from typing import Final

from lakebed.core.errors import InvalidInput

from .types import ListType, MapType, NestedType, PrimitiveType, parse_primitive

__all__ = ["check_default"]

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME: Final = re.compile(r"(\d{2}:\d{2}(?::\d{2})?)(?:\.\d{1,9})?")
_UTC: Final = re.compile(r"(?:Z|[+-]00:00)$")


def check_default(kind: str | NestedType, value: object, column: str, role: str) -> None:
    """Raise InvalidInput for a value that does not match the type. None means no default, and is always valid."""
    if value is not None and not _fits(kind, value, within=False):
        name = kind if isinstance(kind, str) else type(kind).__name__.removesuffix("Type").lower()
        raise InvalidInput(f"{role} of column {column} is not a value of its type. type={name} value={value!r}")


def _fits(kind: str | NestedType, value: object, *, within: bool) -> bool:
    if isinstance(kind, str):
        primitive = parse_primitive(kind)
        check = _CHECKS.get(primitive.name)
        return check is not None and check(primitive, value)
    if isinstance(kind, ListType):
        return isinstance(value, list) and all(_may_hold(kind.element, kind.element_required, one) for one in value)
    if isinstance(kind, MapType):
        if not isinstance(value, dict) or value.keys() != {"keys", "values"}:
            return False
        keys, values = value["keys"], value["values"]
        return (
            isinstance(keys, list)
            and isinstance(values, list)
            and len(keys) == len(values)
            and all(_may_hold(kind.key, True, one) for one in keys)
            and all(_may_hold(kind.value, kind.value_required, one) for one in values)
        )
    if not isinstance(value, dict):
        return False
    if not within:
        # Fields of a struct have their own defaults; the struct's default is only null or an empty object.
        return not value
    fields = {str(field.id): field for field in kind.fields}
    return value.keys() <= fields.keys() and all(
        _may_hold(field.type, field.required, value.get(key)) for key, field in fields.items()
    )


def _may_hold(kind: str | NestedType, required: bool, value: object) -> bool:
    return not required if value is None else _fits(kind, value, within=True)


def _is_whole(bits: int) -> Callable[[PrimitiveType, object], bool]:
    def check(_: PrimitiveType, value: object) -> bool:
        return type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)

    return check


def _is_decimal(primitive: PrimitiveType, value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        number = Decimal(value)
    except InvalidOperation:
        return False
    return number.is_finite() and number.as_tuple().exponent == -primitive.scale


def _is_date(value: object) -> bool:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_time(value: object) -> bool:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return False
    try:
        time.fromisoformat(found[1])
    except ValueError:
        return False
    return True


def _is_timestamp(value: object) -> bool:
    if not isinstance(value, str):
        return False
    day, separator, clock = value.partition("T")
    return bool(separator) and _is_date(day) and _is_time(clock)


def _is_instant(value: object) -> bool:
    if not isinstance(value, str):
        return False
    zone = _UTC.search(value)
    return zone is not None and _is_timestamp(value[: zone.start()])


def _is_hex(value: object, length: int | None = None) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None and (length is None or len(value) == 2 * length)


_CHECKS: Final[dict[str, Callable[[PrimitiveType, object], bool]]] = {
    "boolean": lambda _, value: isinstance(value, bool),
    "int": _is_whole(32),
    "long": _is_whole(64),
    "float": lambda _, value: type(value) in (int, float),
    "double": lambda _, value: type(value) in (int, float),
    "decimal": _is_decimal,
    "date": lambda _, value: _is_date(value),
    "time": lambda _, value: _is_time(value),
    "timestamp": lambda _, value: _is_timestamp(value),
    "timestamptz": lambda _, value: _is_instant(value),
    "timestamp_ns": lambda _, value: _is_timestamp(value),
    "timestamptz_ns": lambda _, value: _is_instant(value),
    "string": lambda _, value: isinstance(value, str),
    "uuid": lambda _, value: isinstance(value, str) and _UUID.fullmatch(value) is not None,
    "fixed": lambda primitive, value: _is_hex(value, primitive.length),
    "binary": lambda _, value: _is_hex(value),
}
"""Types without an entry (`unknown`, `variant`, `geometry`, `geography`) only have the default null."""
