from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.wire.aws.numbers import MAX_NUMBER, signed_number, whole_number


@given(st.integers(0, MAX_NUMBER - 1), st.integers(0, 30))
def test_leading_zeros_are_ignored(number: int, zeros: int) -> None:
    assert whole_number("0" * zeros + str(number)) == number
    assert signed_number("-" + "0" * zeros + str(number)) == -number


@given(st.text())
def test_only_ascii_digits_are_a_number(text: str) -> None:
    digits = text != "" and all(letter in "0123456789" for letter in text)
    assert (whole_number(text) is not None) == digits


@pytest.mark.parametrize("text", ["", "-", "--1", "+1", " 1", "1 ", "1_0", "0x1", "1.0", "²", "٣", "１", "1e3"])
def test_other_notations_of_numbers_are_none(text: str) -> None:
    assert whole_number(text) is None
    assert signed_number(text) is None


def test_numbers_with_more_digits_than_int_parses_are_clamped() -> None:
    assert whole_number("9" * 10_000) == MAX_NUMBER
    assert whole_number("0" * 10_000) == 0
    assert signed_number("-" + "9" * 10_000) == -MAX_NUMBER
