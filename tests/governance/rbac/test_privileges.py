from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.governance.rbac.privileges import (
    DIRECTLY_INCLUDED,
    GRANTABLE,
    INCLUDES,
    MASKS,
    TABLE_UPDATES,
    GrantKind,
    Privilege,
    check_grantable,
    mask_of,
    privilege_named,
)

P = Privilege

CONTRACT: Final = (
    Path(
        os.environ.get("POLARIS_CONTRACT") or Path(__file__).parents[4] / "shared" / "reference" / "openapi" / "polaris"
    )
    / "polaris-management-service.yml"
)

some = st.sampled_from(list(Privilege))


def includes_naively(wider: Privilege, narrower: Privilege) -> bool:
    """Whether one includes the other, by a fixed-point search."""
    reached = {wider}
    while True:
        further = {included for each in reached for included in DIRECTLY_INCLUDED.get(each, ())} | reached
        if further == reached:
            return narrower in reached
        reached = further


def test_numbers_are_stable() -> None:
    assert [each.value for each in Privilege] == list(range(1, 110))
    stored = {
        P.SERVICE_MANAGE_ACCESS: 1,
        P.CATALOG_MANAGE_ACCESS: 2,
        P.TABLE_LIST: 12,
        P.TABLE_READ_DATA: 20,
        P.CATALOG_MANAGE_METADATA: 31,
        P.PRINCIPAL_ROTATE_CREDENTIALS: 52,
        P.POLICY_MANAGE_GRANTS_ON_SECURABLE: 84,
        P.TABLE_ASSIGN_UUID: 85,
        P.TABLE_MANAGE_STRUCTURE: 102,
        P.STREAM_ALL: 109,
    }
    assert {each: each.value for each in stored} == stored


@given(some, some)
def test_closure_agrees_with_a_naive_search(wider: Privilege, narrower: Privilege) -> None:
    assert (narrower in INCLUDES[wider]) == includes_naively(wider, narrower)
    assert bool(MASKS[wider] >> narrower & 1) == includes_naively(wider, narrower)


@given(some, some, some)
def test_inclusion_is_a_partial_order(one: Privilege, two: Privilege, three: Privilege) -> None:
    assert one in INCLUDES[one]
    if two in INCLUDES[one] and three in INCLUDES[two]:
        assert three in INCLUDES[one]
    if two in INCLUDES[one] and one in INCLUDES[two]:
        assert one is two


@given(st.lists(some))
def test_mask_has_a_bit_for_each(privileges: list[Privilege]) -> None:
    mask = mask_of(privileges)
    assert {each for each in Privilege if mask >> each & 1} == set(privileges)


@pytest.mark.parametrize(
    ("wider", "included"),
    [
        (P.CATALOG_MANAGE_CONTENT, P.CATALOG_MANAGE_METADATA),
        (P.CATALOG_MANAGE_CONTENT, P.TABLE_READ_DATA),
        (P.CATALOG_MANAGE_METADATA, P.NAMESPACE_FULL_METADATA),
        (P.CATALOG_MANAGE_METADATA, P.TABLE_FULL_METADATA),
        (P.CATALOG_MANAGE_METADATA, P.VIEW_DROP),
        (P.CATALOG_MANAGE_METADATA, P.POLICY_ATTACH),
        (P.CATALOG_MANAGE_METADATA, P.CATALOG_READ_PROPERTIES),
        (P.TABLE_WRITE_DATA, P.TABLE_READ_DATA),
        (P.TABLE_WRITE_DATA, P.TABLE_WRITE_PROPERTIES),
        (P.TABLE_READ_DATA, P.TABLE_READ_PROPERTIES),
        (P.TABLE_READ_PROPERTIES, P.TABLE_LIST),
        (P.TABLE_CREATE, P.TABLE_LIST),
        (P.TABLE_FULL_METADATA, P.TABLE_MANAGE_STRUCTURE),
        (P.POLICY_FULL_METADATA, P.POLICY_CREATE),
        (P.POLICY_WRITE, P.POLICY_READ),
        (P.CATALOG_MANAGE_ACCESS, P.TABLE_MANAGE_GRANTS_ON_SECURABLE),
        (P.CATALOG_MANAGE_ACCESS, P.POLICY_MANAGE_GRANTS_ON_SECURABLE),
        (P.CATALOG_MANAGE_ACCESS, P.CATALOG_ROLE_CREATE),
        (P.SERVICE_MANAGE_ACCESS, P.PRINCIPAL_CREATE),
        (P.SERVICE_MANAGE_ACCESS, P.PRINCIPAL_ROLE_MANAGE_GRANTS_ON_SECURABLE),
        (P.SERVICE_MANAGE_ACCESS, P.CATALOG_DROP),
    ],
)
def test_wider_privilege_includes_the_narrower(wider: Privilege, included: Privilege) -> None:
    assert included in INCLUDES[wider]
    assert wider not in INCLUDES[included]


