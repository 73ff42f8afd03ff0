"""Prefixes and lifetimes of vended credentials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.storage.cloud import ScopedToken
from lakebed.storage.cloud.scoped import check_lifetime, check_scope_prefix


@pytest.mark.parametrize("prefix", ["t1/", "a/b/", "it's/", 'quote"back\\slash/', "ü/"])
def test_keys_with_a_slash_are_prefixes(prefix: str) -> None:
    check_scope_prefix(prefix)


@pytest.mark.parametrize(
    "prefix", ["", "/", "t1", "a/b", "/t1/", "a//", "a//b/", "a/../", "../", "./", "a\0/", "k" * 1025 + "/"]
)
def test_other_prefixes_are_rejected(prefix: str) -> None:
    with pytest.raises(InvalidInput):
        check_scope_prefix(prefix)


@given(table=st.text(min_size=1, max_size=8), neighbour=st.text(min_size=1, max_size=8))
def test_no_accepted_prefix_contains_a_neighbour(table: str, neighbour: str) -> None:
    try:
        check_scope_prefix(table)
    except InvalidInput:
        return
    sibling = table[:-1] + neighbour
    assert not sibling.startswith(table) or neighbour.startswith("/")


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_lifetime_must_be_positive(seconds: float) -> None:
    with pytest.raises(InvalidInput):
        check_lifetime(seconds)


def test_token_is_not_shown() -> None:
    assert "hidden" not in repr(ScopedToken(Secret("hidden"), 1))
