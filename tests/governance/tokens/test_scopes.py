from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidScope
from lakebed.governance.tokens.scopes import ALL_ROLES, ROLE_PREFIX, RoleScope, parse_scope

names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=40).filter(
    lambda name: name != "ALL" and not any(character.isspace() for character in name)
)
scopes = st.one_of(st.just(ALL_ROLES), st.frozensets(names, min_size=1, max_size=5).map(RoleScope))


@pytest.mark.parametrize("text", [None, "", "catalog", "sign", "catalog sign", "PRINCIPAL_ROLE:ALL", " catalog "])
def test_scopes_without_a_role_mean_all_roles(text: str | None) -> None:
    assert parse_scope(text) == ALL_ROLES


def test_only_named_roles_are_activated() -> None:
    assert parse_scope("PRINCIPAL_ROLE:a catalog PRINCIPAL_ROLE:b") == RoleScope(frozenset({"a", "b"}))


def test_all_includes_named_roles() -> None:
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
def test_error_for_an_invalid_scope_does_not_contain_it(text: str) -> None:
    with pytest.raises(InvalidScope) as refusal:
        parse_scope(text)
    assert text.rstrip() == "PRINCIPAL_ROLE:" or text not in str(refusal.value)


@given(scopes)
def test_scopes_round_trip(scope: RoleScope) -> None:
    assert parse_scope(scope.text) == scope


@given(scopes, scopes)
def test_requested_scope_cannot_exceed_the_limit(granted: RoleScope, requested: RoleScope) -> None:
    if granted.includes(requested):
        assert parse_scope(requested.text, within=granted) == requested
    else:
        with pytest.raises(InvalidScope, match="exceeds"):
            parse_scope(requested.text, within=granted)


@given(scopes)
def test_scope_without_a_role_keeps_the_limit(granted: RoleScope) -> None:
    for scopes in (None, "", "catalog", "sign"):
        assert parse_scope(scopes, within=granted) == granted


@given(scopes, scopes, scopes)
def test_inclusion_is_a_partial_order(one: RoleScope, two: RoleScope, three: RoleScope) -> None:
    assert one.includes(one)
    if one.includes(two) and two.includes(three):
        assert one.includes(three)
    if one.includes(two) and two.includes(one):
        assert one == two


@given(st.text())
def test_any_text_is_a_scope_or_refused(text: str) -> None:
    try:
        scope = parse_scope(text)
    except InvalidScope:
        return
    assert scope.roles is None or all(f"{ROLE_PREFIX}{name}" in text for name in scope.roles)
