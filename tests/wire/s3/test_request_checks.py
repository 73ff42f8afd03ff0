from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakebed.core.access import DEFAULT_ACCOUNT, canonical_id
from tests.clients.boto import ANONYMOUS, connected, refused
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration


@pytest.fixture
def s3(lakebed_server: RunningServer) -> Iterator[Any]:  # Any: boto3's clients are made at run time
    with connected(lakebed_server) as client:
        yield client


@pytest.fixture
def anonymous(lakebed_server: RunningServer) -> Iterator[Any]:  # Any: as above
    with connected(lakebed_server, ANONYMOUS) as client:
        yield client


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"checks-{uuid.uuid4().hex[:20]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def open_bucket(s3: Any, bucket: str) -> str:
    """A bucket whose policy allows all actions to all callers."""
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": resources}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    return bucket


def test_request_with_a_wrong_expected_bucket_owner_changes_nothing(s3: Any, bucket: str) -> None:
    with refused("AccessDenied", 403):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", ExpectedBucketOwner="111122223333")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("owner", [DEFAULT_ACCOUNT, canonical_id(DEFAULT_ACCOUNT)])
def test_expected_owner_may_be_an_account_or_a_canonical_id(s3: Any, bucket: str, owner: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ExpectedBucketOwner=owner)
    assert s3.get_object(Bucket=bucket, Key="k", ExpectedBucketOwner=owner)["Body"].read() == b"x"


def test_copy_with_a_wrong_expected_source_owner_is_denied(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    source = {"Bucket": bucket, "Key": "k"}
    with refused("AccessDenied", 403):
        s3.copy_object(Bucket=bucket, Key="c", CopySource=source, ExpectedSourceBucketOwner="111122223333")
    s3.copy_object(Bucket=bucket, Key="c", CopySource=source, ExpectedSourceBucketOwner=DEFAULT_ACCOUNT)


def test_some_operations_require_a_signature_despite_a_public_policy(anonymous: Any, open_bucket: str) -> None:
    anonymous.put_object(Bucket=open_bucket, Key="k", Body=b"x")
    with refused("AccessDenied", 403):
        anonymous.create_multipart_upload(Bucket=open_bucket, Key="m")
    with refused("AccessDenied", 403):
        anonymous.copy_object(Bucket=open_bucket, Key="c", CopySource={"Bucket": open_bucket, "Key": "k"})


def test_public_policy_does_not_allow_access_to_itself(s3: Any, anonymous: Any, open_bucket: str) -> None:
    with refused("MethodNotAllowed", 405):
        anonymous.get_bucket_policy(Bucket=open_bucket)
    with refused("MethodNotAllowed", 405):
        anonymous.delete_bucket_policy(Bucket=open_bucket)
    assert s3.get_bucket_policy(Bucket=open_bucket)["Policy"]


def test_anonymous_caller_does_not_learn_why_access_is_denied(anonymous: Any, bucket: str) -> None:
    with pytest.raises(ClientError) as caught:
        anonymous.list_objects_v2(Bucket=bucket)
    assert caught.value.response["Error"]["Message"] == "Access Denied."
