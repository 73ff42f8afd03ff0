"""Sizes and durations with units: `8MiB`, `15s`, `1h30m`.

A bare number is bytes or seconds. Formatting returns the shortest text that parses to the same value.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from .errors import InvalidInput

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
TIB: Final = 1024 * GIB

_BYTE_UNITS: Final = {
    "": 1,
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
}
_SECOND_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

_NUMBER: Final = r"[0-9]{1,15}(?:\.[0-9]{1,20})?"
_LEAST_TOO_LONG: Final = 10**15
"""One digit more than the parser accepts."""
_BYTES: Final = re.compile(rf"({_NUMBER}) ?([a-z]{{0,3}})", re.IGNORECASE)
_SECONDS: Final = re.compile("".join(rf"(?:({_NUMBER}){unit})?" for unit in ("d", "h", "m", "s", "ms")))


def parse_bytes(text: str) -> int:
    """Bytes of `64KiB`, `1.5GiB`, `10MB` (powers of 1000) or `512`. Raises InvalidInput."""
    match = _BYTES.fullmatch(text.strip())
    unit = _BYTE_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InvalidInput(f"expected a size such as 8MiB. found={text[:40]!r}")
    size = Decimal(match[1]) * unit
    if size != int(size):
        raise InvalidInput(f"expected a size of whole bytes. found={text[:40]!r}")
    return int(size)


def format_bytes(size: int) -> str:
    """The size in the largest binary unit that divides it."""
    for name, unit in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def parse_seconds(text: str) -> float:
    """Seconds of `250ms`, `15s`, `1h30m`, `7d` or `2.5`. Raises InvalidInput."""
    trimmed = text.strip()
    if re.fullmatch(_NUMBER, trimmed):
        return float(trimmed)
    match = _SECONDS.fullmatch(trimmed)
    if match is None or not trimmed:
        raise InvalidInput(f"expected a duration such as 15s. found={text[:40]!r}")
    factors = (*(Decimal(unit) for unit in _SECOND_UNITS.values()), Decimal("0.001"))
    return float(sum(Decimal(group) * factor for group, factor in zip(match.groups(), factors, strict=True) if group))


def format_seconds(seconds: float) -> str:
    """The duration in the largest unit that divides it."""
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidInput(f"expected a duration of zero or more. found={seconds}")
    for name, unit in _SECOND_UNITS.items():
        if seconds and seconds % unit == 0:
            return f"{int(seconds // unit)}{name}"
    thousandths = seconds * 1000
    if seconds and thousandths.is_integer() and thousandths < _LEAST_TOO_LONG and int(thousandths) / 1000 == seconds:
        return f"{int(thousandths)}ms"
    # Plain digits: an exponent would not read back.
    return f"{Decimal(repr(float(seconds))):f}s".replace(".0s", "s")
