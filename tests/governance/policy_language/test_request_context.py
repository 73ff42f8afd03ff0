from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from lakebed.core.access import ANONYMOUS, AccessRequest, Principal, root_of
from lakebed.core.clock import ManualClock
from lakebed.governance.policy_language.request_context import RequestContext
from tests.governance.documents import OWNER, session, user


def context_of(
    caller: Principal, context: Mapping[str, str | tuple[str, ...]] = MappingProxyType({})
) -> RequestContext:
    return RequestContext(
        AccessRequest(caller, "s3:GetObject", "arn:aws:s3:::b/k", context), ManualClock(1_700_000_000_500)
    )


@pytest.mark.parametrize(
    ("caller", "key", "expected"),
    [
        (user(), "aws:username", ("bob",)),
        (user(), "aws:principalarn", (f"arn:aws:iam::{OWNER}:user/bob",)),
        (user(), "aws:principalaccount", (OWNER,)),
        (user(), "aws:principaltype", ("User",)),
        (user(), "aws:userid", ("LKBU-bob",)),
        (user(), "aws:tokenissuetime", None),
        (root_of(OWNER), "aws:principaltype", ("Account",)),
        (root_of(OWNER), "aws:username", None),
        (root_of(OWNER), "aws:userid", (OWNER,)),
        (ANONYMOUS, "aws:principaltype", ("Anonymous",)),
        (ANONYMOUS, "aws:principalaccount", None),
        (ANONYMOUS, "aws:epochtime", ("1700000000",)),
        (user(), "aws:principalisawsservice", ("false",)),
        (ANONYMOUS, "aws:principalisawsservice", None),
        (user(), "aws:viaawsservice", ("false",)),
        (ANONYMOUS, "aws:viaawsservice", ("false",)),
        (user(), "aws:multifactorauthpresent", None),
        (user(session=session()), "aws:multifactorauthpresent", ("false",)),
        (user(), "aws:currenttime", ("2023-11-14T22:13:20.500000+00:00",)),
        (user(session=session()), "aws:tokenissuetime", ("2023-11-14T22:13:20+00:00",)),
        (user(session=session(tags=(("Team", "x"),))), "aws:principaltag/Team", ("x",)),
        (user(session=session(tags=(("Team", "x"),))), "aws:principaltag/team", None),
        (user(session=session(arn="arn:aws:sts::1:assumed-role/r/s")), "aws:principalarn", (user().arn,)),
    ],
)
def test_values_set_by_the_server(caller: Principal, key: str, expected: tuple[str, ...] | None) -> None:
    assert context_of(caller).values(key) == expected


def test_context_keys_are_case_insensitive() -> None:
    question = context_of(user(), {"aws:SourceIp": "10.0.0.1", "s3:RequestObjectTagKeys": ("a", "b")})
    assert question.values("aws:sourceip") == ("10.0.0.1",)
    assert question.values("s3:requestobjecttagkeys") == ("a", "b")
    assert question.values("s3:prefix") is None


@pytest.mark.parametrize(
    "key",
    [
        "aws:username",
        "AWS:UserId",
        "aws:PrincipalArn",
        "aws:PrincipalIsAWSService",
        "aws:PrincipalTag/Team",
        "aws:EpochTime",
        "aws:TokenIssueTime",
        "aws:MultiFactorAuthAge",
        "aws:MultiFactorAuthPresent",
        "aws:ViaAWSService",
    ],
)
def test_context_cannot_override_values_set_by_the_server(key: str) -> None:
    head, slash, tag = key.partition("/")
    assert context_of(ANONYMOUS, {key: "forged"}).values(head.lower() + slash + tag) != ("forged",)
