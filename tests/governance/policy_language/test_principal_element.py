from __future__ import annotations

import pytest

from lakebed.core.access import ANONYMOUS, canonical_id, root_of
from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policy_language.principal_element import Grant, parse_grantees
from tests.governance.documents import OTHER, OWNER, session, user

BOB = "arn:aws:iam::111122223333:user/bob"


@pytest.mark.parametrize(
    ("element", "caller", "expected"),
    [
        ("*", ANONYMOUS, Grant.DIRECT),
        ({"AWS": "*"}, ANONYMOUS, Grant.DIRECT),
        ({"AWS": ["*"]}, user(), Grant.DIRECT),
        ({"AWS": BOB}, user(), Grant.DIRECT),
        ({"AWS": BOB}, user("eve"), Grant.NONE),
        ({"AWS": BOB}, user(account=OTHER), Grant.NONE),
        ({"AWS": BOB}, ANONYMOUS, Grant.NONE),
        ({"AWS": BOB}, root_of(OWNER), Grant.NONE),
        ({"AWS": OWNER}, user(), Grant.ACCOUNT),
        ({"AWS": f"arn:aws:iam::{OWNER}:root"}, user(), Grant.ACCOUNT),
        ({"AWS": OWNER}, root_of(OWNER), Grant.DIRECT),
        ({"AWS": OWNER}, user(account=OTHER), Grant.NONE),
        ({"AWS": OWNER}, ANONYMOUS, Grant.NONE),
        ({"CanonicalUser": canonical_id(OWNER)}, user(), Grant.ACCOUNT),
        ({"CanonicalUser": canonical_id(OWNER)}, root_of(OWNER), Grant.DIRECT),
        ({"CanonicalUser": canonical_id(OTHER)}, user(), Grant.NONE),
        ({"CanonicalUser": canonical_id("")}, ANONYMOUS, Grant.NONE),
        ({"AWS": canonical_id(OWNER)}, root_of(OWNER), Grant.DIRECT),
        ({"Service": "logging.s3.amazonaws.com"}, root_of(OWNER), Grant.NONE),
        ({"Service": "logging.s3.amazonaws.com", "AWS": BOB}, user(), Grant.DIRECT),
    ],
)
def test_grant(element: object, caller: object, expected: Grant) -> None:
    assert parse_grantees(element).grant(caller) is expected  # type: ignore[arg-type]  # a table of principals


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
    grantees = parse_grantees({"AWS": named})
    assert grantees.denies(IN_ROLE)
    assert grantees.grant(IN_ROLE) is Grant.NONE
    assert not grantees.exempts(IN_ROLE)


@pytest.mark.parametrize("named", [BOB, OWNER, "*"])
def test_claiming_a_role_escapes_no_denial(named: str) -> None:
    assert parse_grantees({"AWS": named}).denies(IN_ROLE)


def test_denial_of_an_account_hits_all_in_it() -> None:
    grantees = parse_grantees({"AWS": OWNER})
    assert grantees.denies(user())
    assert grantees.denies(root_of(OWNER))
    assert not grantees.denies(user(account=OTHER))
    assert not grantees.denies(ANONYMOUS)


def test_denial_of_all_but_an_account_spares_its_root_only() -> None:
    grantees = parse_grantees({"AWS": OWNER})
    assert grantees.exempts(root_of(OWNER))
    assert not grantees.exempts(user())
    assert not grantees.exempts(ANONYMOUS)
    assert parse_grantees({"AWS": BOB}).exempts(user())
    assert parse_grantees("*").exempts(ANONYMOUS)


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
        parse_grantees(element)
