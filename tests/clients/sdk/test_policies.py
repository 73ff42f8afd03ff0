"""Bucket policies, users without permissions, and public access."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.clients.boto import ANONYMOUS, Connect, all_keys, body_of, code_and_status, refused
from tests.clients.plain_http import fetch
from tests.clients.users import User
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration


def statement(effect: str, principal: object, actions: list[str], *resources: str, **more: object) -> dict[str, object]:
    return {
        "Effect": effect,
        "Principal": principal,
        "Action": actions,
        "Resource": [f"arn:aws:s3:::{resource}" for resource in resources],
        **more,
    }


def put_policy(s3: Any, bucket: str, *statements: dict[str, object]) -> None:
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))


def test_user_without_a_policy_has_no_permission(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, unprivileged: User
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    theirs = connect(lakebed_server, unprivileged.keys)
    with refused("AccessDenied", 403):
        theirs.get_object(Bucket=bucket, Key="k")
    with refused("AccessDenied", 403):
        theirs.put_object(Bucket=bucket, Key="new", Body=b"1")
    with refused("AccessDenied", 403):
        theirs.list_objects_v2(Bucket=bucket)
    with refused("AccessDenied", 403):
        theirs.create_bucket(Bucket=f"{bucket}-2")
    assert all_keys(s3, bucket) == ["k"]


def test_absent_key_is_access_denied_without_list_permission(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, unprivileged: User
) -> None:
    put_policy(s3, bucket, statement("Allow", {"AWS": unprivileged.arn}, ["s3:GetObject"], f"{bucket}/*"))
    with refused("AccessDenied", 403):
        connect(lakebed_server, unprivileged.keys).get_object(Bucket=bucket, Key="absent")
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="absent")


def test_bucket_policy_allows_a_user_its_prefix(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, unprivileged: User
) -> None:
    theirs = connect(lakebed_server, unprivileged.keys)
    put_policy(
        s3,
        bucket,
        statement("Allow", {"AWS": unprivileged.arn}, ["s3:GetObject", "s3:PutObject"], f"{bucket}/theirs/*"),
        statement(
            "Allow",
            {"AWS": unprivileged.arn},
            ["s3:ListBucket"],
            bucket,
            Condition={"StringLike": {"s3:prefix": ["theirs/*"]}},
        ),
    )
    theirs.put_object(Bucket=bucket, Key="theirs/k", Body=b"1")
    assert body_of(theirs, bucket, "theirs/k") == b"1"
    assert all_keys(theirs, bucket, "theirs/") == ["theirs/k"]
    with refused("AccessDenied", 403):
        theirs.list_objects_v2(Bucket=bucket)
    with refused("AccessDenied", 403):
        theirs.put_object(Bucket=bucket, Key="ours/k", Body=b"1")
    with refused("AccessDenied", 403):
        theirs.delete_object(Bucket=bucket, Key="theirs/k")
    s3.delete_bucket_policy(Bucket=bucket)
    with refused("AccessDenied", 403):
        theirs.get_object(Bucket=bucket, Key="theirs/k")


def test_deny_overrides_every_allow(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, writer: User
) -> None:
    theirs = connect(lakebed_server, writer.keys)
    theirs.put_object(Bucket=bucket, Key="kept/k", Body=b"1")
    put_policy(
        s3,
        bucket,
        statement("Allow", "*", ["s3:*"], bucket, f"{bucket}/*"),
        statement("Deny", {"AWS": writer.arn}, ["s3:DeleteObject"], f"{bucket}/kept/*"),
    )
    with refused("AccessDenied", 403):
        theirs.delete_object(Bucket=bucket, Key="kept/k")
    batch = theirs.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "kept/k"}, {"Key": "other"}]})
    assert [item["Key"] for item in batch["Deleted"]] == ["other"]
    assert [(item["Key"], item["Code"]) for item in batch["Errors"]] == [("kept/k", "AccessDenied")]
    assert all_keys(s3, bucket) == ["kept/k"]


def test_public_bucket_is_readable_without_credentials(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str
) -> None:
    stranger = connect(lakebed_server, ANONYMOUS)
    s3.put_object(Bucket=bucket, Key="public/k", Body=b"public")
    s3.put_object(Bucket=bucket, Key="private", Body=b"for us")
    with refused("AccessDenied", 403):
        stranger.get_object(Bucket=bucket, Key="public/k")
    put_policy(s3, bucket, statement("Allow", "*", ["s3:GetObject"], f"{bucket}/public/*"))
    assert s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"] is True
    assert body_of(stranger, bucket, "public/k") == b"public"
    assert fetch("GET", f"{lakebed_server.endpoint}/{bucket}/public/k").body == b"public"
    with refused("AccessDenied", 403):
        stranger.get_object(Bucket=bucket, Key="private")
    with refused("AccessDenied", 403):
        stranger.put_object(Bucket=bucket, Key="public/new", Body=b"1")
    with refused("AccessDenied", 403):
        stranger.list_objects_v2(Bucket=bucket)
    with refused("AccessDenied", 403):
        stranger.list_buckets()


def test_public_prefix_is_writable_without_credentials(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str
) -> None:
    put_policy(s3, bucket, statement("Allow", {"AWS": "*"}, ["s3:PutObject"], f"{bucket}/in/*"))
    stranger = connect(lakebed_server, ANONYMOUS)
    stranger.put_object(Bucket=bucket, Key="in/k", Body=b"anonymous")
    with refused("AccessDenied", 403):
        stranger.get_object(Bucket=bucket, Key="in/k")
    assert body_of(s3, bucket, "in/k") == b"anonymous"


def test_public_policy_is_refused_if_blocked(s3: Any, bucket: str) -> None:
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"BlockPublicPolicy": True})
    with refused("AccessDenied", 403):
        put_policy(s3, bucket, statement("Allow", "*", ["s3:GetObject"], f"{bucket}/*"))
    with refused("NoSuchBucketPolicy", 404):
        s3.get_bucket_policy(Bucket=bucket)


def test_restrict_public_buckets_denies_anonymous_access(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str
) -> None:
    put_policy(s3, bucket, statement("Allow", "*", ["s3:GetObject"], f"{bucket}/*"))
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    stranger = connect(lakebed_server, ANONYMOUS)
    assert body_of(stranger, bucket, "k") == b"1"
    s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={"RestrictPublicBuckets": True})
    with refused("AccessDenied", 403):
        stranger.get_object(Bucket=bucket, Key="k")


def test_policy_reads_back_and_an_invalid_one_is_refused(s3: Any, bucket: str) -> None:
    put_policy(s3, bucket, statement("Allow", "*", ["s3:GetObject"], f"{bucket}/*"))
    before = s3.get_bucket_policy(Bucket=bucket)["Policy"]
    assert json.loads(before)["Statement"][0]["Action"] == ["s3:GetObject"]
    for broken in ("{", json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Perhaps"}]})):
        with refused("MalformedPolicy", 400):
            s3.put_bucket_policy(Bucket=bucket, Policy=broken)
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == before


@pytest.mark.parametrize(
    ("actions", "condition", "message"),
    [
        (["s3:GetObject"], {"StringEquals": {"s3:NotARealKey": "x"}}, "Policy has an invalid condition key"),
        (
            ["s3:GetObject", "s3:PutObject"],
            {"StringEquals": {"s3:x-amz-acl": "private"}},
            "Conditions do not apply to combination of actions and resources in statement",
        ),
        (["s3:GetObject"], {"Null": {"aws:SourceIp": "true"}}, "Invalid IP address in Conditions"),
    ],
)
def test_condition_that_no_request_can_satisfy_is_refused(
    s3: Any, bucket: str, actions: list[str], condition: object, message: str
) -> None:
    with pytest.raises(ClientError) as caught:
        put_policy(s3, bucket, statement("Deny", "*", actions, f"{bucket}/*", Condition=condition))
    assert code_and_status(caught.value) == ("MalformedPolicy", 400)
    assert caught.value.response["Error"]["Message"] == message


def test_policy_can_deny_urls_with_unsigned_payload(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    assert fetch("GET", url).body == b"1"
    unsigned = {"StringEquals": {"s3:x-amz-content-sha256": "UNSIGNED-PAYLOAD"}}
    put_policy(s3, bucket, statement("Deny", "*", ["s3:GetObject"], f"{bucket}/*", Condition=unsigned))
    assert fetch("GET", url).status == 403
    # A query parameter added later is not covered by the signature.
    assert fetch("GET", url, headers={"x-amz-content-sha256": "0" * 64}).status == 403
    assert body_of(s3, bucket, "k") == b"1"


def test_policy_can_limit_how_old_a_signature_is(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    for limit_ms, status in (("3600000", 200), ("-1", 403)):
        old = {"NumericGreaterThan": {"s3:signatureAge": limit_ms}}
        put_policy(s3, bucket, statement("Deny", "*", ["s3:GetObject"], f"{bucket}/*", Condition=old))
        assert fetch("GET", s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})).status == status


def test_policy_can_require_conditional_writes(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, unprivileged: User
) -> None:
    put_policy(
        s3,
        bucket,
        statement(
            "Allow",
            {"AWS": unprivileged.arn},
            ["s3:PutObject", "s3:PutObjectTagging"],
            f"{bucket}/*",
            Condition={"StringEquals": {"s3:RequestObjectTag/stage": "raw"}},
        ),
    )
    theirs = connect(lakebed_server, unprivileged.keys)
    with refused("AccessDenied", 403):
        theirs.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="stage=final")
    theirs.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="stage=raw")
