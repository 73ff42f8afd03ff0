"""Temporary credentials: AssumeRole, session policies, and GetCallerIdentity."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.boto import Connect, Keys, all_keys, body_of, refused
from tests.clients.plain_http import fetch
from tests.clients.signing import EMPTY_SHA256, Signer
from tests.clients.users import User, administer, make_user
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration


EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


def assume(sts: Any, account: str, policy: object | None = None, **options: Any) -> Keys:
    if policy is not None:
        options["Policy"] = json.dumps(policy)
    made = sts.assume_role(RoleArn=f"arn:aws:iam::{account}:role/reader", RoleSessionName="a-session", **options)
    key = made["Credentials"]
    return Keys(key["AccessKeyId"], key["SecretAccessKey"], key["SessionToken"])


def prefix_policy(bucket: str, prefix: str) -> dict[str, object]:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject"],
                "Resource": [f"arn:aws:s3:::{bucket}/{prefix}*"],
            },
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [f"arn:aws:s3:::{bucket}"],
                "Condition": {"StringLike": {"s3:prefix": [f"{prefix}*"]}},
            },
        ],
    }


@pytest.fixture
def sts(connect: Connect, lakebed_server: RunningServer, writer: User) -> Any:
    return connect(lakebed_server, writer.keys, service="sts")


@pytest.fixture
def account(sts: Any) -> str:
    found: str = sts.get_caller_identity()["Account"]
    return found


def test_caller_identity_is_returned(
    connect: Connect, lakebed_server: RunningServer, sts: Any, account: str, writer: User
) -> None:
    assert sts.get_caller_identity()["Arn"] == writer.arn
    keys = assume(sts, account)
    session = connect(lakebed_server, keys, service="sts").get_caller_identity()
    assert session["Arn"] == f"arn:aws:sts::{account}:assumed-role/reader/a-session"
    root = connect(lakebed_server, service="sts").get_caller_identity()
    assert root["Arn"] == f"arn:aws:iam::{root['Account']}:root"


def test_session_policy_limits_access_to_its_prefix(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, sts: Any, account: str
) -> None:
    s3.put_object(Bucket=bucket, Key="outside/k", Body=b"1")
    session = connect(lakebed_server, assume(sts, account, prefix_policy(bucket, "inside/")))
    session.put_object(Bucket=bucket, Key="inside/k", Body=b"vended")
    assert body_of(session, bucket, "inside/k") == b"vended"
    assert all_keys(session, bucket, "inside/") == ["inside/k"]
    for outside in ("outside/k", "insid", "inside", "inside-out", "../inside/k"):
        with refused("AccessDenied", 403):
            session.get_object(Bucket=bucket, Key=outside)
    with refused("AccessDenied", 403):
        session.put_object(Bucket=bucket, Key="outside/new", Body=b"1")
    with refused("AccessDenied", 403):
        session.delete_object(Bucket=bucket, Key="inside/k")
    with refused("AccessDenied", 403):
        session.list_objects_v2(Bucket=bucket, Prefix="outside/")
    with refused("AccessDenied", 403):
        session.copy_object(Bucket=bucket, Key="inside/copy", CopySource={"Bucket": bucket, "Key": "outside/k"})
    upload = session.create_multipart_upload(Bucket=bucket, Key="inside/parts")["UploadId"]
    with refused("AccessDenied", 403):
        session.upload_part_copy(
            Bucket=bucket,
            Key="inside/parts",
            UploadId=upload,
            PartNumber=1,
            CopySource={"Bucket": bucket, "Key": "outside/k"},
        )
    with refused("AccessDenied", 403):
        session.create_multipart_upload(Bucket=bucket, Key="outside/parts")
    assert all_keys(s3, bucket) == ["inside/k", "outside/k"]


def test_presigned_url_of_a_session_has_its_limits(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, sts: Any, account: str
) -> None:
    for key in ("inside/k", "outside/k"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    session = connect(lakebed_server, assume(sts, account, prefix_policy(bucket, "inside/")))

    def presign(key: str) -> str:
        url: str = session.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key})
        return url

    assert fetch("GET", presign("inside/k")).body == b"1"
    assert fetch("GET", presign("outside/k")).code == "AccessDenied"


def test_session_has_no_more_permissions_than_its_creator(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, reader: User, account: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    sts = connect(lakebed_server, reader.keys, service="sts")
    session = connect(lakebed_server, assume(sts, account, EVERYTHING))
    assert body_of(session, bucket, "k") == b"1"
    with refused("AccessDenied", 403):
        session.put_object(Bucket=bucket, Key="k", Body=b"2")


def test_session_of_a_session_keeps_its_limits(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, sts: Any, account: str
) -> None:
    for key in ("inside/k", "outside/k"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    outer = assume(sts, account, prefix_policy(bucket, "inside/"))
    inner = assume(connect(lakebed_server, outer, service="sts"), account, EVERYTHING)
    session = connect(lakebed_server, inner)
    assert body_of(session, bucket, "inside/k") == b"1"
    with refused("AccessDenied", 403):
        session.get_object(Bucket=bucket, Key="outside/k")


def test_temporary_credentials_require_their_session_token(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, sts: Any, account: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    keys = assume(sts, account)
    assert body_of(connect(lakebed_server, keys), bucket, "k") == b"1"
    without = Keys(keys.access_key, keys.secret_key)
    with refused("InvalidAccessKeyId", 403):
        connect(lakebed_server, without).get_object(Bucket=bucket, Key="k")
    token = keys.session_token or ""
    middle = len(token) // 2
    forged = token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :]
    with refused("InvalidToken", 400):
        connect(lakebed_server, Keys(keys.access_key, keys.secret_key, forged)).get_object(Bucket=bucket, Key="k")


@pytest.mark.parametrize("command", ["key disable", "key delete", "user disable", "user delete"])
def test_session_ends_immediately_with_its_key_or_user(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str, command: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    user = make_user(lakebed_server, "readwrite")
    sts = connect(lakebed_server, user.keys, service="sts")
    outer = assume(sts, sts.get_caller_identity()["Account"])
    inner = connect(lakebed_server, outer, service="sts").get_session_token()["Credentials"]
    sessions = [outer, Keys(inner["AccessKeyId"], inner["SecretAccessKey"], inner["SessionToken"])]
    # Connections go to the workers round-robin, so every worker has cached every session.
    clients = [connect(lakebed_server, keys) for keys in sessions for _ in range(2)]
    links = [client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}) for client in clients]
    for client in clients:
        assert body_of(client, bucket, "k") == b"1"
    noun, verb = command.split()
    administer(lakebed_server, noun, verb, user.name if noun == "user" else user.keys.access_key)
    for client in clients:
        with refused("InvalidAccessKeyId", 403):
            client.get_object(Bucket=bucket, Key="k")
    for link in links:
        answer = fetch("GET", link)
        assert (answer.status, answer.code) == (403, "InvalidAccessKeyId")
    for keys in (user.keys, outer):
        with refused("InvalidClientTokenId", 403):
            connect(lakebed_server, keys, service="sts").get_caller_identity()


def test_session_survives_rotation_and_reenabling_of_its_key(
    connect: Connect, lakebed_server: RunningServer, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    user = make_user(lakebed_server, "readonly")
    sts = connect(lakebed_server, user.keys, service="sts")
    session = connect(lakebed_server, assume(sts, sts.get_caller_identity()["Account"]))
    for verb in ("rotate", "disable", "enable"):
        administer(lakebed_server, "key", verb, user.keys.access_key)
    assert body_of(session, bucket, "k") == b"1"


def test_forged_session_token_is_refused(
    lakebed_server: RunningServer, s3: Any, bucket: str, sts: Any, account: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    keys = assume(sts, account)
    url = f"{lakebed_server.endpoint}/{bucket}/k"
    signed = Signer(Keys(keys.access_key, keys.secret_key)).headers("GET", url, EMPTY_SHA256)
    answer = fetch("GET", url, headers={**signed, "x-amz-security-token": keys.session_token or ""})
    assert (answer.status, answer.code) == (403, "AccessDenied")
    assert fetch("GET", url, headers=Signer(keys).headers("GET", url, EMPTY_SHA256)).body == b"1"


def test_invalid_credentials_are_refused_with_sts_errors(
    connect: Connect, lakebed_server: RunningServer, writer: User
) -> None:
    with refused("SignatureDoesNotMatch", 403):
        connect(lakebed_server, Keys(writer.keys.access_key, "another"), service="sts").get_caller_identity()
    for keys in (Keys("LKBDUNKNOWN", "a secret"), Keys(writer.keys.access_key, "a secret", "no token")):
        with refused("InvalidClientTokenId", 403):
            connect(lakebed_server, keys, service="sts").get_session_token()


def test_invalid_session_request_is_refused(sts: Any, account: str) -> None:
    with refused("MalformedPolicyDocument", 400):
        sts.assume_role(RoleArn=f"arn:aws:iam::{account}:role/r", RoleSessionName="a-session", Policy="{")
    with refused("ValidationError", 400):
        assume(sts, account, DurationSeconds=43_201)
    with refused("AccessDenied", 403):
        assume(sts, "111122223333")
