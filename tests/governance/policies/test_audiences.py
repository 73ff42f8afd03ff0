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
    told = read(principals=["ann"], principal_roles=["reader"], except_principals=["bo"], except_principal_roles=["a"])
    assert told == Audience(False, frozenset({"ann"}), frozenset({"reader"}), frozenset({"bo"}), frozenset({"a"}))


@pytest.mark.parametrize(
    ("person", "included"),
    [
        (AudiencePrincipal("ann"), True),
        (AudiencePrincipal("cy"), False),
        (AudiencePrincipal("cy", frozenset({"reader"}), frozenset({"reader"})), True),
        # A token that leaves the role out does not leave the restriction out.
        (AudiencePrincipal("cy", frozenset({"reader"})), True),
        (AudiencePrincipal("cy", frozenset({"reader", "chief"}), frozenset({"reader", "chief"})), False),
        # An exception is for who calls with the role.
        (AudiencePrincipal("cy", frozenset({"reader", "chief"}), frozenset({"reader"})), True),
        (AudiencePrincipal("bo", frozenset({"reader"}), frozenset({"reader"})), False),
    ],
)
def test_who_is_included(person: AudiencePrincipal, included: bool) -> None:
    told = read(
        principals=["ann"], principal_roles=["reader"], except_principals=["bo"], except_principal_roles=["chief"]
    )
    assert told.includes(person) is included


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
def test_faults_are_told_with_their_path(document: Any, path: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        read_audience(document, AT)
    assert refused.value.argument == path


NAMES = st.frozensets(st.sampled_from(["a", "b", "c"]))


@given(st.booleans(), NAMES, NAMES, NAMES, st.sampled_from(["x", "y"]), NAMES, NAMES)
def test_activating_less_never_sheds_a_restriction(
    everyone: bool,
    roles: frozenset[str],
    spared: frozenset[str],
    users: frozenset[str],
    name: str,
    held: frozenset[str],
    dropped: frozenset[str],
) -> None:
    audience = Audience(everyone, users, roles, frozenset(), spared)
    full, less = AudiencePrincipal(name, held, held), AudiencePrincipal(name, held, held - dropped)
    assert not audience.includes(full) or audience.includes(less)
