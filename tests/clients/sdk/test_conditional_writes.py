"""Conditional writes, copies, completions and deletes: a failed condition is reported and changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.clients.boto import all_keys, body_of, code_and_status, refused

pytestmark = pytest.mark.integration


def _put(s3: Any, bucket: str, body: bytes, **condition: str) -> str:
    etag: str = s3.put_object(Bucket=bucket, Key="k", Body=body, **condition)["ETag"]
    return etag


def test_replacing_an_absent_object_is_not_found(s3: Any, bucket: str) -> None:
    with refused("NoSuchKey", 404):
        _put(s3, bucket, b"1", IfMatch='"any"')
    assert all_keys(s3, bucket) == []


def test_etag_is_accepted_with_and_without_quotes(s3: Any, bucket: str) -> None:
    etag = _put(s3, bucket, b"first")
    etag = _put(s3, bucket, b"second", IfMatch=etag)
    _put(s3, bucket, b"third", IfMatch=etag.strip('"'))
    assert body_of(s3, bucket, "k") == b"third"


def test_create_only_put_succeeds_over_a_delete_marker(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    _put(s3, bucket, b"first")
    with refused("PreconditionFailed", 412):
        _put(s3, bucket, b"second", IfNoneMatch="*")
    s3.delete_object(Bucket=bucket, Key="k")
    _put(s3, bucket, b"third", IfNoneMatch="*")
    assert body_of(s3, bucket, "k") == b"third"


def test_one_of_many_concurrent_creates_succeeds(s3: Any, bucket: str) -> None:
    def create(number: int) -> str:
        try:
            _put(s3, bucket, str(number).encode(), IfNoneMatch="*")
        except ClientError as error:
            return code_and_status(error)[0]
        return str(number)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(create, range(16)))
    (winner,) = [outcome for outcome in outcomes if outcome.isdigit()]
    assert set(outcomes) <= {winner, "PreconditionFailed", "ConditionalRequestConflict"}
    assert body_of(s3, bucket, "k") == winner.encode()


@pytest.mark.slow
def test_compare_and_swap_loses_no_increment(s3: Any, bucket: str) -> None:
    _put(s3, bucket, b"0")

    def step(_: int) -> None:
        while True:
            found = s3.get_object(Bucket=bucket, Key="k")
            value = int(found["Body"].read())
            try:
                _put(s3, bucket, str(value + 1).encode(), IfMatch=found["ETag"])
            except ClientError as error:
                if code_and_status(error)[0] not in ("PreconditionFailed", "ConditionalRequestConflict"):
                    raise
            else:
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(step, range(20)))
    assert body_of(s3, bucket, "k") == b"20"


def test_conditional_completion_fails_after_another_write(s3: Any, bucket: str) -> None:
    target = {"Bucket": bucket, "Key": "k"}
    upload = s3.create_multipart_upload(**target)["UploadId"]
    part = s3.upload_part(**target, UploadId=upload, PartNumber=1, Body=b"late")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    etag = _put(s3, bucket, b"first")
    with refused("PreconditionFailed", 412):
        s3.complete_multipart_upload(**target, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")
    assert body_of(s3, bucket, "k") == b"first"
    s3.complete_multipart_upload(**target, UploadId=upload, MultipartUpload=parts, IfMatch=etag)
    assert body_of(s3, bucket, "k") == b"late"


def test_repeated_completion_returns_the_same_response(s3: Any, bucket: str) -> None:
    target = {"Bucket": bucket, "Key": "k"}
    upload = s3.create_multipart_upload(**target)["UploadId"]
    part = s3.upload_part(**target, UploadId=upload, PartNumber=1, Body=b"once")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    first, second = (s3.complete_multipart_upload(**target, UploadId=upload, MultipartUpload=parts) for _ in range(2))
    assert first["ETag"] == second["ETag"]


def test_copy_checks_conditions_of_source_and_destination(s3: Any, bucket: str) -> None:
    etag = _put(s3, bucket, b"source")
    copy = {"Bucket": bucket, "Key": "copy", "CopySource": {"Bucket": bucket, "Key": "k"}}
    with refused("PreconditionFailed", 412):
        s3.copy_object(**copy, CopySourceIfMatch='"another"')
    with refused("PreconditionFailed", 412):
        s3.copy_object(**copy, CopySourceIfNoneMatch=etag)
    assert all_keys(s3, bucket) == ["k"]
    s3.copy_object(**copy, CopySourceIfMatch=etag, IfNoneMatch="*")
    with refused("PreconditionFailed", 412):
        s3.copy_object(**copy, IfNoneMatch="*")


def test_delete_of_a_changed_object_is_refused(s3: Any, bucket: str) -> None:
    old = _put(s3, bucket, b"old")
    new = _put(s3, bucket, b"new")
    with refused("PreconditionFailed", 412):
        s3.delete_object(Bucket=bucket, Key="k", IfMatch=old)
    assert body_of(s3, bucket, "k") == b"new"
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=new)
    assert all_keys(s3, bucket) == []


def test_copy_onto_itself_must_change_something(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Metadata={"a": "1"})
    itself = {"Bucket": bucket, "Key": "k", "CopySource": {"Bucket": bucket, "Key": "k"}}
    with refused("InvalidRequest", 400):
        s3.copy_object(**itself)
    s3.copy_object(**itself, MetadataDirective="REPLACE", Metadata={"b": "2"})
    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == {"b": "2"}
