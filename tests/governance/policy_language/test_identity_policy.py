from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policy_language.document import parse_policy
from lakebed.governance.policy_language.identity_policy import check_identity_policy, unknown_actions
from tests.governance.documents import policy, statement


def test_identity_policy_with_a_principal_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="must not name a Principal"):
        check_identity_policy(policy(statement(principal="*")))
    with pytest.raises(InvalidPolicy, match="must not name a Principal"):
        check_identity_policy(policy(statement(effect="Deny", NotPrincipal="*")))


def test_duplicate_statement_ids_are_refused() -> None:
    with pytest.raises(InvalidPolicy, match="unique"):
        check_identity_policy(policy(statement(Sid="a"), statement(effect="Deny", Sid="a")))
    assert check_identity_policy(policy(statement(), statement(Sid=""), statement(Sid="a"))).grants


@pytest.mark.parametrize("effect", ["Allow", "Deny"])
@pytest.mark.parametrize("element", ["Action", "NotAction"])
@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("s3:DeletObject", 'unknown action "s3:DeletObject"; did you mean "s3:DeleteObject"?'),
        ("s3tables:GetTables", 'unknown action "s3tables:GetTables"; did you mean "s3tables:GetTable"?'),
        ("sts:AsumeRole", 'unknown action "sts:AsumeRole"; did you mean "sts:AssumeRole"?'),
        (
            "lakebed:CreatePrincipals",
            'unknown action "lakebed:CreatePrincipals"; did you mean "lakebed:CreatePrincipal"?',
        ),
        ("lakebed:ReadEvent", 'unknown action "lakebed:ReadEvent"; did you mean "lakebed:ReadEvents"?'),
        ("streams:Reed", 'unknown action "streams:Reed"; did you mean "streams:Read"?'),
        ("streams:Xyzzy", 'unknown action "streams:Xyzzy"'),
        ("s3:Erase*", 'no known action matches "s3:Erase*"'),
        ("s3:GetObjec", 'unknown action "s3:GetObjec"; did you mean "s3:GetObject"?'),
        ("s3:GetObject??", 'no known action matches "s3:GetObject??"; did you mean "s3:GetObject"?'),
        ("x*:Fetch", 'no known action matches "x*:Fetch"'),
        ("s3table:GetTable", 'unknown service in action "s3table:GetTable"; did you mean "s3tables:GetTable"?'),
        ("s4:DeleteObject", 'unknown service in action "s4:DeleteObject"; did you mean "s3:DeleteObject"?'),
        ("s:DeleteObject", 'unknown service in action "s:DeleteObject"; did you mean "s3:DeleteObject"?'),
        ("3s:DeleteObject", 'unknown service in action "3s:DeleteObject"; did you mean "s3:DeleteObject"?'),
        ("aws:s3:DeleteObject", 'unknown action "aws:s3:DeleteObject"; did you mean "s3:DeleteObject"?'),
        ("s3 DeleteObject:x", 'unknown service in action "s3 DeleteObject:x"'),
        ("kms:De crypt", 'unknown action "kms:De crypt"'),
        ("stream:Read", 'unknown service in action "stream:Read"; did you mean "streams:Read"?'),
    ],
)
def test_unknown_action_is_refused_with_the_nearest_name(effect: str, element: str, action: str, reason: str) -> None:
    written = statement(effect=effect)
    del written["Action"]
    document = policy({**written, element: ["s3:GetObject", action]})
    with pytest.raises(InvalidPolicy) as refused:
        check_identity_policy(document)
    assert str(refused.value).startswith(reason)
    # Policies stored before this validation still parse and decide.
    assert parse_policy(document).statements
    (problem,) = unknown_actions(document)
    assert problem == str(refused.value)


@pytest.mark.parametrize(
    "action",
    [
        "*",
        "s3:*",
        "S3:getobject",
        "s3:Get*",
        "*:Get*",
        # Valid in AWS, whether or not this server authorizes them.
        "s3:ListAllMyBuckets",
        "s3:GetAccelerateConfiguration",
        "s3:PutStorageLensConfiguration",
        "s3tables:PutTableBucketPolicy",
        "sts:GetFederationToken",
        # Services that this server does not have.
        "kms:Decrypt",
        "s3-object-lambda:*",
        "iam:PassRole",
        "q:StartConversation",
        "m2:CreateEnvironment",
        "execute-api:Invoke",
    ],
)
def test_aws_actions_are_accepted(action: str) -> None:
    document = policy(statement(action=action))
    assert check_identity_policy(document).grants
    assert unknown_actions(document) == []


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("s3:prefx", 'unknown condition key "s3:prefx"; did you mean "s3:prefix"?'),
        ("aws:SourceIpp", 'did you mean "aws:SourceIp"?'),
        ("s3tables:colour", 'unknown condition key "s3tables:colour"'),
        ("s3:ExistingObjectTag", 'did you mean "s3:ExistingObjectTag/"?'),
    ],
)
def test_unknown_condition_key_is_refused_with_the_nearest_name(key: str, reason: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        check_identity_policy(policy(statement(effect="Deny", condition={"StringEquals": {key: "x"}})))
    assert reason in str(refused.value)


def test_resource_in_another_partition_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="partition aws"):
        check_identity_policy(policy(statement(effect="Deny", resource="arn:aws-cn:s3:::bucket/*")))
    assert check_identity_policy(policy(statement(resource="arn:*:s3:::bucket/*"))).grants
    assert check_identity_policy(policy(statement(resource="arn:aws-cn:kms:cn-north-1:111122223333:key/*"))).grants
