from __future__ import annotations

from typing import Any

import pytest

from lakebed.core.access import canonical_id
from lakebed.core.errors import InvalidPolicy
from lakebed.governance.policy_language.bucket_policy import check_bucket_policy, is_public
from tests.governance.documents import OTHER, OWNER, policy, statement

BUCKET = "arn:aws:s3:::bucket"
OBJECTS = "arn:aws:s3:::bucket/*"


@pytest.mark.parametrize(
    "written",
    [
        statement(principal="*"),
        statement(principal={"AWS": "*"}, action="s3:ListBucket", resource=[BUCKET, OBJECTS]),
        statement(principal="*", action="s3:*", resource=[BUCKET, OBJECTS]),
        statement(principal="*", action="*", resource=OBJECTS),
        statement(principal="*", action="s3:*", resource=BUCKET),
        statement(principal="*", action="s3:ListBucket", resource="arn:aws:s3:::*"),
        statement(principal="*", action="s3:GetObject", resource="arn:aws:s3:::*/*"),
        statement(principal="*", action="s3:GetObject", resource="arn:aws:s3:::buck*"),
        statement(principal="*", resource="arn:aws:s3:::b?cket/x"),
        statement(principal="*", action="S3:GETOBJECT"),
        statement(principal="*", resource="arn:aws:s3:::bucket/${aws:username}/*"),
        statement(principal={"AWS": OWNER}, condition={"StringEquals": {"s3:ExistingObjectTag/a": "b"}}),
        statement(principal={"Service": "logging.s3.amazonaws.com"}, action="s3:PutObject"),
        statement(principal="*", condition={"IpAddress": {"AWS:SourceIP": ["10.0.0.0/8", "2001:db8::1"]}}),
        statement(principal="*", condition={"StringEquals": {"aws:SourceIp": "192.0.2.1"}}),
        statement(principal="*", condition={"Null": {"aws:TokenIssueTime": True}}),
        # One of the actions that a wildcard matches is enough.
        statement(principal="*", action="s3:Put*", condition={"StringEquals": {"s3:x-amz-acl": "private"}}),
        statement(principal="*", action="s3:*", condition={"StringEquals": {"s3:prefix": "x"}}),
        {
            "Effect": "Deny",
            "Principal": "*",
            "NotAction": "s3:ListBucket",
            "Resource": BUCKET,
            "Condition": {"StringEquals": {"s3:prefix": "x"}},
        },
        {"Effect": "Deny", "NotPrincipal": {"AWS": OWNER}, "Action": "s3:*", "Resource": OBJECTS},
        {"Effect": "Deny", "Principal": "*", "NotAction": "s3:ListBucket", "Resource": OBJECTS},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "NotResource": "arn:aws:s3:::bucket/open/*"},
    ],
)
def test_valid_bucket_policy_is_accepted(written: dict[str, object]) -> None:
    assert check_bucket_policy(policy(written), "bucket").statements


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (statement(), "must name a Principal"),
        (statement(NotPrincipal={"AWS": "*"}), "NotPrincipal"),
        (statement(principal="*", action="sts:AssumeRole"), "one of s3"),
        (statement(principal="*", action=["s3:GetObject", "s3tables:*"]), "one of s3"),
        (statement(principal="*", action="s3*"), "service:name"),
        (statement(principal="*", action="s3:GetObjects"), "unknown action"),
        (statement(principal="*", action="s3:Fetch*"), "unknown action"),
        (statement(principal="*", resource="*"), "not of this bucket"),
        (statement(principal="*", resource="arn:aws:s3:::bucket2/*"), "not of this bucket"),
        (statement(principal="*", resource=[OBJECTS, "arn:aws:s3:::other/*"]), "not of this bucket"),
        (statement(principal="*", resource="arn:aws:s3:::BUCKET/*"), "not of this bucket"),
        (statement(principal="*", resource="arn:aws:s3:::${aws:username}/*"), "not of this bucket"),
        (statement(principal="*", resource="arn:aws:sqs:::bucket/*"), "not of this bucket"),
        (statement(principal="*", resource="arn:aws:s3:us-east-1:111122223333:bucket"), "not of this bucket"),
        (statement(principal="*", action="s3:GetObject", resource=BUCKET), "does not apply"),
        (statement(principal="*", action="s3:ListBucket", resource=OBJECTS), "does not apply"),
        (statement(principal="*", action=["s3:GetObject", "s3:ListBucket"]), "does not apply"),
        (statement(principal="*", condition={"StringEquals": {"sts:x": "y"}}), "unknown condition key"),
        (statement(principal="*", condition={"StringEquals": {"s3:NotARealKey": "y"}}), "unknown condition key"),
        (statement(principal="*", condition={"StringEquals": {"aws:NotARealKey": "y"}}), "unknown condition key"),
        (statement(principal="*", condition={"StringEquals": {"s3:ExistingObjectTag": "y"}}), "unknown condition key"),
        (statement(principal="*", condition={"StringEquals": {"s3:prefix": "y"}}), "does not apply to the action"),
        (
            statement(
                principal="*", action=["s3:PutObject", "s3:GetObject"], condition={"Null": {"s3:x-amz-acl": "true"}}
            ),
            "does not apply to the action. key=s3:x-amz-acl action=s3:getobject",
        ),
        (
            statement(principal="*", action="s3:Get*", condition={"Null": {"s3:x-amz-acl": "true"}}),
            "does not apply to the action",
        ),
        (statement(principal="*", condition={"Null": {"aws:SourceIp": "true"}}), "not an address"),
        (statement(principal="*", condition={"StringLike": {"aws:sourceip": "10.*"}}), "not an address"),
        # An error of the condition precedes that of the action's resource.
        (
            statement(principal="*", action="s3:ListBucketMultipartUploads", condition={"Null": {"s3:prefix": "true"}}),
            "condition key does not apply",
        ),
        (statement(principal="*", Sid="x" * 20_481), "too large"),
    ],
)
def test_invalid_bucket_policy_is_refused_with_the_reason(written: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidPolicy, match=reason):
        check_bucket_policy(policy(written), "bucket")


