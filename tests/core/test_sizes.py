from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.sizes import GIB, KIB, MIB, format_bytes, format_seconds, parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("512", 512), ("512B", 512), ("64KiB", 64 * KIB), ("8 MiB", 8 * MIB), ("1.5gib", GIB + GIB // 2)],
)
def test_binary_units_are_powers_of_1024(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_decimal_units_are_powers_of_1000() -> None:
    assert (parse_bytes("1kB"), parse_bytes("2MB"), parse_bytes("1TB")) == (1000, 2_000_000, 10**12)


@pytest.mark.parametrize("text", ["", "MiB", "-1", "8Mib2", "0.5", "1.0001KiB", "8XiB", "1e3", "٣"])
def test_invalid_size_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected a size"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("2.5", 2.5),
        ("15s", 15.0),
        ("250ms", 0.25),
        ("1h30m", 5400.0),
        ("7d", 604_800.0),
        ("1m1s1ms", 61.001),
    ],
)
def test_durations_add_their_units(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1s1h", "15 parsecs", "nan", "inf", "1e3", "ms"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected a duration"):
        parse_seconds(text)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_invalid_duration_cannot_be_formatted(seconds: float) -> None:
    with pytest.raises(InvalidInput):
        format_seconds(seconds)


@given(st.integers(0, 2**45))
def test_formatted_size_round_trips(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == size


@given(
    st.one_of(
        st.integers(0, 10**9).map(float),
        st.decimals(0, 10**6, places=6).map(float),
        st.decimals(10**11, 10**13, places=3).map(float),
    )
)
def test_formatted_duration_round_trips(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == seconds


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    for parse in (parse_bytes, parse_seconds):
        try:
            assert parse(text) >= 0
        except InvalidInput:
            continue
