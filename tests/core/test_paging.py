from __future__ import annotations

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.paging import MAX_TOKEN_CHARS, PageTokens


class Position(msgspec.Struct, frozen=True, array_like=True):
    key: str
    version: int | None = None


TOKENS = PageTokens("object-versions", Position)

positions = st.builds(
    Position, st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.none() | st.integers(0, 2**63 - 1)
)


@given(positions)
def test_page_token_round_trips(position: Position) -> None:
    assert TOKENS.decode(TOKENS.encode(position)) == position


@given(positions)
def test_page_token_is_url_safe(position: Position) -> None:
    assert set(TOKENS.encode(position)) <= set(string.ascii_letters + string.digits + "-_")


@given(st.text(max_size=200))
def test_malformed_token_is_rejected(noise: str) -> None:
    with pytest.raises(InvalidInput):
        TOKENS.decode(noise)


@given(positions, st.data())
def test_changed_token_is_rejected(position: Position, data: st.DataObject) -> None:
    token = TOKENS.encode(position)
    index = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(
        st.sampled_from(string.ascii_letters + string.digits + "-_+/=").filter(lambda c: c != token[index])
    )
    with pytest.raises(InvalidInput):
        TOKENS.decode(token[:index] + other + token[index + 1 :])


@given(positions, st.data())
def test_truncated_token_is_rejected(position: Position, data: st.DataObject) -> None:
    token = TOKENS.encode(position)
    with pytest.raises(InvalidInput):
        TOKENS.decode(token[: data.draw(st.integers(0, len(token) - 1))])


def test_token_of_a_different_listing_is_rejected() -> None:
    other = PageTokens("uploads", Position)
    with pytest.raises(InvalidInput, match="listing=uploads"):
        other.decode(TOKENS.encode(Position("a/b")))


def test_token_with_an_unexpected_position_is_rejected() -> None:
    older = PageTokens("object-versions", dict[str, str])
    with pytest.raises(InvalidInput):
        TOKENS.decode(older.encode({"key": "a"}))


def test_overlong_token_is_rejected_unparsed() -> None:
    with pytest.raises(InvalidInput):
        TOKENS.decode(TOKENS.encode(Position("k" * MAX_TOKEN_CHARS)))


def test_token_error_has_advice_and_the_token() -> None:
    with pytest.raises(InvalidInput, match="restart without one") as caught:
        TOKENS.decode("noise")
    assert (caught.value.argument, caught.value.value) == ("token", "noise")
