from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policies.audiences import EVERYONE, Audience, AudiencePrincipal, read_audience

AT = ("restricts",)


def read(**document: Any) -> Audience:
    return read_audience({key.replace("_", "-"): value for key, value in document.items()}, AT)


def test_everyone_users_and_roles() -> None:
    assert read(everyone=True) == EVERYONE
    audience = read(
        principals=["ann"], principal_roles=["reader"], except_principals=["bo"], except_principal_roles=["a"]
    )
    assert audience == Audience(False, frozenset({"ann"}), frozenset({"reader"}), frozenset({"bo"}), frozenset({"a"}))


@pytest.mark.parametrize(
    ("principal", "included"),
    [
        (AudiencePrincipal("ann"), True),
        (AudiencePrincipal("cy"), False),
        (AudiencePrincipal("cy", frozenset({"reader"}), frozenset({"reader"})), True),
        # A token without the role does not lift the restriction.
        (AudiencePrincipal("cy", frozenset({"reader"})), True),
        (AudiencePrincipal("cy", frozenset({"reader", "chief"}), frozenset({"reader", "chief"})), False),
        # An exception applies only to activated roles.
        (AudiencePrincipal("cy", frozenset({"reader", "chief"}), frozenset({"reader"})), True),
        (AudiencePrincipal("bo", frozenset({"reader"}), frozenset({"reader"})), False),
    ],
)
def test_audience_includes(principal: AudiencePrincipal, included: bool) -> None:
    audience = read(
        principals=["ann"], principal_roles=["reader"], except_principals=["bo"], except_principal_roles=["chief"]
    )
    assert audience.includes(principal) is included


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (None, "$.restricts"),
        ([], "$.restricts"),
        ({}, "$.restricts"),
        ({"everyone": False}, "$.restricts"),
        ({"except-principals": ["a"]}, "$.restricts"),
        ({"everyone": "yes"}, "$.restricts.everyone"),
        ({"principals": "ann"}, "$.restricts.principals"),
        ({"principals": ["ann", 3]}, "$.restricts.principals[1]"),
        ({"principal-roles": [""]}, "$.restricts['principal-roles'][0]"),
        ({"everyone": True, "roles": []}, "$.restricts.roles"),
    ],
)
def test_errors_have_a_json_path(document: Any, path: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        read_audience(document, AT)
    assert refused.value.argument == path


NAMES = st.frozensets(st.sampled_from(["a", "b", "c"]))


@given(st.booleans(), NAMES, NAMES, NAMES, st.sampled_from(["x", "y"]), NAMES, NAMES)
def test_activating_fewer_roles_never_lifts_a_restriction(
    everyone: bool,
    roles: frozenset[str],
    exempt: frozenset[str],
    users: frozenset[str],
    name: str,
    granted: frozenset[str],
    dropped: frozenset[str],
) -> None:
    audience = Audience(everyone, users, roles, frozenset(), exempt)
    full, less = AudiencePrincipal(name, granted, granted), AudiencePrincipal(name, granted, granted - dropped)
    assert not audience.includes(full) or audience.includes(less)
