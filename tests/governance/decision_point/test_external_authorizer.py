from __future__ import annotations

import logging

import pytest

from lakebed.core.access import (
    ANONYMOUS,
    DEFAULT_ACCOUNT,
    AccessRequest,
    AccessTarget,
    Authorizer,
    Principal,
    ResourceRules,
    Session,
    root_of,
)
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied, Unavailable
from lakebed.core.settings import DecisionMode
from lakebed.governance.authorizer import PolicyAuthorizer
from lakebed.governance.decision_point import DecisionPoint, ExternalAuthorizer
from tests.governance.documents import policy, statement

from .fakes import RULES, FakeDecisionPoint, access_request, user

AND, INSTEAD = DecisionMode.AND, DecisionMode.INSTEAD
ALLOWS = policy(statement(action="*", resource="*"))
DENIES = policy(statement("Deny", action="s3tables:GetTableData", resource="*"))
ROOT = root_of(DEFAULT_ACCOUNT, "ROOTKEY")


def authorizer_of(fake: FakeDecisionPoint, mode: DecisionMode, *, batch: bool = False) -> ExternalAuthorizer:
    clock = ManualClock()
    point = DecisionPoint(fake.post, clock, cache_seconds=2, post_batch=fake.post if batch else None)
    return ExternalAuthorizer(PolicyAuthorizer(clock), point, mode)


async def is_allowed(
    fake: FakeDecisionPoint, mode: DecisionMode, caller: Principal, rules: ResourceRules = RULES
) -> bool:
    authorizer: Authorizer = authorizer_of(fake, mode)
    try:
        await authorizer.authorize(access_request(caller), rules)
    except AccessDenied:
        return False
    return True


@pytest.mark.parametrize(
    ("mode", "caller", "decision", "allowed"),
    [
        # It can only refuse more.
        (AND, user(ALLOWS), True, True),
        (AND, user(ALLOWS), False, False),
        (AND, user(), True, False),
        (AND, user(ALLOWS, DENIES), True, False),
        (AND, ROOT, True, True),
        (AND, ROOT, False, False),
        (AND, ANONYMOUS, True, False),
        # It allows, but a deny still applies.
        (INSTEAD, user(), True, True),
        (INSTEAD, user(), False, False),
        (INSTEAD, user(ALLOWS), False, False),
        (INSTEAD, user(DENIES), True, False),
        (INSTEAD, ROOT, True, True),
        (INSTEAD, ROOT, False, False),
        (INSTEAD, ANONYMOUS, True, True),
        (INSTEAD, user(session=Session(None, 1, 2, policies=(ALLOWS,))), True, True),
        (INSTEAD, user(session=Session(None, 1, 2, policies=(policy(statement(action="s3:*")),))), True, False),
        (INSTEAD, user(session=Session(None, 1, 2, outer_policies=(DENIES,))), True, False),
    ],
)
async def test_combination_with_policies(mode: DecisionMode, caller: Principal, decision: bool, allowed: bool) -> None:
    assert await is_allowed(FakeDecisionPoint(lambda query: decision), mode, caller) is allowed


@pytest.mark.parametrize("mode", DecisionMode)
async def test_deny_in_the_resource_policy_still_applies(mode: DecisionMode) -> None:
    rules = ResourceRules(DEFAULT_ACCOUNT, policy(statement("Deny", "*", "*", Principal="*")))
    assert not await is_allowed(FakeDecisionPoint(), mode, user(ALLOWS), rules)
    assert not await is_allowed(FakeDecisionPoint(), mode, ROOT, rules)


async def test_requests_that_policies_refuse_are_not_queried() -> None:
    fake = FakeDecisionPoint()
    assert not await is_allowed(fake, AND, user())
    assert not await is_allowed(fake, INSTEAD, user(DENIES))
    assert fake.inputs == []


@pytest.mark.parametrize("mode", DecisionMode)
async def test_server_itself_is_exempt(mode: DecisionMode) -> None:
    fake = FakeDecisionPoint(lambda query: False)
    assert await is_allowed(fake, mode, root_of(DEFAULT_ACCOUNT))
    assert fake.inputs == []


@pytest.mark.parametrize("mode", DecisionMode)
async def test_vended_credentials_are_exempt_but_limited(mode: DecisionMode) -> None:
    fake = FakeDecisionPoint(lambda query: False)
    inside = policy(statement(action="s3:GetObject", resource="arn:aws:s3:::lake/t/*"))
    caller = user(session=Session(None, 1, 2, policies=(inside,), delegated_for="T"))
    authorizer = authorizer_of(fake, mode)
    await authorizer.authorize(AccessRequest(caller, "s3:GetObject", "arn:aws:s3:::lake/t/f"), RULES)
    with pytest.raises(AccessDenied):
        await authorizer.authorize(AccessRequest(caller, "s3:GetObject", "arn:aws:s3:::lake/u/f"), RULES)
    with pytest.raises(AccessDenied):
        await authorizer.authorize(
            AccessRequest(caller, "s3:GetObject", "arn:aws:s3:::lake/t/f"), ResourceRules("999999999999")
        )
    assert fake.inputs == []


@pytest.mark.parametrize("mode", DecisionMode)
async def test_failed_query_refuses_and_is_logged(mode: DecisionMode, caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeDecisionPoint()
    fake.is_down = True
    with caplog.at_level(logging.ERROR, "lakebed.decisions"), pytest.raises(Unavailable, match="does not respond"):
        await authorizer_of(fake, mode).authorize(access_request(user(ALLOWS)), RULES)
    (record,) = caplog.records
    fields = record.__dict__
    assert (fields["principal"], fields["action"], fields["request_id"]) == (
        f"arn:aws:iam::{DEFAULT_ACCOUNT}:user/ann",
        "s3tables:GetTableData",
        "R1",
    )
    assert "ConnectionRefusedError" in fields["reason"]


async def test_refusal_has_the_format_of_other_refusals(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = authorizer_of(FakeDecisionPoint(lambda query: False), AND)
    with (
        caplog.at_level(logging.INFO, "lakebed.decisions"),
        # The catalog shows the part of a refusal before the principal.
        pytest.raises(AccessDenied, match=r"^the decision point does not allow it\. principal=arn:aws:iam::"),
    ):
        await authorizer.authorize(access_request(user(ALLOWS)), RULES)
    assert [record.message for record in caplog.records] == ["the decision point denied a request"]


async def test_lists_are_filtered() -> None:
    fake = FakeDecisionPoint(lambda query: [1])
    authorizer = authorizer_of(fake, AND, batch=True)
    assert authorizer.filters_lists
    some = [AccessTarget("TABLE_LIKE", ("lake", "ns", name)) for name in "ab"]
    assert await authorizer.visible(access_request(), RULES, some) == some[1:]
    assert await authorizer.visible(access_request(root_of(DEFAULT_ACCOUNT)), RULES, some) == some
    fake.is_down = True
    with pytest.raises(Unavailable):
        await authorizer.visible(access_request(), RULES, some)


def test_lists_are_not_filtered_without_batch_support() -> None:
    assert not authorizer_of(FakeDecisionPoint(), AND).filters_lists