TABLE_BUCKET = f"arn:aws:s3tables:us-east-1:{OWNER}:bucket/bucket"
TABLES = f"{TABLE_BUCKET}/table/*"


def tables(action: object, resource: object = TABLES, **more: Any) -> dict[str, object]:
    return statement(principal="*", action=action, resource=resource, **more)


@pytest.mark.parametrize(
    "written",
    [
        tables("s3tables:GetTable"),
        tables("S3TABLES:gettable", f"{TABLE_BUCKET}/table/0123"),
        tables("s3tables:*", [TABLE_BUCKET, TABLES]),
        tables("s3tables:*", TABLE_BUCKET),
        tables("s3tables:Get*", f"{TABLE_BUCKET}/*"),
        tables("*"),
        tables("s3tables:CreateTable", TABLE_BUCKET),
        tables(["s3tables:ListTables", "s3tables:RunTableMaintenance"], [TABLE_BUCKET, TABLES]),
        tables("s3tables:GetTableData", "arn:aws:s3tables:*:*:bucket/bucket/table/*"),
        tables("s3tables:GetTableData", "arn:aws:s3tables:*:*:*"),
        tables(["s3:GetObject", "s3tables:GetTableData"], [OBJECTS, TABLES]),
        statement(principal="*"),
        tables("s3tables:GetTable", condition={"StringEquals": {"s3tables:namespace": "ns"}}),
        tables("s3tables:GetTable", condition={"StringLike": {"S3Tables:TableName": "t*"}}),
        tables("s3tables:CreateTable", TABLE_BUCKET, condition={"StringEquals": {"s3tables:tableName": "t"}}),
        tables("s3tables:GetTable", condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}),
        tables("s3tables:*", condition={"StringEquals": {"s3tables:namespace": "ns"}}),
        {"Effect": "Deny", "Principal": "*", "NotAction": "s3tables:GetTable", "Resource": TABLES},
    ],
)
def test_valid_table_bucket_policy_is_accepted(written: dict[str, object]) -> None:
    assert check_bucket_policy(policy(written), "bucket", TABLE_BUCKET).statements


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (tables("s3tables:PutTablePolicy"), "unknown action"),
        (tables("s3tables:ListTableBuckets", TABLE_BUCKET), "unknown action"),
        (tables("s3tables:GetTables"), "unknown action"),
        (tables("glue:GetTable"), "one of s3 or s3tables"),
        (tables("lakebed:ConfigureBridge", TABLE_BUCKET), "one of s3 or s3tables"),
        (tables("s3tables:GetTable", TABLES.replace("bucket/bucket", "bucket/other")), "not of this bucket"),
        (tables("s3tables:GetTable", TABLES.replace(OWNER, OTHER)), "not of this bucket"),
        (tables("s3tables:GetTable", TABLES.replace("us-east-1", "eu-west-1")), "not of this bucket"),
        (tables("s3tables:GetTable", "*"), "not of this bucket"),
        (tables("s3tables:GetTable", "arn:aws:s3tables:us-east-1:${aws:username}:bucket/bucket"), "not of this bucket"),
        (tables("s3tables:GetTable", TABLE_BUCKET), "does not apply"),
        (tables("s3tables:ListTables", TABLES), "does not apply"),
        (tables("s3tables:GetTableData", OBJECTS), "does not apply"),
        (tables("s3:GetObject", TABLES), "does not apply"),
        (tables(["s3:GetObject", "s3tables:GetTable"], TABLES), "does not apply"),
        (tables("s3tables:GetTable", condition={"Null": {"s3tables:SSEAlgorithm": "true"}}), "unknown condition key"),
        (
            tables("s3tables:ListTables", TABLE_BUCKET, condition={"Null": {"s3tables:tableName": "true"}}),
            "does not apply to the action",
        ),
        (
            tables("s3tables:GetTableBucket", TABLE_BUCKET, condition={"Null": {"s3tables:namespace": "true"}}),
            "does not apply to the action",
        ),
        (
            tables("s3tables:GetTable", condition={"StringEquals": {"s3:authType": "POST"}}),
            "does not apply to the action",
        ),
        (
            statement(principal="*", condition={"StringEquals": {"s3tables:namespace": "ns"}}),
            "does not apply to the action",
        ),
    ],
)
def test_invalid_table_bucket_policy_is_refused_with_the_reason(written: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidPolicy, match=reason):
        check_bucket_policy(policy(written), "bucket", TABLE_BUCKET)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (tables("s3tables:GetTable"), "one of s3"),
        (tables("*"), "not of this bucket"),
        (
            statement(principal="*", action="*", condition={"StringEquals": {"s3tables:namespace": "ns"}}),
            "unknown condition key",
        ),
    ],
)
def test_policy_of_a_plain_bucket_cannot_name_tables(written: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidPolicy, match=reason):
        check_bucket_policy(policy(written), "bucket")


