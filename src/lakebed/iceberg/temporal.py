"""Dates and times: Iceberg's counts since 1970, and ISO 8601.

Python's dates end at the years 1 and 9999; columns do not. So days are converted here, for any year of the proleptic
Gregorian calendar. Years of other than four digits have a sign, as in ISO 8601.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "DAY_NANOS",
    "civil_of",
    "days_of",
    "format_date",
    "format_time",
    "format_timestamp",
    "parse_date",
    "parse_time",
    "parse_timestamp",
]

_SECOND_NANOS: Final = 1_000_000_000
DAY_NANOS: Final = 86_400 * _SECOND_NANOS

_ERA_DAYS: Final = 146_097
"""Days of 400 years, the period of the calendar."""
_EPOCH: Final = 719_468
"""Days from 1 March of the year 0 to 1970-01-01."""
_MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_DATE: Final = r"(?P<year>\d{4}|[+-]\d{4,9})-(?P<month>\d{2})-(?P<day>\d{2})"
_TIME: Final = r"(?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE: Final = r"(?P<zone>Z|[+-]\d{2}:\d{2})"
_WHOLE_DATE: Final = re.compile(_DATE, re.ASCII)
_WHOLE_TIME: Final = re.compile(_TIME, re.ASCII)
_LOCAL: Final = re.compile(f"{_DATE}T{_TIME}", re.ASCII)
_ZONED: Final = re.compile(f"{_DATE}T{_TIME}{_ZONE}?", re.ASCII)


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    # Years begin in March here: then the leap day is the last day of a year.
    if month < 3:
        year -= 1
        month += 12
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3) + 2) // 5 + day - 1
    return era * _ERA_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _EPOCH


def civil_of(days: int) -> tuple[int, int, int]:
    """The year, month and day of a day count since 1970-01-01."""
    era, of_era = divmod(days + _EPOCH, _ERA_DAYS)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return era * 400 + year + (month > 9), month + 3 if month < 10 else month - 9, day


def parse_date(text: str) -> int:
    """Days since 1970-01-01 of `2017-11-16`. Raises ValueError."""
    found = _WHOLE_DATE.fullmatch(text)
    if found is None:
        raise ValueError("expected YYYY-MM-DD")
    return _days(found)


def parse_time(text: str) -> int:
    """Nanoseconds since midnight of `22:31:08.123456`. Raises ValueError."""
    found = _WHOLE_TIME.fullmatch(text)
    if found is None:
        raise ValueError("expected HH:MM:SS.ssssss")
    return _nanos(found)


def parse_timestamp(text: str, *, zoned: bool) -> int:
    """Nanoseconds since the epoch of `2017-11-16T22:31:08.123456`. Raises ValueError.

    Only `zoned` timestamps may have an offset; without one they are UTC, as PyIceberg writes them.
    """
    found = (_ZONED if zoned else _LOCAL).fullmatch(text)
    if found is None:
        raise ValueError(f"expected YYYY-MM-DDTHH:MM:SS.ssssss{'+00:00' if zoned else ' without an offset'}")
    nanos = _days(found) * DAY_NANOS + _nanos(found)
    if zoned and found["zone"] not in (None, "Z"):
        hours, minutes = int(found["zone"][1:3]), int(found["zone"][4:6])
        if hours > 18 or minutes > 59:
            raise ValueError(f"no such offset: {found['zone']}")
        ahead = (hours * 60 + minutes) * 60 * _SECOND_NANOS
        nanos += ahead if found["zone"][0] == "-" else -ahead
    return nanos


def format_date(days: int) -> str:
    """Format as `2017-11-16`."""
    year, month, day = civil_of(days)
    if 0 <= year <= 9999:
        return f"{year:04}-{month:02}-{day:02}"
    return f"{year:+05}-{month:02}-{day:02}"


def format_time(nanos: int, digits: int) -> str:
    """Format as `22:31:08.123456`, with a number of digits of the second."""
    seconds, fraction = divmod(nanos, _SECOND_NANOS)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction // 10 ** (9 - digits):0{digits}}"


def format_timestamp(nanos: int, digits: int) -> str:
    """Format as `2017-11-16T22:31:08.123456`."""
    days, of_day = divmod(nanos, DAY_NANOS)
    return f"{format_date(days)}T{format_time(of_day, digits)}"


def _days(found: re.Match[str]) -> int:
    year, month, day = int(found["year"]), int(found["month"]), int(found["day"])
    if not 1 <= month <= 12 or not 1 <= day <= _MONTH_DAYS[month - 1]:
        raise ValueError("no such day")
    if month == 2 and day == 29 and (year % 4 != 0 or (year % 100 == 0 and year % 400 != 0)):
        raise ValueError("no such day")
    return days_of(year, month, day)


def _nanos(found: re.Match[str]) -> int:
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no such time of day")
    return ((hour * 60 + minute) * 60 + second) * _SECOND_NANOS + int((found["fraction"] or "").ljust(9, "0"))
