"""Formats times as AWS does: ISO 8601 in documents, HTTP dates in headers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final


@lru_cache(maxsize=16_384)
def _minute(minutes: int) -> str:
    return datetime.fromtimestamp(minutes * 60, UTC).strftime("%Y-%m-%dT%H:%M:")


_SECONDS: Final = tuple(f"{second:02d}" for second in range(60))
_MILLISECONDS: Final = tuple(f".{millisecond:03d}Z" for millisecond in range(1000))


def iso_time(milliseconds: int) -> str:
    """ISO 8601 with milliseconds: `2026-01-02T03:04:05.006Z`."""
    rest = milliseconds % 60_000
    return f"{_minute(milliseconds // 60_000)}{_SECONDS[rest // 1000]}{_MILLISECONDS[rest % 1000]}"


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@lru_cache(maxsize=16_384)
def _http_second(seconds: int) -> str:
    t = datetime.fromtimestamp(seconds, UTC)
    return f"{_DAYS[t.weekday()]}, {t.day:02d} {_MONTHS[t.month - 1]} {t.year:04d} {t:%H:%M:%S} GMT"


def http_time(milliseconds: int) -> str:
    """An HTTP date: `Fri, 02 Jan 2026 03:04:05 GMT`."""
    return _http_second(milliseconds // 1000)
