"""Query parameters of the admin API. Unknown and repeated parameters are refused."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeVar

from lakebed.core.errors import InvalidInput
from lakebed.wire.http.message import Request, decode_component

E = TypeVar("E", bound=StrEnum)

MAX_WAIT_SECONDS: Final = 30.0
"""Longest wait of a request for new events or tasks: well below the timeouts of proxies."""

MAX_PAGE: Final = 1000
DEFAULT_PAGE: Final = 100

_INT64: Final = (1 << 63) - 1
_MAX_DIGITS: Final = 19


def check_parameters(request: Request, known: Sequence[str], *, repeatable: Sequence[str] = ()) -> None:
    """Raise InvalidInput for an unknown parameter, and for a repeated one that is not `repeatable`."""
    seen: set[str] = set()
    for pair in request.raw_query.split("&"):
        name = decode_component(pair.partition("=")[0])
        if not name or name.startswith("X-Amz-"):
            continue
        if name not in known:
            expected = ", ".join(known) or "none"
            raise InvalidInput(f"unknown parameter: {name}. expected={expected}", argument=name)
        if name in seen and name not in repeatable:
            raise InvalidInput(f"{name} is given more than once", argument=name)
        seen.add(name)


def all_values(request: Request, name: str) -> list[str]:
    """The values of a parameter that may be given more than once. Raises InvalidInput."""
    pairs = (pair.partition("=") for pair in request.raw_query.split("&"))
    return [decode_component(value) for key, _, value in pairs if decode_component(key) == name]


def number_parameter(request: Request, name: str, default: int, *, least: int = 0, most: int = _INT64) -> int:
    """A parameter that is a whole number within bounds. Raises InvalidInput."""
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS) or not least <= int(text) <= most:
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}", argument=name, value=text[:80])
    return int(text)


def wait_seconds(request: Request) -> float:
    """How long the response may wait for new events or tasks; 0 by default. Raises InvalidInput."""
    text = request.query.get("wait-seconds")
    if text is None:
        return 0.0
    digits = text.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit() and len(text) <= _MAX_DIGITS) or float(text) > MAX_WAIT_SECONDS:
        raise InvalidInput(
            f"wait-seconds must be a number from 0 to {MAX_WAIT_SECONDS:g}", argument="wait-seconds", value=text[:80]
        )
    return float(text)


def choice_parameter(request: Request, name: str, kind: type[E]) -> E | None:
    """A parameter with one of a few values; None if absent. Raises InvalidInput."""
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        raise InvalidInput(f"{name} must be one of {', '.join(kind)}", argument=name, value=text[:80]) from None
