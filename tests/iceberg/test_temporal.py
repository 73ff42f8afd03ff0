from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.iceberg.temporal import (
    civil_of,
    days_of,
    format_date,
    format_time,
    format_timestamp,
    parse_date,
    parse_time,
    parse_timestamp,
)

EPOCH = datetime(1970, 1, 1)


@given(st.dates())
def test_days_agree_with_python(day: date) -> None:
    days = (day - date(1970, 1, 1)).days
    assert civil_of(days) == (day.year, day.month, day.day)
    assert days_of(day.year, day.month, day.day) == days
    assert format_date(days) == day.isoformat()
    assert parse_date(day.isoformat()) == days


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_day_round_trips(days: int) -> None:
    assert parse_date(format_date(days)) == days


@pytest.mark.slow
@given(st.datetimes())
def test_timestamps_agree_with_python(moment: datetime) -> None:
    nanos = (moment - EPOCH) // timedelta(microseconds=1) * 1000
    text = moment.isoformat(timespec="microseconds")
    assert format_timestamp(nanos, 6) == text
    assert parse_timestamp(text, zoned=False) == nanos


@given(st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1)), st.integers(-18 * 60, 18 * 60))
def test_offset_is_subtracted(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    expected = ((moment - EPOCH) // timedelta(microseconds=1) - minutes * 60_000_000) * 1000
    assert parse_timestamp(zoned.isoformat(), zoned=True) == expected


def test_zoned_timestamp_without_an_offset_is_utc() -> None:
    assert parse_timestamp("1970-01-01T00:00:01", zoned=True) == 10**9
    assert parse_timestamp("1970-01-01T00:00:01Z", zoned=True) == 10**9


@given(st.integers(-(2**63), 2**63 - 1))
def test_nanoseconds_round_trip(nanos: int) -> None:
    assert parse_timestamp(format_timestamp(nanos, 9), zoned=False) == nanos


@given(st.times())
def test_times_agree_with_python(moment: time) -> None:
    text = moment.isoformat(timespec="microseconds")
    nanos = parse_time(text)
    assert nanos == ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 10**9 + moment.microsecond * 1000
    assert format_time(nanos, 6) == text


def test_years_of_other_than_four_digits_have_a_sign() -> None:
    assert format_date(parse_date("+12345-06-07")) == "+12345-06-07"
    assert format_date(parse_date("-0044-03-15")) == "-0044-03-15"
    assert format_date(parse_date("0000-01-01")) == "0000-01-01"


@pytest.mark.parametrize(
    "text",
    [
        "2017-11-31", "2017-13-01", "2017-00-01", "2017-01-00", "2017-02-29", "1900-02-29", "17-01-01", "2017-1-1",
        "12017-01-01", "2017-01-01T00:00:00", "", "today", "2017-01-01 ", "２０１７-01-01",
    ],
)  # fmt: skip
def test_invalid_days_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected YYYY-MM-DD|no such day"):
        parse_date(text)


@pytest.mark.parametrize("text", ["24:00:00", "23:60:00", "23:59:60", "1:00", "12", "12:00:00.", "12:00:00.1234567890"])
def test_invalid_times_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected HH:MM:SS|no such time"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "zoned"),
    [
        ("2017-01-01T00:00:00+01:00", False),
        ("2017-01-01T00:00:00Z", False),
        ("2017-01-01 00:00:00", False),
        ("2017-01-01", False),
        ("2017-01-01T00:00:00+19:00", True),
        ("2017-01-01T00:00:00+01:60", True),
        ("2017-01-01T00:00:00+1", True),
    ],
)
def test_invalid_timestamps_are_rejected(text: str, zoned: bool) -> None:
    with pytest.raises(ValueError, match=r"expected YYYY|no such offset"):
        parse_timestamp(text, zoned=zoned)
