from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import SelectError
from lakebed.select.dialect.timestamps import (
    COUNTABLE,
    DatePart,
    Precision,
    Timestamp,
    add,
    difference,
    extract,
    from_datetime,
    parse_timestamp,
)


@pytest.mark.parametrize(
    "text",
    [
        "2017T",
        "2017-04T",
        "2017-04-30T",
        "2017-04-30T12:30Z",
        "2017-04-30T12:30+05:30",
        "2017-04-30T12:30:59Z",
        "2017-04-30T12:30:59.123456789-08:00",
    ],
)
def test_timestamps_round_trip_as_text(text: str) -> None:
    assert str(parse_timestamp(text)) == text


def test_date_may_omit_its_t() -> None:
    assert str(parse_timestamp("2017-04-30")) == "2017-04-30T"


@pytest.mark.parametrize(
    "text",
    ["", "2017", "2017-13T", "2017-02-30T", "2017-04-30T12Z", "2017-04-30T12:30", "yesterday", "2017-04-30T25:00Z"],
)
def test_invalid_timestamp_cannot_be_cast(text: str) -> None:
    with pytest.raises(SelectError) as raised:
        parse_timestamp(text)
    assert raised.value.code == "CastFailed"


def test_instant_does_not_depend_on_the_offset() -> None:
    assert parse_timestamp("2017-04-30T12:30+02:00").instant == parse_timestamp("2017-04-30T10:30Z").instant


@pytest.mark.parametrize(
    ("part", "count", "text", "result"),
    [
        ("year", 5, "2010-01-01T", "2015-01-01T"),
        ("month", 1, "2010T", "2010-02T"),
        ("month", 13, "2010T", "2011-02T"),
        ("day", -1, "2017-01-10T", "2017-01-09T"),
        ("hour", 1, "2017T", "2017-01-01T01:00Z"),
        ("hour", 1, "2017-01-02T03:04Z", "2017-01-02T04:04Z"),
        ("minute", 1, "2017-01-02T03:04:05.006Z", "2017-01-02T03:05:05.006Z"),
        ("second", 1, "2017-01-02T03:04:05.006Z", "2017-01-02T03:04:06.006Z"),
        ("month", 1, "2017-01-31T", "2017-02-28T"),
    ],
)
def test_adding_increases_the_precision_if_required(part: str, count: int, text: str, result: str) -> None:
    assert str(add(DatePart(part), count, parse_timestamp(text))) == result


def test_years_after_9999_are_out_of_range() -> None:
    with pytest.raises(SelectError) as raised:
        add(DatePart.YEAR, 8000, parse_timestamp("2017T"))
    assert raised.value.code == "EvaluatorInvalidArguments"


@pytest.mark.parametrize(
    ("part", "first", "last", "result"),
    [
        ("year", "2010-01-01T", "2011-01-01T", 1),
        ("month", "2010T", "2010-05T", 4),
        ("month", "2010T", "2011T", 12),
        ("month", "2011T", "2010T", -12),
        ("day", "2010-01-01T23:00Z", "2010-01-02T01:00Z", 0),
        ("hour", "2010-01-01T00:00Z", "2010-01-02T01:00Z", 25),
        ("second", "2010-01-01T00:00:01Z", "2010-01-01T00:00:00Z", -1),
    ],
)
def test_difference_counts_whole_units(part: str, first: str, last: str, result: int) -> None:
    assert difference(DatePart(part), parse_timestamp(first), parse_timestamp(last)) == result


def test_fields_are_extracted() -> None:
    moment = parse_timestamp("2010-02-03T04:05:06.789-07:30")
    found = [extract(part, moment) for part in DatePart]
    assert found == [2010, 2, 3, 4, 5, 6, -7, -30]


timestamps = st.builds(
    lambda moment, offset, precision: Timestamp(
        moment.year,
        moment.month,
        moment.day,
        moment.hour,
        moment.minute,
        moment.second,
        f"{moment.microsecond:06}",
        offset,
        precision,
    ),
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
    st.just(Precision.SECOND),
)


@given(timestamps)
def test_timestamps_round_trip(moment: Timestamp) -> None:
    assert parse_timestamp(str(moment)) == moment


@given(timestamps)
def test_instant_equals_that_of_the_standard_library(moment: Timestamp) -> None:
    zone = timezone(timedelta(minutes=moment.offset_minutes))
    there = moment.local.replace(tzinfo=zone)
    assert moment.instant == (there - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@given(timestamps, st.sampled_from(sorted(COUNTABLE)), st.integers(-500, 500))
def test_difference_equals_the_added_count(moment: Timestamp, part: DatePart, count: int) -> None:
    later = add(part, count, moment)
    found = difference(part, moment, later)
    # Months differ in length: the last day of one may be before the same day of another.
    assert found == count or (part in (DatePart.YEAR, DatePart.MONTH) and moment.day > 28 and abs(found - count) <= 1)


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_clock_time_has_milliseconds(moment: datetime) -> None:
    assert from_datetime(moment).instant == int(moment.timestamp()) * 1_000_000 + moment.microsecond // 1000 * 1000
