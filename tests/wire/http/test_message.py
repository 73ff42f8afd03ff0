from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request, decode_component, parse_query

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.dictionaries(NAMES, NAMES, max_size=6))
def test_encoded_parameters_round_trip(parameters: dict[str, str]) -> None:
    raw = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items())
    assert parse_query(raw) == parameters


RAW_PAIRS = st.lists(st.text("ab=%2BcA9+é", max_size=8).filter(lambda pair: "&" not in pair), max_size=6)


@given(RAW_PAIRS, st.booleans())
def test_cached_and_uncached_decoding_agree(pairs: list[str], long: bool) -> None:
    if long:
        pairs = [*pairs, "long=" + "x" * 5000]
    parts = [pair.partition("=") for pair in pairs if pair]
    for _ in ("decoded", "cached"):
        try:
            decoded = [(decode_component(name), decode_component(value)) for name, _, value in parts]
        except InvalidInput:
            with pytest.raises(InvalidInput):
                parse_query("&".join(pairs))
        else:
            # The first of repeated parameters wins: in reverse order, it is set last.
            assert parse_query("&".join(pairs)) == dict(reversed(decoded))


def test_plus_is_a_space_and_an_encoded_plus_is_a_plus() -> None:
    assert parse_query("a=b+c%2B") == {"a": "b c+"}


def test_bare_name_has_an_empty_value() -> None:
    assert parse_query("uploads&acl=&&x==1") == {"uploads": "", "acl": "", "x": "=1"}


def test_first_of_repeated_parameters_wins() -> None:
    assert parse_query("a=1&a=2") == {"a": "1"}


@pytest.mark.parametrize("raw", ["a=%ff", "%fe=1", "prefix=caf%e9", "a=%00", "%00=a"])
def test_parameters_with_invalid_utf_8_or_nul_are_rejected(raw: str) -> None:
    with pytest.raises(InvalidInput):
        parse_query(raw)


def test_malformed_escapes_are_unchanged() -> None:
    assert parse_query("a=100%&b=%zz") == {"a": "100%", "b": "%zz"}


def test_query_is_parsed_once() -> None:
    request = Request("GET", "/", "a=1", {}, RequestBody(0), "http", "", "R")
    assert request.query == {"a": "1"}
    assert request.query is request.query
