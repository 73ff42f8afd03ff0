"""`could_allow` decides before a request is fully known. It never refuses what `decide` would allow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import ANONYMOUS, AccessRequest, Principal, ResourceRules, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied
from lakebed.governance.authorizer import PolicyAuthorizer

from .documents import OTHER, OWNER, policy, session, statement, user

AUTHORIZER = PolicyAuthorizer(ManualClock())
KEY = "arn:aws:s3:::bucket/key"
DELETE = "s3:DeleteObject"


def could(caller: Principal, bucket_policy: bytes | None = None, resource: str = "", action: str = DELETE) -> bool:
    rules = ResourceRules(OWNER, bucket_policy)
    return AUTHORIZER.could_allow(AccessRequest(caller, action, resource), rules)


def test_anonymous_caller_needs_a_public_grant_of_the_action() -> None:
    assert not could(ANONYMOUS)
    assert not could(ANONYMOUS, policy(statement(principal="*", action="s3:GetObject")))
    assert not could(ANONYMOUS, policy(statement(principal={"AWS": OWNER}, action=DELETE)))
    assert could(ANONYMOUS, policy(statement(principal="*", action="s3:Delete*")))


def test_unknown_values_may_match() -> None:
    grant = statement(principal="*", action=DELETE, condition={"StringEquals": {"s3:x": "y"}})
    assert could(ANONYMOUS, policy(grant))
    assert could(ANONYMOUS, policy(statement(principal="*", action=DELETE, resource="arn:aws:s3:::bucket/a/*")))
    variable = statement(action=DELETE, resource="arn:aws:s3:::bucket/${s3:prefix}/*")
    assert could(user("bob", OWNER, policy(variable)), resource=KEY)


def test_known_resource_must_match() -> None:
    caller = user("bob", OWNER, policy(statement(action=DELETE, resource="arn:aws:s3:::bucket/a/*")))
    assert could(caller)
    assert could(caller, resource="arn:aws:s3:::bucket/a/b")
    assert not could(caller, resource=KEY)


def test_only_an_unconditional_deny_refuses() -> None:
    allowed = statement(action="*", resource="*")
    for denial, expected in (
        (statement(effect="Deny", action=DELETE, resource="*"), False),
        (statement(effect="Deny", action=DELETE, resource="arn:aws:s3:::bucket/a/*"), True),
        (
            statement(effect="Deny", action=DELETE, resource="*", condition={"Bool": {"aws:SecureTransport": "false"}}),
            True,
        ),
    ):
        assert could(user("bob", OWNER, policy(allowed, denial))) is expected


def test_session_policy_must_possibly_allow_too() -> None:
    root = Principal("root", OWNER, f"arn:aws:iam::{OWNER}:root", is_root=True, session=session(policy(statement())))
    assert not could(root)
    assert could(root, action="s3:GetObject")
    assert could(root_of(OWNER))
    assert not could(root_of(OTHER))


ACTIONS = st.sampled_from(["s3:GetObject", DELETE, "s3:*", "*", "s3:Put*"])
RESOURCES = st.sampled_from(["*", KEY, "arn:aws:s3:::bucket/*", "arn:aws:s3:::other/*", "arn:aws:s3:::b*/${s3:prefix}"])
CONDITIONS = st.sampled_from([None, {"StringEquals": {"s3:prefix": "key"}}, {"Null": {"s3:prefix": "true"}}])
GRANTEES = st.sampled_from(["*", {"AWS": OWNER}, {"AWS": f"arn:aws:iam::{OWNER}:user/bob"}])


@st.composite
def statements(draw: st.DrawFn, *, with_principal: bool) -> dict[str, Any]:
    written = statement(
        effect=draw(st.sampled_from(["Allow", "Allow", "Deny"])),
        action=draw(ACTIONS),
        resource=draw(RESOURCES),
        condition=draw(CONDITIONS),
        principal=draw(GRANTEES) if with_principal else None,
    )
    for element in ("Action", "Resource"):
        if draw(st.integers(0, 4)) == 0:
            written[f"Not{element}"] = written.pop(element)
    return written


def documents(*, with_principal: bool) -> st.SearchStrategy[bytes]:
    return st.lists(statements(with_principal=with_principal), min_size=1, max_size=3).map(lambda all: policy(*all))


@given(
    st.sampled_from(["anonymous", "root", "bob", "foreign"]),
    st.lists(documents(with_principal=False), max_size=2),
    st.none() | documents(with_principal=True),
    st.none() | documents(with_principal=False),
    st.sampled_from(["s3:GetObject", DELETE, "s3:PutObject"]),
    st.sampled_from([{}, {"s3:prefix": "key"}]),
    st.booleans(),
)
def test_every_allowed_request_could_be_allowed(
    caller: str,
    identity: list[bytes],
    bucket_policy: bytes | None,
    limit: bytes | None,
    action: str,
    context: dict[str, str],
    knows_key: bool,
) -> None:
    within = None if limit is None else session(limit)
    callers = {
        "anonymous": ANONYMOUS,
        "root": Principal("root", OWNER, f"arn:aws:iam::{OWNER}:root", is_root=True, session=within),
        "bob": user("bob", OWNER, *identity, session=within),
        "foreign": user("eve", OTHER, *identity, session=within),
    }
    rules = ResourceRules(OWNER, bucket_policy)
    try:
        AUTHORIZER.decide(AccessRequest(callers[caller], action, KEY, context), rules)
    except AccessDenied:
        return
    assert AUTHORIZER.could_allow(AccessRequest(callers[caller], action, KEY if knows_key else ""), rules)


@pytest.mark.parametrize("resource", ["", KEY])
def test_requests_that_no_policy_allows_are_refused(resource: str) -> None:
    assert not could(user("bob", OWNER), resource=resource)
    assert not could(user("eve", OTHER, policy(statement(action="*", resource="*"))), resource=resource)
