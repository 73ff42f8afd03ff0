from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policy_language.bucket_policy import _LIMITING_KEYS, check_bucket_policy
from lakebed.governance.policy_language.condition_keys import _CARRIERS, ADDRESS_KEYS, actions_with_key
from lakebed.governance.policy_language.identity_policy import check_identity_policy
from lakebed.governance.policy_language.resource_actions import (
    BUCKET_ACTIONS,
    OBJECT_ACTIONS,
    TABLE_ACTIONS,
    TABLE_BUCKET_ACTIONS,
)
from lakebed.governance.policy_language.wildcards import fold_key
from tests.governance.documents import policy, statement

ACTIONS = frozenset(action.lower() for action in OBJECT_ACTIONS | BUCKET_ACTIONS | TABLE_ACTIONS | TABLE_BUCKET_ACTIONS)
TABLE_BUCKET = "arn:aws:s3tables:us-east-1:111122223333:bucket/bucket"
RESOURCES = ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*", TABLE_BUCKET, f"{TABLE_BUCKET}/*"]


@pytest.mark.parametrize(
    ("key", "action", "expected"),
    [
        ("aws:sourceip", "s3:getobject", True),
        ("aws:principaltag/Team", "s3:deletebucket", True),
        ("s3:tlsversion", "s3:putbucketpolicy", True),
        ("s3:prefix", "s3:listbucket", True),
        ("s3:prefix", "s3:listbucketversions", True),
        ("s3:prefix", "s3:listbucketmultipartuploads", False),
        ("s3:prefix", "s3:getobject", False),
        ("s3:x-amz-acl", "s3:putobject", True),
        ("s3:x-amz-acl", "s3:putbucketacl", True),
        ("s3:x-amz-acl", "s3:getobject", False),
        ("s3:versionid", "s3:getobjectversion", True),
        ("s3:versionid", "s3:getobject", False),
        ("s3:existingobjecttag/Stage", "s3:getobject", True),
        ("s3:existingobjecttag/Stage", "s3:putobject", False),
        ("s3:existingobjecttag/Stage", "s3:deleteobject", False),
        ("s3:existingobjecttag/Stage", "s3:getobjectretention", False),
        ("s3:requestobjecttag/Stage", "s3:putobjecttagging", True),
        ("s3:requestobjecttag/Stage", "s3:putobjectacl", False),
        ("s3:object-lock-mode", "s3:putobjectretention", True),
        ("s3:object-lock-legal-hold", "s3:putobjectretention", False),
        ("s3:if-match", "s3:deleteobject", True),
        ("s3:if-none-match", "s3:deleteobject", False),
        ("s3:dataaccesspointarn", "s3:getobject", True),
        ("s3:dataaccesspointarn", "s3:getbucketlocation", False),
        ("aws:sourceip", "s3tables:gettable", True),
        ("s3:tlsversion", "s3tables:gettable", False),
        ("s3tables:namespace", "s3tables:listtables", True),
        ("s3tables:namespace", "s3tables:gettablebucket", False),
        ("s3tables:namespace", "s3:getobject", False),
        ("s3tables:tablename", "s3tables:createtable", True),
        ("s3tables:tablename", "s3tables:listtables", False),
    ],
)
def test_actions_with_a_key(key: str, action: str, expected: bool) -> None:
    able = actions_with_key(key)
    assert able is not None
    assert (action in able) is expected


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "s3:",
        "aws:",
        "s3:prefixes",
        "s3:prefix/x",
        "aws:sourceips",
        "sts:externalid",
        "s3:requestjobpriority",
        # Key families without a name.
        "s3:existingobjecttag",
        "s3:existingobjecttag/",
        "aws:requesttag",
        "aws:requesttag/",
    ],
)
def test_unknown_keys_have_no_actions(key: str) -> None:
    assert actions_with_key(key) is None


def test_table_contains_known_actions_in_lower_case() -> None:
    for key, able in _CARRIERS.items():
        assert key == key.lower()
        assert able
        assert able <= ACTIONS
    assert set(_CARRIERS) >= _LIMITING_KEYS | ADDRESS_KEYS


@given(st.sampled_from(sorted(_CARRIERS)), st.sampled_from(sorted(ACTIONS)), st.data())
def test_policy_is_accepted_exactly_if_the_action_has_the_key(key: str, action: str, data: st.DataObject) -> None:
    written = data.draw(st.sampled_from([key, key.upper(), key.title()])) + ("Tag" if key.endswith("/") else "")
    value = "192.0.2.1" if key in ADDRESS_KEYS else "x"
    named = statement(
        principal="*", action=action, resource=RESOURCES, condition={"StringEquals": {written: value}}, effect="Deny"
    )
    able = actions_with_key(fold_key(written))
    assert able is not None
    if action in able:
        assert check_bucket_policy(policy(named), "bucket", TABLE_BUCKET).denials
    else:
        with pytest.raises(InvalidPolicy, match="does not apply"):
            check_bucket_policy(policy(named), "bucket", TABLE_BUCKET)
    assert check_bucket_policy(policy({**named, "Action": "*"}), "bucket", TABLE_BUCKET).denials


@pytest.mark.parametrize(
    ("action", "condition"),
    [
        ("s3:GetObject", {"StringEquals": {"s3:prefix": "x"}}),
        ("sts:AssumeRole", {"StringEquals": {"sts:ExternalId": "x"}}),
        ("s3:GetObject", {"Null": {"aws:SourceIp": "true"}}),
        ("s3:*", {"StringLike": {"jwt:preferred_username": "x*"}}),
    ],
)
def test_identity_policies_can_name_keys_of_other_requests_and_services(action: str, condition: object) -> None:
    assert check_identity_policy(policy(statement(action=action, condition=condition))).grants
