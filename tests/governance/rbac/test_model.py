from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, InvalidName, PreconditionFailed
from lakebed.governance.rbac.model import (
    MAX_PROPERTIES,
    GrantTarget,
    check_principal_role_name,
    check_properties,
    check_role_name,
    check_version,
    pack_properties,
    unpack_properties,
)
from lakebed.governance.rbac.privileges import GrantKind
from lakebed.governance.tokens import RoleScope, parse_scope


@pytest.mark.parametrize("name", ["a", "data_engineer", "Café", "x" * 256, "two words", "system", "a.b-c", "系统"])
def test_valid_role_names(name: str) -> None:
    assert check_role_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            " a",
            "a ",
            "x" * 257,
            "a/b",
            "a\\b",
            "a:b",
            "a*",
            "a?",
            'a"b',
            "<a>",
            "a#b",
            "a+b",
            "a|b",
            "a`b",
        ),
        *("a\nb", "a\0b", "a\x7fb", "\ud800", "system$x", "SyStEm$", "a\u2028b"),
    ],
)
def test_invalid_role_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_role_name(name)


@pytest.mark.parametrize("name", ["two words", "ALL", "all"])
def test_principal_role_names_that_scopes_cannot_contain_are_refused(name: str) -> None:
    assert check_role_name(name) == name
    with pytest.raises(InvalidName):
        check_principal_role_name(name)


@given(st.text(max_size=20))
def test_scopes_can_name_every_valid_principal_role(name: str) -> None:
    try:
        check_principal_role_name(name)
    except InvalidName:
        return
    assert parse_scope(f"PRINCIPAL_ROLE:{name}") == RoleScope(frozenset({name}))


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_properties_round_trip(properties: dict[str, str]) -> None:
    try:
        checked = check_properties(properties)
    except InvalidInput:
        assert any("\0" in text or not text.isprintable() for pair in properties.items() for text in pair)
        return
    assert unpack_properties(pack_properties(checked)) == properties


@pytest.mark.parametrize(
    "properties",
    [
        {"": "x"},
        {"a": "b\0"},
        {"a\0": ""},
        {"a": "\ud800"},
        {str(number): "" for number in range(MAX_PROPERTIES + 1)},
        {"a": "x" * 70_000},
    ],
)
def test_invalid_properties_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        check_properties(properties)


def test_version_must_match() -> None:
    check_version(3, 3)
    with pytest.raises(PreconditionFailed, match="version=4 expected=3"):
        check_version(4, 3)


def test_target_contains_itself_and_its_contents() -> None:
    catalog = GrantTarget(GrantKind.CATALOG)
    outer = GrantTarget(GrantKind.NAMESPACE, ("a",))
    inner = GrantTarget(GrantKind.NAMESPACE, ("a", "b"))
    peer = GrantTarget(GrantKind.NAMESPACE, ("ab",))
    table = GrantTarget(GrantKind.TABLE, ("a", "b"), "t")
    assert all(catalog.contains(each) for each in (catalog, outer, inner, peer, table))
    assert [outer.contains(each) for each in (catalog, outer, inner, peer, table)] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert [table.contains(each) for each in (outer, inner, table)] == [False, False, True]
    assert not table.contains(GrantTarget(GrantKind.VIEW, ("a", "b"), "t"))


def test_text_of_targets() -> None:
    assert str(GrantTarget(GrantKind.CATALOG)) == "catalog"
    assert str(GrantTarget(GrantKind.NAMESPACE, ("a", "b"))) == "namespace a.b"
    assert str(GrantTarget(GrantKind.TABLE, ("a",), "t")) == "table a.t"