def test_every_statement_is_validated() -> None:
    with pytest.raises(InvalidPolicy, match="must name a Principal"):
        check_bucket_policy(policy(statement(principal="*"), statement(effect="Deny")), "bucket")


def limited(operator: str, key: str, value: object) -> bytes:
    return policy(statement(principal="*", condition={operator: {key: value}}))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (policy(statement(principal="*")), True),
        (policy(statement(principal={"AWS": "*"})), True),
        (policy(statement(principal={"AWS": [OWNER, "*"]})), True),
        (policy(statement(principal={"AWS": OWNER})), False),
        (policy(statement(principal={"AWS": "arn:aws:iam::s3tenant1:root"})), False),
        (policy(statement(principal={"CanonicalUser": canonical_id(OWNER)})), False),
        (policy(statement(principal={"Service": "logging.s3.amazonaws.com"})), False),
        (policy(statement(effect="Deny", principal="*")), False),
        (policy(statement(principal={"AWS": OWNER}), statement(principal="*", action="s3:PutObject")), True),
        (policy(statement(principal="*"), statement(effect="Deny", principal="*")), True),
        (limited("IpAddress", "aws:SourceIp", "10.0.0.0/32"), False),
        (limited("IpAddress", "aws:SourceIp", ["203.0.113.0/24", "10.0.0.0/8"]), False),
        (limited("IpAddress", "aws:SourceIp", "0.0.0.0/0"), True),
        (limited("IpAddress", "aws:SourceIp", "0.0.0.0/1"), True),
        (limited("IpAddress", "aws:SourceIp", ["203.0.113.0/24", "::/0"]), True),
        (limited("IpAddress", "aws:SourceIp", "2001:db8::/32"), False),
        (limited("IpAddress", "aws:SourceIp", "2001::/16"), True),
        (limited("NotIpAddress", "aws:SourceIp", "10.0.0.0/8"), True),
        (limited("IpAddressIfExists", "aws:SourceIp", "10.0.0.0/8"), True),
        (limited("StringEquals", "aws:SourceAccount", OWNER), False),
        (limited("StringLike", "aws:SourceAccount", "1111*"), True),
        (limited("StringNotEquals", "aws:SourceAccount", OWNER), True),
        (limited("StringEquals", "aws:PrincipalOrgID", "o-1"), False),
        (limited("StringEqualsIfExists", "aws:PrincipalOrgID", "o-1"), True),
        (limited("ForAllValues:StringEquals", "aws:PrincipalOrgID", "o-1"), True),
        (limited("ForAnyValue:StringEquals", "aws:PrincipalOrgID", "o-1"), False),
        (limited("StringEquals", "aws:userid", "${aws:userid}"), True),
        (limited("ArnEquals", "aws:SourceArn", "arn:aws:s3:::source"), False),
        (limited("ArnLike", "aws:SourceArn", "arn:aws:s3:::*"), True),
        (limited("StringEquals", "aws:SourceVpce", "vpce-1"), False),
        (limited("StringEquals", "s3:ExistingObjectTag/public", "yes"), True),
        (limited("StringEquals", "aws:Referer", "https://example.org"), True),
    ],
)
def test_is_public(document: bytes, expected: bool) -> None:
    assert is_public(document) is expected