def test_metadata_privileges_do_not_include_data() -> None:
    for data in (P.TABLE_READ_DATA, P.TABLE_WRITE_DATA):
        holders = {each for each in Privilege if data in INCLUDES[each]}
        assert holders <= {P.TABLE_READ_DATA, P.TABLE_WRITE_DATA, P.CATALOG_MANAGE_CONTENT}


def test_access_and_content_do_not_include_each_other() -> None:
    access = INCLUDES[P.SERVICE_MANAGE_ACCESS] | INCLUDES[P.CATALOG_MANAGE_ACCESS]
    content = INCLUDES[P.CATALOG_MANAGE_CONTENT]
    assert not any(
        each.name.startswith(("NAMESPACE_", "TABLE_", "VIEW_", "POLICY_")) for each in INCLUDES[P.SERVICE_MANAGE_ACCESS]
    )
    assert not any("MANAGE_GRANTS" in each.name or "ROLE" in each.name for each in content)
    assert access & content == {P.CATALOG_LIST, P.CATALOG_READ_PROPERTIES, P.CATALOG_WRITE_PROPERTIES}


def test_manage_structure_includes_all_updates_but_snapshots() -> None:
    included = INCLUDES[P.TABLE_MANAGE_STRUCTURE] - {P.TABLE_MANAGE_STRUCTURE}
    assert included == TABLE_UPDATES - {P.TABLE_ADD_SNAPSHOT, P.TABLE_SET_SNAPSHOT_REF}
    assert TABLE_UPDATES < INCLUDES[P.TABLE_WRITE_PROPERTIES] < INCLUDES[P.TABLE_WRITE_DATA]


def test_policy_attachment_privileges() -> None:
    assert not {P.POLICY_ATTACH, P.POLICY_DETACH} & INCLUDES[P.POLICY_FULL_METADATA]


def test_no_privilege_includes_credential_rotation() -> None:
    assert {each for each in Privilege if P.PRINCIPAL_ROTATE_CREDENTIALS in INCLUDES[each]} == {
        P.PRINCIPAL_ROTATE_CREDENTIALS
    }


@pytest.mark.skipif(not CONTRACT.is_file(), reason=f"{CONTRACT} is not there; POLARIS_CONTRACT may name its folder")
@pytest.mark.parametrize("kind", GrantKind)
def test_grantable_privileges_are_those_of_the_contract(kind: GrantKind) -> None:
    from tests.wire.iceberg.contract import read_document

    schemas: dict[str, Any] = read_document(CONTRACT)["components"]["schemas"]
    assert {each.name for each in GRANTABLE[kind]} == set(schemas[f"{kind.capitalize()}Privilege"]["enum"])


@given(st.sampled_from(GrantKind), some)
def test_privileges_that_are_not_grantable_are_refused(kind: GrantKind, privilege: Privilege) -> None:
    if privilege in GRANTABLE[kind]:
        check_grantable(kind, privilege)
    else:
        with pytest.raises(InvalidInput, match=privilege.name):
            check_grantable(kind, privilege)


@given(st.text())
def test_privilege_is_found_only_by_its_name(name: str) -> None:
    if name in Privilege.__members__:
        assert privilege_named(name).name == name
    else:
        with pytest.raises(InvalidInput):
            privilege_named(name)
    assert privilege_named("TABLE_LIST") is P.TABLE_LIST
