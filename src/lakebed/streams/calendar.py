"""Partitions by time: what the one of a moment is called, which come next, and which are over. Pure.

A table that is partitioned by itself has a partition for the hour, day, month, quarter or year that it is, some made
ahead of time, and those of some time back. Of names alone it can be said which are older, because they are written
from the largest unit to the smallest with as many digits each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .failures import Reason, StreamFailure
from .options import flag, whole_number
from .table import TableDefinition
from .types import Root

__all__ = ["Calendar", "TimeUnit"]

_PREFIX: Final = "table.auto-partition."


class TimeUnit(StrEnum):
    """How long a partition is."""

    HOUR = "HOUR"
    DAY = "DAY"
    MONTH = "MONTH"
    QUARTER = "QUARTER"
    YEAR = "YEAR"


_FORMATS: Final[Mapping[TimeUnit, str]] = {
    TimeUnit.HOUR: "yyyyMMddHH",
    TimeUnit.DAY: "yyyyMMdd",
    TimeUnit.MONTH: "yyyyMM",
    TimeUnit.QUARTER: "yyyyQ",
    TimeUnit.YEAR: "yyyy",
}
_LETTERS: Final[Mapping[TimeUnit, str]] = {
    TimeUnit.HOUR: "yMdH",
    TimeUnit.DAY: "yMd",
    TimeUnit.MONTH: "yM",
    TimeUnit.QUARTER: "yQ",
    TimeUnit.YEAR: "y",
}
_WIDTHS: Final[Mapping[str, int]] = {"y": 4, "M": 2, "d": 2, "H": 2, "Q": 1}
_FIELD: Final = re.compile(r"([A-Za-z])\1*")


@dataclass(frozen=True, slots=True)
class Calendar:
    """How a table is partitioned by time."""

    key: str
    """The partition key that has the time."""

    unit: TimeUnit
    pattern: str
    zone: ZoneInfo
    ahead: int
    """How many partitions are made that have not begun yet, the one of now counted."""

    kept: int
    """How many are kept that are over; all, if it is negative."""

    @classmethod
    def of(cls, definition: TableDefinition) -> Calendar | None:
        """The table's; None if it is not partitioned by itself. Reasons: INVALID_CONFIG, INVALID_TABLE."""
        said = {
            name.removeprefix(_PREFIX): value for name, value in definition.options.items() if name.startswith(_PREFIX)
        }
        if not flag(said.get("enabled", "false")):
            return None
        keys = definition.partition_keys
        key = said.get("key") or (keys[0] if len(keys) == 1 else "")
        if key not in keys:
            raise _invalid(f"the key of the time is one of the partition keys. key={key} partition_keys={list(keys)}")
        unit = TimeUnit(said.get("time-unit", TimeUnit.DAY).upper())
        column = definition.schema.column(key)
        if column is None or column.type.root not in (Root.STRING, Root.DATE):
            raise _invalid(f"the key of the time is a STRING or a DATE. key={key}")
        pattern = said.get("time-format") or _FORMATS[unit]
        if column.type.root is Root.DATE:
            if unit is not TimeUnit.DAY or said.get("time-format", "yyyy-MM-dd") != "yyyy-MM-dd":
                raise _invalid(f"partitions by a DATE are days, and called yyyy-MM-dd. key={key} unit={unit}")
            pattern = "yyyy-MM-dd"
        _check_pattern(pattern, unit)
        ahead = whole_number(said.get("num-precreate", "2" if len(keys) == 1 else "0"))
        if ahead < 0 or (ahead and len(keys) > 1):
            raise _invalid("partitions of several keys are made by who writes to them: num-precreate is 0")
        return cls(
            key, unit, pattern, _zone(said.get("time-zone")), ahead, whole_number(said.get("num-retention", "7"))
        )

    def name(self, moment: datetime) -> str:
        """What the partition of that moment is called."""
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
        """The names of the partitions that are to be there."""
        return [self.name(moment) for moment in self._moments(now_ms, 0, self.ahead)]

    def over(self, names: Iterable[str], now_ms: int) -> list[str]:
        """Those of the names that are older than all that are kept, the oldest first.

        What is not a name of a moment stays: somebody made it by hand.
        """
        if self.kept < 0:
            return []
        oldest = self.name(next(self._moments(now_ms, -self.kept, 1)))
        shape = re.compile(
            "".join(
                rf"\d{{{_WIDTHS[part[0]]}}}" if part[0] in _WIDTHS else re.escape(part) for part in _parts(self.pattern)
            )
        )
        return sorted(name for name in names if shape.fullmatch(name) and name < oldest)

    def _moments(self, now_ms: int, first: int, count: int) -> Iterator[datetime]:
        """One moment of each of `count` partitions from the one `first` away from now on, in the zone's own time."""
        now = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(self.zone)
        for step in range(first, first + count):
            if self.unit is TimeUnit.HOUR:
                # Of the hours that there are, none of which the zone leaves out or has twice.
                yield (now.astimezone(UTC) + timedelta(hours=step)).astimezone(self.zone)
            elif self.unit is TimeUnit.DAY:
                # Noon is on every day of every zone.
                noon = now.replace(hour=12, minute=0, second=0, microsecond=0)
                yield noon + timedelta(days=step)
            else:
                months = {TimeUnit.MONTH: 1, TimeUnit.QUARTER: 3, TimeUnit.YEAR: 12}[self.unit]
                index = now.year * 12 + now.month - 1 + step * months
                yield now.replace(
                    year=index // 12, month=index % 12 + 1, day=1, hour=12, minute=0, second=0, microsecond=0
                )


def _parts(pattern: str) -> list[str]:
    """Fields and what is between them."""
    found: list[str] = []
    for character in pattern:
        if found and found[-1][0] == character and character.isalpha():
            found[-1] += character
        else:
            found.append(character)
    return found


def _check_pattern(pattern: str, unit: TimeUnit) -> None:
    """Raise INVALID_CONFIG unless names in it sort as their times do, and are values of partitions."""
    fields = [part for part in _parts(pattern) if part[0].isalpha()]
    if "".join(field[0] for field in fields) != _LETTERS[unit] or any(
        len(field) != _WIDTHS[field[0]] for field in fields
    ):
        raise _invalid(f"a time is written from the largest unit to the smallest, in full. time-format={pattern}")
    if re.fullmatch(r"[A-Za-z_-]+", pattern) is None:
        raise _invalid(f"a partition's name has letters, digits, _ and - alone. time-format={pattern}")


def _zone(name: str | None) -> ZoneInfo:
    # The machine's own zone would make one table two, when its home moves to another machine.
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _invalid(f"no such time zone. time-zone={name}") from None


def _invalid(message: str) -> StreamFailure:
    return StreamFailure(Reason.INVALID_CONFIG, message)
