from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.governance.oidc import RoleMapping
from lakebed.governance.tokens import ALL_ROLES, RoleScope

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def roles(mapping: RoleMapping, said: object) -> set[str] | None:
    names = mapping.scope({"groups": said}).roles
    return None if names is None else set(names)


def test_without_a_path_the_user_s_own_roles_are_meant() -> None:
    assert RoleMapping.of("").scope({"groups": ["PRINCIPAL_ROLE:a"]}) == ALL_ROLES


def test_roles_come_as_a_list_or_as_a_text_with_spaces() -> None:
    mapping = RoleMapping.of("groups")
    for said in (["PRINCIPAL_ROLE:a", "PRINCIPAL_ROLE:b"], "PRINCIPAL_ROLE:a PRINCIPAL_ROLE:b"):
        assert roles(mapping, said) == {"a", "b"}
    assert roles(mapping, ["PRINCIPAL_ROLE:ALL"]) is None


def test_what_is_kept_matches_as_a_whole_and_rewrites_follow_each_other() -> None:
    mapping = RoleMapping.of("groups", "lake-.*", {"^lake-": "team-", "^team-(.+)$": r"PRINCIPAL_ROLE:\1"})
    assert roles(mapping, ["lake-readers", "not-lake-readers", "staff", "lake-"]) == {"readers"}


@pytest.mark.parametrize("said", [None, 7, True, {}, [], [7, None, ["x"]], "", ["reader", "PRINCIPAL_ROLE:", "x"]])
def test_what_is_no_role_activates_nothing(said: object) -> None:
    assert roles(RoleMapping.of("groups"), said) == set()


@pytest.mark.parametrize(
    ("path", "keep", "rewrites"),
    [
        ("a//b", "", {}),
        ("groups", "(", {}),
        ("groups", "", {"(": "x"}),
        ("groups", "", {"x": r"\1"}),
        ("groups", "", {"(?P<n>x)": r"\g<m>"}),
    ],
)
def test_expressions_that_cannot_be_are_refused_at_once(path: str, keep: str, rewrites: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        RoleMapping.of(path, keep, rewrites)


@given(json_values)
def test_whatever_a_token_says_is_roles_or_nothing(said: object) -> None:
    scope = RoleMapping.of("groups", "", {"^g-": "PRINCIPAL_ROLE:"}).scope({"groups": said})
    assert scope == ALL_ROLES or isinstance(scope, RoleScope)
    assert scope.roles is None or all(scope.roles)
