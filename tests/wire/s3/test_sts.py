"""Which policies decide about temporary keys, and what they see of the request."""

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
    """A server that is spoken to over plain HTTP, from 127.0.0.1."""
    async with opened_lake(tmp_path) as opened:
        yield opened


def deny(action: str, **condition: dict[str, object]) -> dict[str, object]:
    return {"Effect": "Deny", "Action": action, "Resource": "*", "Condition": condition}


async def ask(lake: Lake, keys: Keys, action: str = "AssumeRole", **form: str) -> Answer:
    fields = {"Action": action, "Version": "2011-06-15", **form}
    if action == "AssumeRole":
        fields = {"RoleArn": ROLE, "RoleSessionName": "shift", **fields}
    return await lake.send("POST", "/", urlencode(fields).encode(), {"user-agent": "engine/1"}, keys=keys)


REFUSING = [
    {"Bool": {"aws:SecureTransport": "false"}},
    {"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}},
    {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}},
    {"StringLike": {"aws:UserAgent": "engine/*"}},
    {"StringEquals": {"aws:RequestedRegion": "us-east-1"}},
    {"DateGreaterThan": {"aws:CurrentTime": "2000-01-01T00:00:00Z"}},
]
PASSING = [
    {"Bool": {"aws:SecureTransport": "true"}},
    {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}},
    {"StringLike": {"aws:UserAgent": "browser/*"}},
    {"DateLessThan": {"aws:CurrentTime": "2000-01-01T00:00:00Z"}},
]


@pytest.mark.parametrize("action", ["AssumeRole", "GetSessionToken"])
@pytest.mark.parametrize("condition", REFUSING, ids=str)
async def test_denial_sees_where_and_how_the_request_came(
    lake: Lake, action: str, condition: dict[str, dict[str, object]]
) -> None:
    keys = await lake.user("ann", deny(f"sts:{action}", **condition))
    refused = await ask(lake, keys, action)
    assert refused.status == 403
    assert b"<Code>AccessDenied</Code>" in refused.body


@pytest.mark.parametrize("action", ["AssumeRole", "GetSessionToken"])
@pytest.mark.parametrize("condition", PASSING, ids=str)
async def test_denial_of_other_requests_keeps_nobody_out(
    lake: Lake, action: str, condition: dict[str, dict[str, object]]
) -> None:
    keys = await lake.user("ann", deny(f"sts:{action}", **condition))
    given = await ask(lake, keys, action)
    assert given.status == 200
    assert b"<SessionToken>" in given.body


async def test_tags_and_the_session_s_name_are_seen_too(lake: Lake) -> None:
    tagging = {
        **allow("sts:TagSession"),
        "Condition": {
            "StringEquals": {"aws:RequestTag/team": "blue", "sts:RoleSessionName": "shift"},
            "ForAllValues:StringEquals": {"aws:TagKeys": ["team"]},
        },
    }
    keys = await lake.user("ann", tagging)
    team = {"Tags.member.1.Key": "team", "Tags.member.1.Value": "blue"}
    assert (await ask(lake, keys, **team)).status == 200
    assert (await ask(lake, keys, **(team | {"Tags.member.1.Value": "red"}))).status == 403
    assert (await ask(lake, keys, **team, **{"Tags.member.2.Key": "rank", "Tags.member.2.Value": "1"})).status == 403
    assert (await ask(lake, keys, RoleSessionName="other", **team)).status == 403


async def test_session_policy_with_an_unknown_action_is_refused_with_the_nearest_name(lake: Lake) -> None:
    keys = await lake.user("ann", allow("s3:*"))
    policy = json.dumps({"Version": "2012-10-17", "Statement": [deny("s3:DeletObject") | {"Condition": {}}]})
    refused = await ask(lake, keys, Policy=policy)
    assert refused.status == 400
    assert b"<Code>MalformedPolicyDocument</Code>" in refused.body
    assert b'did you mean "s3:DeleteObject"?' in refused.body


async def test_a_request_has_a_limited_number_of_parameters(lake: Lake) -> None:
    keys = await lake.user("ann")
    refused = await lake.send("POST", "/", b"a=b&" * 1000, keys=keys)
    assert (refused.status, b"<Code>ValidationError</Code>" in refused.body) == (400, True)
