from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidScope
from lakebed.governance.tokens.scopes import ALL_ROLES, ROLE_PREFIX, RoleScope, parse_scope, stored_scope

names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=40).filter(
    lambda name: name != "ALL" and not any(character.isspace() for character in name)
)
scopes = st.one_of(st.just(ALL_ROLES), st.frozensets(names, min_size=1, max_size=5).map(RoleScope))


@pytest.mark.parametrize("text", [None, "", "catalog", "sign", "catalog sign", "PRINCIPAL_ROLE:ALL", " catalog "])
def test_words_that_name_no_role_mean_all_of_them(text: str | None) -> None:
    assert parse_scope(text) == ALL_ROLES


def test_named_roles_are_activated_and_no_others() -> None:
    assert parse_scope("PRINCIPAL_ROLE:a catalog PRINCIPAL_ROLE:b") == RoleScope(frozenset({"a", "b"}))


def test_all_includes_what_is_named_beside_it() -> None:
    assert parse_scope("PRINCIPAL_ROLE:a PRINCIPAL_ROLE:ALL") == ALL_ROLES


@pytest.mark.parametrize(
    "text",
    [
        "openid",
        "PRINCIPAL_ROLE:",
        "principal_role:a",
        "CATALOG",
        "PRINCIPAL_ROLE:a\tPRINCIPAL_ROLE:b",
        "PRINCIPAL_ROLE:a\x00",
        "PRINCIPAL_ROLE:" + "x" * 257,
        "catalog " * 1000,
    ],
)
def test_other_words_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidScope) as refusal:
        parse_scope(text)
    assert text.rstrip() == "PRINCIPAL_ROLE:" or text not in str(refusal.value)


@given(scopes)
def test_a_scope_reads_back_as_it_was_written(scope: RoleScope) -> None:
    assert stored_scope(scope.text) == scope


@given(scopes, scopes)
def test_an_exchange_never_widens(held: RoleScope, asked: RoleScope) -> None:
    if held.includes(asked):
        assert parse_scope(asked.text, within=held) == asked
    else:
        with pytest.raises(InvalidScope, match="exceeds"):
            parse_scope(asked.text, within=held)


@given(scopes)
def test_an_exchange_that_names_no_role_keeps_those_of_the_token(held: RoleScope) -> None:
    for words in (None, "", "catalog", "sign"):
        assert parse_scope(words, within=held) == held


@given(scopes, scopes, scopes)
def test_inclusion_is_an_order(one: RoleScope, two: RoleScope, three: RoleScope) -> None:
    assert one.includes(one)
    if one.includes(two) and two.includes(three):
        assert one.includes(three)
    if one.includes(two) and two.includes(one):
        assert one == two


@given(st.text())
def test_noise_is_a_scope_or_refused(text: str) -> None:
    try:
        scope = parse_scope(text)
    except InvalidScope:
        return
    assert scope.roles is None or all(f"{ROLE_PREFIX}{name}" in text for name in scope.roles)
