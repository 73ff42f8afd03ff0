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


def roles(mapping: RoleMapping, claim: object) -> set[str] | None:
    names = mapping.scope({"groups": claim}).roles
    return None if names is None else set(names)


def test_without_a_path_all_assigned_roles_are_activated() -> None:
    assert RoleMapping.of("").scope({"groups": ["PRINCIPAL_ROLE:a"]}) == ALL_ROLES


def test_roles_can_be_a_list_or_a_string_with_spaces() -> None:
    mapping = RoleMapping.of("groups")
    for claim in (["PRINCIPAL_ROLE:a", "PRINCIPAL_ROLE:b"], "PRINCIPAL_ROLE:a PRINCIPAL_ROLE:b"):
        assert roles(mapping, claim) == {"a", "b"}
    assert roles(mapping, ["PRINCIPAL_ROLE:ALL"]) is None


def test_filter_matches_in_full_and_rewrites_apply_in_order() -> None:
    mapping = RoleMapping.of("groups", "lake-.*", {"^lake-": "team-", "^team-(.+)$": r"PRINCIPAL_ROLE:\1"})
    assert roles(mapping, ["lake-readers", "not-lake-readers", "staff", "lake-"]) == {"readers"}


@pytest.mark.parametrize("claim", [None, 7, True, {}, [], [7, None, ["x"]], "", ["reader", "PRINCIPAL_ROLE:", "x"]])
def test_claims_without_roles_activate_nothing(claim: object) -> None:
    assert roles(RoleMapping.of("groups"), claim) == set()


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
def test_invalid_expressions_are_refused(path: str, keep: str, rewrites: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        RoleMapping.of(path, keep, rewrites)


@given(json_values)
def test_any_claim_maps_to_roles_or_nothing(claim: object) -> None:
    scope = RoleMapping.of("groups", "", {"^g-": "PRINCIPAL_ROLE:"}).scope({"groups": claim})
    assert scope == ALL_ROLES or isinstance(scope, RoleScope)
    assert scope.roles is None or all(scope.roles)
