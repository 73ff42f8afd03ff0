"""Policies on STS actions, and the condition keys that they can use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.clients.boto import Keys
from tests.wire.iceberg.lake import Answer, Lake, allow, opened_lake

ROLE = "arn:aws:iam::000000000000:role/ann"


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    """A server that receives plain HTTP from 127.0.0.1."""
    async with opened_lake(tmp_path) as opened:
        yield opened


def deny(action: str, **condition: dict[str, object]) -> dict[str, object]:
    return {"Effect": "Deny", "Action": action, "Resource": "*", "Condition": condition}


async def call(lake: Lake, keys: Keys, action: str = "AssumeRole", **form: str) -> Answer:
    fields = {"Action": action, "Version": "2011-06-15", **form}
    if action == "AssumeRole":
        fields = {"RoleArn": ROLE, "RoleSessionName": "shift", **fields}
    return await lake.send("POST", "/", urlencode(fields).encode(), {"user-agent": "engine/1"}, keys=keys)


MATCHING = [
    {"Bool": {"aws:SecureTransport": "false"}},
    {"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}},
    {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}},
    {"StringLike": {"aws:UserAgent": "engine/*"}},
    {"StringEquals": {"aws:RequestedRegion": "us-east-1"}},
    {"DateGreaterThan": {"aws:CurrentTime": "2000-01-01T00:00:00Z"}},
]
NOT_MATCHING = [
    {"Bool": {"aws:SecureTransport": "true"}},
    {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}},
    {"StringLike": {"aws:UserAgent": "browser/*"}},
    {"DateLessThan": {"aws:CurrentTime": "2000-01-01T00:00:00Z"}},
]


@pytest.mark.parametrize("action", ["AssumeRole", "GetSessionToken"])
@pytest.mark.parametrize("condition", MATCHING, ids=str)
async def test_denial_with_a_matching_condition_denies_the_request(
    lake: Lake, action: str, condition: dict[str, dict[str, object]]
) -> None:
    keys = await lake.user("ann", deny(f"sts:{action}", **condition))
    rejected = await call(lake, keys, action)
    assert rejected.status == 403
    assert b"<Code>AccessDenied</Code>" in rejected.body


@pytest.mark.parametrize("action", ["AssumeRole", "GetSessionToken"])
@pytest.mark.parametrize("condition", NOT_MATCHING, ids=str)
async def test_denial_with_another_condition_does_not_apply(
    lake: Lake, action: str, condition: dict[str, dict[str, object]]
) -> None:
    keys = await lake.user("ann", deny(f"sts:{action}", **condition))
    issued = await call(lake, keys, action)
    assert issued.status == 200
    assert b"<SessionToken>" in issued.body


async def test_conditions_can_use_session_tags_and_name(lake: Lake) -> None:
    tagging = {
        **allow("sts:TagSession"),
        "Condition": {
            "StringEquals": {"aws:RequestTag/team": "blue", "sts:RoleSessionName": "shift"},
            "ForAllValues:StringEquals": {"aws:TagKeys": ["team"]},
        },
    }
    keys = await lake.user("ann", tagging)
    team = {"Tags.member.1.Key": "team", "Tags.member.1.Value": "blue"}
    assert (await call(lake, keys, **team)).status == 200
    assert (await call(lake, keys, **(team | {"Tags.member.1.Value": "red"}))).status == 403
    assert (await call(lake, keys, **team, **{"Tags.member.2.Key": "rank", "Tags.member.2.Value": "1"})).status == 403
    assert (await call(lake, keys, RoleSessionName="other", **team)).status == 403


async def test_session_policy_with_an_unknown_action_is_rejected_with_a_suggestion(lake: Lake) -> None:
    keys = await lake.user("ann", allow("s3:*"))
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny("s3:DeletObject") | {"Condition": {}}]})
    rejected = await call(lake, keys, Policy=policy)
    assert rejected.status == 400
    assert b"<Code>MalformedPolicyDocument</Code>" in rejected.body
    assert b'did you mean "s3:DeleteObject"?' in rejected.body


async def test_number_of_form_parameters_is_limited(lake: Lake) -> None:
    keys = await lake.user("ann")
    rejected = await lake.send("POST", "/", b"a=b&" * 1000, keys=keys)
    assert (rejected.status, b"<Code>ValidationError</Code>" in rejected.body) == (400, True)
