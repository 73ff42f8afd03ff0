from __future__ import annotations

import pytest

from lakebed.core.access import ANONYMOUS, canonical_id, root_of
from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policy_language.principal_element import GrantScope, parse_principal_element
from tests.governance.documents import OTHER, OWNER, session, user

BOB = "arn:aws:iam::111122223333:user/bob"


@pytest.mark.parametrize(
    ("element", "caller", "expected"),
    [
        ("*", ANONYMOUS, GrantScope.DIRECT),
        ({"AWS": "*"}, ANONYMOUS, GrantScope.DIRECT),
        ({"AWS": ["*"]}, user(), GrantScope.DIRECT),
        ({"AWS": BOB}, user(), GrantScope.DIRECT),
        ({"AWS": BOB}, user("eve"), GrantScope.NONE),
        ({"AWS": BOB}, user(account=OTHER), GrantScope.NONE),
        ({"AWS": BOB}, ANONYMOUS, GrantScope.NONE),
        ({"AWS": BOB}, root_of(OWNER), GrantScope.NONE),
        ({"AWS": OWNER}, user(), GrantScope.ACCOUNT),
        ({"AWS": f"arn:aws:iam::{OWNER}:root"}, user(), GrantScope.ACCOUNT),
        ({"AWS": OWNER}, root_of(OWNER), GrantScope.DIRECT),
        ({"AWS": OWNER}, user(account=OTHER), GrantScope.NONE),
        ({"AWS": OWNER}, ANONYMOUS, GrantScope.NONE),
        ({"CanonicalUser": canonical_id(OWNER)}, user(), GrantScope.ACCOUNT),
        ({"CanonicalUser": canonical_id(OWNER)}, root_of(OWNER), GrantScope.DIRECT),
        ({"CanonicalUser": canonical_id(OTHER)}, user(), GrantScope.NONE),
        ({"CanonicalUser": canonical_id("")}, ANONYMOUS, GrantScope.NONE),
        ({"AWS": canonical_id(OWNER)}, root_of(OWNER), GrantScope.DIRECT),
        ({"Service": "logging.s3.amazonaws.com"}, root_of(OWNER), GrantScope.NONE),
        ({"Service": "logging.s3.amazonaws.com", "AWS": BOB}, user(), GrantScope.DIRECT),
    ],
)
def test_scope_of_an_allow(element: object, caller: object, expected: GrantScope) -> None:
    assert parse_principal_element(element).grant(caller) is expected  # type: ignore[arg-type]  # a table of principals


IN_ROLE = user(session=session(arn=f"arn:aws:sts::{OWNER}:assumed-role/etl/nightly"))


@pytest.mark.parametrize(
    "named",
    [
        f"arn:aws:iam::{OWNER}:role/etl",
        f"arn:aws:iam::{OWNER}:role/team/etl",
        f"arn:aws:sts::{OWNER}:assumed-role/etl/nightly",
    ],
)
def test_claimed_role_can_be_denied_but_never_granted(named: str) -> None:
    grantees = parse_principal_element({"AWS": named})
    assert grantees.denies(IN_ROLE)
    assert grantees.grant(IN_ROLE) is GrantScope.NONE
    assert not grantees.exempts(IN_ROLE)


@pytest.mark.parametrize("named", [BOB, OWNER, "*"])
def test_claimed_role_does_not_escape_a_deny(named: str) -> None:
    assert parse_principal_element({"AWS": named}).denies(IN_ROLE)


def test_deny_of_an_account_applies_to_all_its_identities() -> None:
    grantees = parse_principal_element({"AWS": OWNER})
    assert grantees.denies(user())
    assert grantees.denies(root_of(OWNER))
    assert not grantees.denies(user(account=OTHER))
    assert not grantees.denies(ANONYMOUS)


def test_deny_with_not_principal_account_exempts_only_its_root() -> None:
    grantees = parse_principal_element({"AWS": OWNER})
    assert grantees.exempts(root_of(OWNER))
    assert not grantees.exempts(user())
    assert not grantees.exempts(ANONYMOUS)
    assert parse_principal_element({"AWS": BOB}).exempts(user())
    assert parse_principal_element("*").exempts(ANONYMOUS)


@pytest.mark.parametrize(
    "element",
    [
        "bob",
        "",
        None,
        [],
        {},
        ["*"],
        {"AWS": []},
        {"AWS": None},
        {"AWS": [1]},
        {"AWS": ""},
        {"AWS": "12345"},
        {"AWS": "arn:aws:iam::111122223333:user/*"},
        {"AWS": "arn:aws:iam::111122223333:user/b?b"},
        {"AWS": "arn:aws:iam:::user/bob"},
        {"AWS": "arn:aws:iam::111122223333:group/admins"},
        {"AWS": "arn:aws:iam::111122223333:role/"},
        {"AWS": "arn:aws:iam::*:root"},
        {"AWS": "arn:aws:sts::111122223333:assumed-role/etl"},
        {"AWS": "arn:aws:s3:::bucket"},
        {"CanonicalUser": "short"},
        {"CanonicalUser": "*"},
        {"Service": "*"},
        {"Service": "example.org"},
        {"Federated": "accounts.example.org"},
        {"aws": "*"},
    ],
)
def test_invalid_principal_is_refused(element: object) -> None:
    with pytest.raises(InvalidPolicy, match="principal"):
        parse_principal_element(element)
