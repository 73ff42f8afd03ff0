from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.events.rules.patterns import KeyPattern, ends_of, pattern_of

LETTERS = st.text("ab*", max_size=6)
KEYS = st.text("ab", max_size=8)


def overlap(one: str, other: str) -> bool:
    """Whether heads and tails of the patterns are compatible."""
    (head, tail), (other_head, other_tail) = ends_of(one), ends_of(other)
    return (head.startswith(other_head) or other_head.startswith(head)) and (
        tail.endswith(other_tail) or other_tail.endswith(tail)
    )


def matches(pattern: str, key: str) -> bool:
    return KeyPattern.of(pattern).matches(key)


def as_expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


@pytest.mark.parametrize(
    ("prefix", "suffix", "pattern"),
    [
        (None, None, "*"),
        ("", "", "*"),
        ("images/", ".jpg", "images/*.jpg"),
        ("images/", None, "images/*"),
        (None, ".jpg", "*.jpg"),
        ("foo*", "*bar", "foo*bar"),
        ("a**b", None, "a*b*"),
        ("*", "*", "*"),
    ],
)
def test_prefix_and_suffix_combine_in_one_pattern(prefix: str | None, suffix: str | None, pattern: str) -> None:
    assert pattern_of(prefix, suffix) == pattern


@given(LETTERS, KEYS)
def test_star_matches_any_characters(letters: str, key: str) -> None:
    pattern = pattern_of(letters, None)
    assert matches(pattern, key) == (as_expression(pattern).fullmatch(key) is not None)


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("*", "", True),
        ("*", "a\nb", True),
        ("foo*bar", "fobar", False),
        ("foo*bar", "foobar", True),
        ("aba*ba", "aba", False),
        ("a?c*", "abc", False),
        ("a?c*", "a?c", True),
        ("a[b]*", "ab", False),
        ("2026 Q1/*", "2026 Q1/x", True),
        ("ü*", "ü", True),
    ],
)
def test_other_characters_match_literally(pattern: str, key: str, expected: bool) -> None:
    assert matches(pattern, key) is expected


@given(st.text("ab/", max_size=4) | st.none(), st.text("ab/", max_size=4) | st.none(), KEYS)
def test_literal_filters_match_prefix_and_suffix(prefix: str | None, suffix: str | None, key: str) -> None:
    head, tail = prefix or "", suffix or ""
    expected = key.startswith(head) and key.endswith(tail) and len(key) >= len(head) + len(tail)
    assert matches(pattern_of(prefix, suffix), key) == expected


FILTERS = st.tuples(LETTERS | st.none(), LETTERS | st.none())


@given(FILTERS, FILTERS, KEYS)
def test_patterns_that_share_a_key_overlap(
    one: tuple[str | None, str | None], other: tuple[str | None, str | None], key: str
) -> None:
    first, second = pattern_of(*one), pattern_of(*other)
    if matches(first, key) and matches(second, key):
        assert overlap(first, second)
    assert overlap(first, second) == overlap(second, first)


@given(FILTERS, FILTERS)
def test_patterns_that_overlap_share_a_key(
    one: tuple[str | None, str | None], other: tuple[str | None, str | None]
) -> None:
    first, second = pattern_of(*one), pattern_of(*other)
    if overlap(first, second):
        heads = max(first.partition("*")[0], second.partition("*")[0], key=len)
        tails = max(first.rpartition("*")[2], second.rpartition("*")[2], key=len)
        key = heads + first.replace("*", "") + second.replace("*", "") + tails
        assert matches(first, key)
        assert matches(second, key)


def test_matching_many_stars_is_linear() -> None:
    """A backtracking matcher would take exponential time."""
    assert not matches("*a" * 300 + "*b", "a" * 900)
