"""Object tagging."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.boto import refused

pytestmark = pytest.mark.integration

TAGS = [{"Key": "team", "Value": "data"}, {"Key": "Ünï code", "Value": "a+b=c/d:e@f"}]


def _tags(s3: Any, bucket: str, key: str = "k") -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]}


def test_tags_are_put_read_and_deleted(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    assert _tags(s3, bucket) == {}
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": TAGS})
    assert _tags(s3, bucket) == {"team": "data", "Ünï code": "a+b=c/d:e@f"}
    assert s3.head_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"] == "2"
    assert s3.get_object(Bucket=bucket, Key="k")["TagCount"] == 2
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert _tags(s3, bucket) == {}


def test_tags_are_set_with_the_upload(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="a=1&b=two%20words&c=")
    assert _tags(s3, bucket) == {"a": "1", "b": "two words", "c": ""}
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", Tagging="d=4")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"1")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload=parts)
    assert _tags(s3, bucket, "parts") == {"d": "4"}


def test_copy_keeps_or_replaces_tags(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="a=1")
    source = {"Bucket": bucket, "Key": "k"}
    s3.copy_object(Bucket=bucket, Key="kept", CopySource=source)
    s3.copy_object(Bucket=bucket, Key="replaced", CopySource=source, TaggingDirective="REPLACE", Tagging="b=2")
    assert _tags(s3, bucket, "kept") == {"a": "1"}
    assert _tags(s3, bucket, "replaced") == {"b": "2"}


def test_versions_have_separate_tags(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="n=1")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"2", Tagging="n=2")
    found = s3.get_object_tagging(Bucket=bucket, Key="k", VersionId=first)
    assert (found["VersionId"], found["TagSet"]) == (first, [{"Key": "n", "Value": "1"}])


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        ([{"Key": str(number), "Value": ""} for number in range(11)], "BadRequest"),
        ([{"Key": "k" * 129, "Value": ""}], "InvalidTag"),
        ([{"Key": "k", "Value": "v" * 257}], "InvalidTag"),
        ([{"Key": "k", "Value": "1"}, {"Key": "k", "Value": "2"}], "InvalidTag"),
    ],
    ids=["eleven", "long key", "long value", "same key twice"],
)
def test_invalid_tags_are_refused(s3: Any, bucket: str, tags: list[dict[str, str]], code: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Tagging="old=1")
    with refused(code, 400):
        s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": tags})
    assert _tags(s3, bucket) == {"old": "1"}
