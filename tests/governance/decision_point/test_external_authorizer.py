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

from .asking import RULES, Oracle, question, user

AND, INSTEAD = DecisionMode.AND, DecisionMode.INSTEAD
ALLOWS = policy(statement(action="*", resource="*"))
DENIES = policy(statement("Deny", action="s3tables:GetTableData", resource="*"))
ROOT = root_of(DEFAULT_ACCOUNT, "ROOTKEY")


def authorizer_of(oracle: Oracle, mode: DecisionMode, *, batch: bool = False) -> ExternalAuthorizer:
    clock = ManualClock()
    point = DecisionPoint(oracle.post, clock, cache_seconds=2, post_batch=oracle.post if batch else None)
    return ExternalAuthorizer(PolicyAuthorizer(clock), point, mode)


async def is_allowed(oracle: Oracle, mode: DecisionMode, caller: Principal, rules: ResourceRules = RULES) -> bool:
    authorizer: Authorizer = authorizer_of(oracle, mode)
    try:
        await authorizer.authorize(question(caller), rules)
    except AccessDenied:
        return False
    return True


@pytest.mark.parametrize(
    ("mode", "caller", "says", "allowed"),
    [
        # It may only refuse further.
        (AND, user(ALLOWS), True, True),
        (AND, user(ALLOWS), False, False),
        (AND, user(), True, False),
        (AND, user(ALLOWS, DENIES), True, False),
        (AND, ROOT, True, True),
        (AND, ROOT, False, False),
        (AND, ANONYMOUS, True, False),
        # It allows, and what denies still denies.
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
async def test_what_it_says_beside_policies(mode: DecisionMode, caller: Principal, says: bool, allowed: bool) -> None:
    assert await is_allowed(Oracle(lambda asked: says), mode, caller) is allowed


@pytest.mark.parametrize("mode", DecisionMode)
async def test_resource_policy_that_denies_is_not_lifted(mode: DecisionMode) -> None:
    rules = ResourceRules(DEFAULT_ACCOUNT, policy(statement("Deny", "*", "*", Principal="*")))
    assert not await is_allowed(Oracle(), mode, user(ALLOWS), rules)
    assert not await is_allowed(Oracle(), mode, ROOT, rules)


async def test_what_policies_refuse_is_not_asked() -> None:
    oracle = Oracle()
    assert not await is_allowed(oracle, AND, user())
    assert not await is_allowed(oracle, INSTEAD, user(DENIES))
    assert oracle.asked == []


@pytest.mark.parametrize("mode", DecisionMode)
async def test_server_itself_is_not_asked_about(mode: DecisionMode) -> None:
    oracle = Oracle(lambda asked: False)
    assert await is_allowed(oracle, mode, root_of(DEFAULT_ACCOUNT))
    assert oracle.asked == []


@pytest.mark.parametrize("mode", DecisionMode)
async def test_keys_for_the_files_of_a_table_are_confined_and_not_asked_about(mode: DecisionMode) -> None:
    oracle = Oracle(lambda asked: False)
    inside = policy(statement(action="s3:GetObject", resource="arn:aws:s3:::lake/t/*"))
    caller = user(session=Session(None, 1, 2, policies=(inside,), delegated_for="T"))
    authorizer = authorizer_of(oracle, mode)
    await authorizer.authorize(AccessRequest(caller, "s3:GetObject", "arn:aws:s3:::lake/t/f"), RULES)
    with pytest.raises(AccessDenied):
        await authorizer.authorize(AccessRequest(caller, "s3:GetObject", "arn:aws:s3:::lake/u/f"), RULES)
    with pytest.raises(AccessDenied):
        await authorizer.authorize(
            AccessRequest(caller, "s3:GetObject", "arn:aws:s3:::lake/t/f"), ResourceRules("999999999999")
        )
    assert oracle.asked == []


@pytest.mark.parametrize("mode", DecisionMode)
async def test_without_an_answer_nothing_is_allowed_and_the_log_says_why(
    mode: DecisionMode, caplog: pytest.LogCaptureFixture
) -> None:
    oracle = Oracle()
    oracle.is_down = True
    with caplog.at_level(logging.ERROR, "lakebed.decisions"), pytest.raises(Unavailable, match="does not respond"):
        await authorizer_of(oracle, mode).authorize(question(user(ALLOWS)), RULES)
    (record,) = caplog.records
    told = record.__dict__
    assert (told["principal"], told["action"], told["request_id"]) == (
        f"arn:aws:iam::{DEFAULT_ACCOUNT}:user/ann",
        "s3tables:GetTableData",
        "R1",
    )
    assert "ConnectionRefusedError" in told["reason"]


async def test_refusal_is_in_the_words_of_every_other(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = authorizer_of(Oracle(lambda asked: False), AND)
    with (
        caplog.at_level(logging.INFO, "lakebed.decisions"),
        # The catalog shows of a refusal what stands before the principal.
        pytest.raises(AccessDenied, match=r"^the decision point does not allow it\. principal=arn:aws:iam::"),
    ):
        await authorizer.authorize(question(user(ALLOWS)), RULES)
    assert [record.message for record in caplog.records] == ["the decision point denied a request"]


async def test_lists_show_what_it_shows() -> None:
    oracle = Oracle(lambda asked: [1])
    authorizer = authorizer_of(oracle, AND, batch=True)
    assert authorizer.filters_lists
    some = [AccessTarget("TABLE_LIKE", ("lake", "ns", name)) for name in "ab"]
    assert await authorizer.visible(question(), RULES, some) == some[1:]
    assert await authorizer.visible(question(root_of(DEFAULT_ACCOUNT)), RULES, some) == some
    oracle.is_down = True
    with pytest.raises(Unavailable):
        await authorizer.visible(question(), RULES, some)


def test_lists_are_whole_where_nobody_answers_for_many() -> None:
    assert not authorizer_of(Oracle(), AND).filters_lists
