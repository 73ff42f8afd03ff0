"""Table options: their names, valid values and defaults.

Values are text on the wire and in storage. Unknown options are rejected, not ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from .errors import ErrorCode, FlussError

__all__ = ["ALTERABLE", "DEFAULT_FRESHNESS", "byte_count", "check_options", "flag", "milliseconds", "whole_number"]

DEFAULT_FRESHNESS: Final = "30 s"
"""The default of `table.datalake.freshness`: how far the lake table may lag behind the stream."""

_UNITS_MS: Final[Mapping[str, int]] = {
    "ms": 1,
    "milli": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
_UNITS_BYTES: Final[Mapping[str, int]] = {
    unit: 1024**power
    for power, units in enumerate((("b", "bytes"), ("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb")))
    for unit in units
}
_AMOUNT: Final = re.compile(r"\s*(\d+)\s*([a-z]*)\s*")


def milliseconds(text: str) -> int:
    """A duration such as `7 d`, `30min` or, without a unit, milliseconds. Raises INVALID_CONFIG."""
    found = _AMOUNT.fullmatch(text.lower())
    unit = None if found is None else found[2] or "ms"
    factor = None if unit is None else _UNITS_MS.get(unit, _UNITS_MS.get(unit.removesuffix("s")))
    if found is None or factor is None:
        raise FlussError(ErrorCode.INVALID_CONFIG, f"invalid duration. value={text}")
    return int(found[1]) * factor


def byte_count(text: str) -> int:
    """A size such as `512 mb`, `10gb` or, without a unit, bytes. Raises INVALID_CONFIG."""
    found = _AMOUNT.fullmatch(text.lower())
    factor = None if found is None else _UNITS_BYTES.get(found[2] or "b")
    if found is None or factor is None or not int(found[1]):
        raise FlussError(ErrorCode.INVALID_CONFIG, f"invalid size: expected at least one byte. value={text}")
    return int(found[1]) * factor


def whole_number(text: str) -> int:
    """Parse an integer. Raises INVALID_CONFIG."""
    try:
        return int(text)
    except ValueError:
        raise FlussError(ErrorCode.INVALID_CONFIG, f"invalid integer. value={text}") from None


def flag(text: str) -> bool:
    """Parse a boolean. Raises INVALID_CONFIG."""
    if text.lower() not in ("true", "false"):
        raise FlussError(ErrorCode.INVALID_CONFIG, f"invalid boolean: expected true or false. value={text}")
    return text.lower() == "true"


def _one_of(*names: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text.upper() not in names:
            allowed = ", ".join(names)
            raise FlussError(ErrorCode.INVALID_CONFIG, f"invalid value: expected one of {allowed}. value={text}")
        return text.upper()

    return check


def _at_least(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    def check(text: str) -> int:
        number = whole_number(text)
        if not least <= number <= most:
            raise FlussError(ErrorCode.INVALID_CONFIG, f"out of range: minimum={least} maximum={most}. value={text}")
        return number

    return check


def _off(reason: str) -> Callable[[str], bool]:
    """An option of an unsupported feature: it can only be off."""

    def check(text: str) -> bool:
        if flag(text):
            raise FlussError(ErrorCode.INVALID_CONFIG, f"not supported: {reason}")
        return False

    return check


_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    "table.replication.factor": _at_least(1),
    "table.log.format": _one_of("ARROW", "INDEXED", "COMPACTED"),
    "table.log.arrow.compression.type": _one_of("ZSTD", "LZ4_FRAME", "NONE"),
    "table.log.arrow.compression.zstd.level": _at_least(1, 22),
    "table.log.ttl": milliseconds,
    "table.log.local-ttl": milliseconds,
    "table.log.max-size": byte_count,
    "table.log.tiered.local-segments": _at_least(1),
    "table.kv.format": _one_of("COMPACTED", "INDEXED"),
    "table.kv.format-version": _at_least(1, 2),
    "table.kv.standby-replica.enabled": _off(
        "each bucket has one replica; another server restores it from KV snapshots and the log"
    ),
    "table.merge-engine": _one_of("FIRST_ROW", "VERSIONED", "AGGREGATION"),
    "table.merge-engine.versioned.ver-column": str,
    "table.delete.behavior": _one_of("ALLOW", "IGNORE", "DISABLE"),
    "table.changelog.image": _one_of("FULL", "WAL"),
    "table.auto-increment.cache-size": _at_least(1),
    "table.statistics.columns": str,
    "table.auto-partition.enabled": flag,
    "table.auto-partition.key": str,
    "table.auto-partition.time-unit": _one_of("HOUR", "DAY", "MONTH", "QUARTER", "YEAR"),
    "table.auto-partition.time-format": str,
    "table.auto-partition.time-zone": str,
    "table.auto-partition.num-precreate": _at_least(0),
    "table.auto-partition.num-retention": _at_least(-(2**31)),
    "table.datalake.enabled": flag,
    "table.datalake.format": _one_of("PAIMON", "ICEBERG", "LANCE", "HUDI"),
    "table.datalake.freshness": milliseconds,
    "table.datalake.auto-compaction": flag,
    "table.datalake.auto-expire-snapshot": flag,
    "table.datalake.historical-partition.enabled": _off("read dropped partitions from the lake directly"),
}

ALTERABLE: Final = frozenset(
    {
        "table.datalake.enabled",
        "table.datalake.historical-partition.enabled",
        "table.datalake.freshness",
        "table.datalake.auto-compaction",
        "table.log.ttl",
        "table.log.tiered.local-segments",
        "table.log.local-ttl",
        "table.log.max-size",
        "table.auto-partition.enabled",
        "table.auto-partition.num-retention",
        "table.auto-partition.num-precreate",
        "table.statistics.columns",
        "table.kv.standby-replica.enabled",
    }
)
"""Options that can be changed after the table was created."""


def check_options(options: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG for an unknown option or an invalid value."""
    for name, value in options.items():
        check = _CHECKS.get(name)
        if check is None:
            raise FlussError(ErrorCode.INVALID_CONFIG, f"unknown table option. option={name}")
        try:
            check(value)
        except FlussError as failure:
            raise FlussError(failure.code, f"{name}: {failure}") from None
    if (
        flag(options.get("table.datalake.enabled", "false"))
        and options.get("table.log.format", "ARROW").upper() != "ARROW"
    ):
        raise FlussError(
            ErrorCode.INVALID_CONFIG,
            "table.datalake.enabled: lake tiering requires the Arrow log format (table.log.format)",
        )
