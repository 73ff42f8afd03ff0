from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import SelectError
from lakebed.select.dialect.timestamp_patterns import compile_pattern, read, write
from lakebed.select.dialect.timestamps import parse_timestamp

MOMENT = parse_timestamp("1969-07-20T20:18:09.123456789+05:30")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("MMMM d, y", "July 20, 1969"),
        ("MMM d, yyyy", "Jul 20, 1969"),
        ("M-d-yy", "7-20-69"),
        ("MM-d-y", "07-20-1969"),
        ("MMMMM", "J"),
        ("MMMM d, y h:m a", "July 20, 1969 8:18 PM"),
        ("y-MM-dd'T'H:m:ssX", "1969-07-20T20:18:09+0530"),
        ("HH 'o''clock'", "20 o'clock"),
        ("SSS|SSSSSSSSS|n", "123|123456789|123456789"),
        ("XX XXX XXXX XXXXX", "+0530 +05:30 +0530 +05:30"),
    ],
)
def test_symbols_are_formatted(pattern: str, text: str) -> None:
    assert write(MOMENT, pattern) == text


def test_utc_is_z_for_upper_case_and_an_offset_for_lower_case() -> None:
    moment = parse_timestamp("2010-01-01T00:00Z")
    assert write(moment, "X XX XXX x xx xxx") == "Z Z Z +00 +0000 +00:00"


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("y'T", "EvaluatorUnterminatedTimestampFormatPatternToken"),
        ("yyQ", "EvaluatorInvalidTimestampFormatPatternSymbol"),
        ("yyy", "EvaluatorInvalidTimestampFormatPatternToken"),
        ("aa", "EvaluatorInvalidTimestampFormatPatternToken"),
    ],
)
def test_invalid_pattern_has_its_s3_code(pattern: str, code: str) -> None:
    with pytest.raises(SelectError) as raised:
        compile_pattern(pattern)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("y MMMMM", "EvaluatorInvalidTimestampFormatPatternSymbolForParsing"),
        ("y yyyy", "EvaluatorTimestampFormatPatternDuplicateFields"),
        ("y h", "EvaluatorTimestampFormatPatternHourClockAmPmMismatch"),
        ("y H a", "EvaluatorTimestampFormatPatternHourClockAmPmMismatch"),
        ("M d", "EvaluatorInvalidTimestampFormatPattern"),
        ("y", "CastFailed"),
    ],
)
def test_pattern_that_cannot_be_parsed_with_has_its_s3_code(pattern: str, code: str) -> None:
    with pytest.raises(SelectError) as raised:
        read("not this", pattern)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("2007", "y", "2007T"),
        ("07 May 3", "yy MMM d", "2007-05-03T"),
        ("1999-12-31 11:59 PM", "y-M-d h:mm a", "1999-12-31T23:59Z"),
        ("2007-02-23T12:14:33.079-08:00", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2007-02-23T12:14:33.079-08:00"),
    ],
)
def test_timestamps_are_parsed(text: str, pattern: str, found: str) -> None:
    assert str(read(text, pattern)) == found


@given(
    st.datetimes(datetime(1000, 1, 1), datetime(9999, 1, 1)),
    st.sampled_from(["yyyy-MM-dd HH:mm:ss.SSSSSSXXX", "MMMM d y, h:m:s a SSSSSS x", "d.M.y H-m-s n X"]),
)
def test_timestamps_round_trip(moment: datetime, pattern: str) -> None:
    written = parse_timestamp(moment.isoformat(timespec="microseconds") + "Z")
    assert read(write(written, pattern), pattern).instant == written.instant
