"""Auto-partitioning by time: partition names, the partitions to create and those to drop. Pure.

A table has a partition for the current hour, day, month, quarter or year, some created ahead of time, and a number of
past ones. Partition names sort by time: they are written from the largest unit to the smallest, with fixed widths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .errors import ErrorCode, FlussError
from .schema import Schema
from .table_options import flag, whole_number
from .types import TypeRoot

__all__ = ["AutoPartitionStrategy", "AutoPartitionTimeUnit"]

_PREFIX: Final = "table.auto-partition."


class AutoPartitionTimeUnit(StrEnum):
    """The period of one partition."""

    HOUR = "HOUR"
    DAY = "DAY"
    MONTH = "MONTH"
    QUARTER = "QUARTER"
    YEAR = "YEAR"


_FORMATS: Final[Mapping[AutoPartitionTimeUnit, str]] = {
    AutoPartitionTimeUnit.HOUR: "yyyyMMddHH",
    AutoPartitionTimeUnit.DAY: "yyyyMMdd",
    AutoPartitionTimeUnit.MONTH: "yyyyMM",
    AutoPartitionTimeUnit.QUARTER: "yyyyQ",
    AutoPartitionTimeUnit.YEAR: "yyyy",
}
_LETTERS: Final[Mapping[AutoPartitionTimeUnit, str]] = {
    AutoPartitionTimeUnit.HOUR: "yMdH",
    AutoPartitionTimeUnit.DAY: "yMd",
    AutoPartitionTimeUnit.MONTH: "yM",
    AutoPartitionTimeUnit.QUARTER: "yQ",
    AutoPartitionTimeUnit.YEAR: "y",
}
_WIDTHS: Final[Mapping[str, int]] = {"y": 4, "M": 2, "d": 2, "H": 2, "Q": 1}
_FIELD: Final = re.compile(r"([A-Za-z])\1*")


@dataclass(frozen=True, slots=True)
class AutoPartitionStrategy:
    """How a table is auto-partitioned."""

    key: str
    """The partition key that holds the time."""

    unit: AutoPartitionTimeUnit
    pattern: str
    zone: ZoneInfo
    precreate: int
    """How many partitions exist ahead of time, including the current one."""

    retention: int
    """How many past partitions are kept; all if negative."""

    @classmethod
    def of(
        cls, schema: Schema, partition_keys: Sequence[str], options: Mapping[str, str]
    ) -> AutoPartitionStrategy | None:
        """The strategy of a table; None without auto-partitioning. Error codes: INVALID_CONFIG, INVALID_TABLE."""
        settings = {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}
        if not flag(settings.get("enabled", "false")):
            return None
        key = settings.get("key") or (partition_keys[0] if len(partition_keys) == 1 else "")
        if key not in partition_keys:
            raise _invalid(
                f"the time key must be one of the partition keys. key={key} partition_keys={list(partition_keys)}"
            )
        unit = AutoPartitionTimeUnit(settings.get("time-unit", AutoPartitionTimeUnit.DAY).upper())
        column = schema.column(key)
        if column is None or column.type.root not in (TypeRoot.STRING, TypeRoot.DATE):
            raise _invalid(f"the time key must be a STRING or DATE column. key={key}")
        pattern = settings.get("time-format") or _FORMATS[unit]
        if column.type.root is TypeRoot.DATE:
            if unit is not AutoPartitionTimeUnit.DAY or settings.get("time-format", "yyyy-MM-dd") != "yyyy-MM-dd":
                raise _invalid(f"a DATE key requires unit DAY and format yyyy-MM-dd. key={key} unit={unit}")
            pattern = "yyyy-MM-dd"
        _check_pattern(pattern, unit)
        ahead = whole_number(settings.get("num-precreate", "2" if len(partition_keys) == 1 else "0"))
        if ahead < 0 or (ahead and len(partition_keys) > 1):
            raise _invalid(
                "with several partition keys, partitions are created by writers: num-precreate must be 0. "
                f"num-precreate={ahead}"
            )
        return cls(
            key,
            unit,
            pattern,
            _zone(settings.get("time-zone")),
            ahead,
            whole_number(settings.get("num-retention", "7")),
        )

    def name(self, moment: datetime) -> str:
        """The name of the partition for a time."""
        local = moment.astimezone(self.zone)
        values = {
            "y": local.year,
            "M": local.month,
            "d": local.day,
            "H": local.hour,
            "Q": (local.month + 2) // 3,
        }
        return _FIELD.sub(lambda field: f"{values[field[0][0]]:0{_WIDTHS[field[0][0]]}}", self.pattern)

    def due(self, now_ms: int) -> list[str]:
        """Names of the partitions that must exist."""
        return [self.name(moment) for moment in self._moments(now_ms, 0, self.precreate)]

    def expired(self, names: Iterable[str], now_ms: int) -> list[str]:
        """Names of the partitions past their retention, oldest first.

        Names in another format are kept: they were created manually.
        """
        if self.retention < 0:
            return []
        oldest = self.name(next(self._moments(now_ms, -self.retention, 1)))
        shape = re.compile(
            "".join(
                rf"\d{{{_WIDTHS[part[0]]}}}" if part[0] in _WIDTHS else re.escape(part) for part in _parts(self.pattern)
            )
        )
        return sorted(name for name in names if shape.fullmatch(name) and name < oldest)

    def _moments(self, now_ms: int, first: int, count: int) -> Iterator[datetime]:
        """A time in each of `count` periods, starting `first` periods from now, in the zone's local time."""
        now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(self.zone)
        for step in range(first, first + count):
            if self.unit is AutoPartitionTimeUnit.HOUR:
                # In UTC, where no hour is skipped or repeated.
                yield (now.astimezone(UTC) + timedelta(hours=step)).astimezone(self.zone)
            elif self.unit is AutoPartitionTimeUnit.DAY:
                # Noon exists on every day of every zone.
                noon = now.replace(hour=12, minute=0, second=0, microsecond=0)
                yield noon + timedelta(days=step)
            else:
                months = {
                    AutoPartitionTimeUnit.MONTH: 1,
                    AutoPartitionTimeUnit.QUARTER: 3,
                    AutoPartitionTimeUnit.YEAR: 12,
                }[self.unit]
                index = now.year * 12 + now.month - 1 + step * months
                yield now.replace(
                    year=index // 12, month=index % 12 + 1, day=1, hour=12, minute=0, second=0, microsecond=0
                )


def _parts(pattern: str) -> list[str]:
    """Split a pattern into fields and separators."""
    found: list[str] = []
    for character in pattern:
        if found and found[-1][0] == character and character.isalpha():
            found[-1] += character
        else:
            found.append(character)
    return found


def _check_pattern(pattern: str, unit: AutoPartitionTimeUnit) -> None:
    """Raise INVALID_CONFIG unless names in this pattern sort by time and are valid partition values."""
    fields = [part for part in _parts(pattern) if part[0].isalpha()]
    if "".join(field[0] for field in fields) != _LETTERS[unit] or any(
        len(field) != _WIDTHS[field[0]] for field in fields
    ):
        raise _invalid(f"time format must have full-width units from largest to smallest. time-format={pattern}")
    if re.fullmatch(r"[A-Za-z_-]+", pattern) is None:
        raise _invalid(f"partition names can have letters, digits, _ and - only. time-format={pattern}")


def _zone(name: str | None) -> ZoneInfo:
    # Not the machine's zone: it would change when the leader moves to another machine.
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _invalid(f"unknown time zone. time-zone={name}") from None


def _invalid(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_CONFIG, message)
