"""Timestamps of S3 Select, which keep their precision and offset.

`2017T` is a year, `2017-04T` a month, `2017-04-30T` a day; a time of day has an offset from UTC. Arithmetic works on
the fields, at the offset of the timestamp.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Final

from ..errors import SelectCode, failure


class Precision(IntEnum):
    """The smallest known field."""

    YEAR = 0
    MONTH = 1
    DAY = 2
    MINUTE = 3
    SECOND = 4


class DatePart(StrEnum):
    """A field that can be added, counted or extracted."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    TIMEZONE_HOUR = "timezone_hour"
    TIMEZONE_MINUTE = "timezone_minute"


COUNTABLE: Final = frozenset(DatePart) - {DatePart.TIMEZONE_HOUR, DatePart.TIMEZONE_MINUTE}
"""The parts that DATE_ADD and DATE_DIFF support."""

_PRECISION_OF: Final = {
    DatePart.YEAR: Precision.YEAR,
    DatePart.MONTH: Precision.MONTH,
    DatePart.DAY: Precision.DAY,
    DatePart.HOUR: Precision.MINUTE,
    DatePart.MINUTE: Precision.MINUTE,
    DatePart.SECOND: Precision.SECOND,
}
_SECONDS_OF: Final = {DatePart.DAY: 86_400, DatePart.HOUR: 3_600, DatePart.MINUTE: 60, DatePart.SECOND: 1}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WRITTEN: Final = re.compile(
    r"(\d{4})(?:T|-(\d\d)(?:T|-(\d\d)(?:T|T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d))?))"
)


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A point in time. Fields beyond the precision have their first value."""

    year: int
    month: int = 1
    day: int = 1
    hour: int = 0
    minute: int = 0
    second: int = 0
    fraction: str = ""
    """Digits of the fractional second, at most nine."""
    offset_minutes: int = 0
    precision: Precision = Precision.DAY

    @property
    def local(self) -> datetime:
        """The fields without the offset, down to microseconds."""
        return datetime(self.year, self.month, self.day, self.hour, self.minute, self.second, self.microsecond)

    @property
    def microsecond(self) -> int:
        """The fraction of the second in microseconds."""
        return int((self.fraction + "000000")[:6])

    @property
    def instant(self) -> int:
        """Microseconds since 1970 in UTC, for comparisons."""
        elapsed = self.local.replace(tzinfo=UTC) - _EPOCH - timedelta(minutes=self.offset_minutes)
        return elapsed // timedelta(microseconds=1)

    def __str__(self) -> str:
        text = f"{self.year:04}"
        if self.precision >= Precision.MONTH:
            text += f"-{self.month:02}"
        if self.precision >= Precision.DAY:
            text += f"-{self.day:02}"
        text += "T"
        if self.precision >= Precision.MINUTE:
            text += f"{self.hour:02}:{self.minute:02}"
            if self.precision >= Precision.SECOND:
                text += f":{self.second:02}" + (f".{self.fraction}" if self.fraction else "")
            text += _offset_text(self.offset_minutes)
        return text

    def at(self, local: datetime, precision: Precision) -> Timestamp:
        """A copy with other fields, and at least this precision."""
        return replace(
            self,
            year=local.year,
            month=local.month,
            day=local.day,
            hour=local.hour,
            minute=local.minute,
            second=local.second,
            precision=max(self.precision, precision),
        )


def parse_timestamp(text: str) -> Timestamp:
    """Parse a timestamp. Raises SelectError (CastFailed)."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise failure(SelectCode.CAST_FAILED, f"invalid timestamp. value={text[:64]}")
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    if hour is not None:
        precision = Precision.MINUTE if second is None else Precision.SECOND
    else:
        precision = Precision.DAY if day else Precision.MONTH if month else Precision.YEAR
    found = Timestamp(
        int(year),
        int(month or 1),
        int(day or 1),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        fraction or "",
        parse_offset(offset) if offset else 0,
        precision,
    )
    try:
        _ = found.instant
    except (ValueError, OverflowError) as error:
        raise failure(SelectCode.CAST_FAILED, f"timestamp is out of range. value={text[:64]}") from error
    return found


def parse_offset(text: str) -> int:
    """Minutes of `Z`, `+07`, `+0700` or `+07:00`. Raises SelectError (CastFailed)."""
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        raise failure(SelectCode.CAST_FAILED, f"offset is out of range. value={text}")
    return (hours * 60 + minutes) * (-1 if text[0] == "-" else 1)


def from_datetime(moment: datetime) -> Timestamp:
    """A clock time in UTC, with milliseconds."""
    moment = moment.astimezone(UTC)
    return Timestamp(
        moment.year,
        moment.month,
        moment.day,
        moment.hour,
        moment.minute,
        moment.second,
        f"{moment.microsecond // 1000:03}",
        0,
        Precision.SECOND,
    )


def add(part: DatePart, count: int, to: Timestamp) -> Timestamp:
    """Add years, months, …; the precision is at least that of the part.

    A day that the month does not have becomes its last. Raises SelectError (EvaluatorInvalidArguments) outside the
    years 1 to 9999.
    """
    precision = _PRECISION_OF[part]
    try:
        if part in (DatePart.YEAR, DatePart.MONTH):
            months = to.year * 12 + to.month - 1 + count * (12 if part is DatePart.YEAR else 1)
            year, month = divmod(months, 12)
            day = min(to.day, calendar.monthrange(year, month + 1)[1])
            return to.at(to.local.replace(year=year, month=month + 1, day=day), precision)
        return to.at(to.local + timedelta(seconds=count * _SECONDS_OF[part]), precision)
    except (ValueError, OverflowError) as error:
        raise failure(
            SelectCode.EVALUATOR_INVALID_ARGUMENTS, f"result is out of range. part={part} count={count} of={to}"
        ) from error


def difference(part: DatePart, first: Timestamp, last: Timestamp) -> int:
    """The number of whole years, months, … between two timestamps; positive if `last` is later."""
    if part in _SECONDS_OF:
        unit = _SECONDS_OF[part] * 1_000_000
        elapsed = last.instant - first.instant
        return elapsed // unit if elapsed >= 0 else -(-elapsed // unit)
    if last.instant < first.instant:
        return -difference(part, last, first)
    start, end = _in_utc(first), _in_utc(last)
    months = (end.year - start.year) * 12 + end.month - start.month
    if (end.day, end.time()) < (start.day, start.time()):
        months -= 1
    return months // 12 if part is DatePart.YEAR else months


def extract(part: DatePart, of: Timestamp) -> int:
    """One field. Fields beyond the precision have their first value."""
    match part:
        case DatePart.TIMEZONE_HOUR:
            return int(of.offset_minutes / 60)
        case DatePart.TIMEZONE_MINUTE:
            return of.offset_minutes - int(of.offset_minutes / 60) * 60
        case _:
            return int(getattr(of, part.value))


def _in_utc(moment: Timestamp) -> datetime:
    return moment.local - timedelta(minutes=moment.offset_minutes)


def _offset_text(minutes: int) -> str:
    if minutes == 0:
        return "Z"
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"
