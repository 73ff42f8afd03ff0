"""Reads: ranges, parts, attributes, conditions, and overridden response headers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.clients.boto import body_of, refused

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
BODY = bytes(range(256)) * 1000
"""Stored as a blob."""

SMALL = BODY[:1000]
"""Stored inline in the metadata."""


@pytest.mark.parametrize("body", [SMALL, BODY], ids=["small", "large"])
@pytest.mark.parametrize(
    ("requested", "part"),
    [
        ("bytes=0-0", slice(0, 1)),
        ("bytes=10-19", slice(10, 20)),
        ("bytes=990-", slice(990, None)),
        ("bytes=-7", slice(-7, None)),
        ("bytes=500-99999999", slice(500, None)),
        ("bytes=-99999999", slice(None)),
    ],
)
def test_range_returns_part_of_the_body(s3: Any, bucket: str, body: bytes, requested: str, part: slice) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    answer = s3.get_object(Bucket=bucket, Key="k", Range=requested)
    expected = body[part]
    start = len(body) - len(expected) if part.start is None or part.start < 0 or part.stop is None else part.start
    assert answer["Body"].read() == expected
    assert answer["ContentRange"] == f"bytes {start}-{start + len(expected) - 1}/{len(body)}"
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
    head = s3.head_object(Bucket=bucket, Key="k", Range=requested)
    assert head["ContentLength"] == len(expected)


@pytest.mark.parametrize("requested", ["bytes=1000-", "bytes=5000-6000", "bytes=-0"])
def test_range_past_the_end_is_refused(s3: Any, bucket: str, requested: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=SMALL)
    with refused("InvalidRange", 416):
        s3.get_object(Bucket=bucket, Key="k", Range=requested)


@pytest.mark.parametrize("requested", ["bytes=7-3", "bytes=a-b", "items=0-1", "bytes=0-1,5-6"])
def test_invalid_range_returns_the_whole_body(s3: Any, bucket: str, requested: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=SMALL)
    assert body_of(s3, bucket, "k", Range=requested) == SMALL


@pytest.fixture
def in_parts(s3: Any, bucket: str) -> tuple[str, list[bytes]]:
    parts = [b"a" * (5 * MIB), b"b" * (5 * MIB + 7), b"the end"]
    target = {"Bucket": bucket, "Key": "k"}
    upload = s3.create_multipart_upload(**target, ChecksumAlgorithm="SHA256")["UploadId"]
    listed = []
    for number, part in zip((2, 5, 9), parts, strict=True):
        put = s3.upload_part(**target, UploadId=upload, PartNumber=number, Body=part, ChecksumAlgorithm="SHA256")
        listed.append({"PartNumber": number, "ETag": put["ETag"], "ChecksumSHA256": put["ChecksumSHA256"]})
    s3.complete_multipart_upload(**target, UploadId=upload, MultipartUpload={"Parts": listed})
    return bucket, parts


def test_parts_are_read_one_by_one(s3: Any, in_parts: tuple[str, list[bytes]]) -> None:
    bucket, parts = in_parts
    for number, part in enumerate(parts, 1):
        answer = s3.get_object(Bucket=bucket, Key="k", PartNumber=number)
        assert answer["PartsCount"] == 3
        assert answer["Body"].read() == part
    with refused("InvalidPartNumber", 416):
        s3.get_object(Bucket=bucket, Key="k", PartNumber=4)


def test_range_across_parts_is_whole(s3: Any, in_parts: tuple[str, list[bytes]]) -> None:
    bucket, parts = in_parts
    body = b"".join(parts)
    start, end = 5 * MIB - 3, 10 * MIB + 10
    assert body_of(s3, bucket, "k", Range=f"bytes={start}-{end - 1}") == body[start:end]


def test_attributes_have_parts_and_checksums(s3: Any, in_parts: tuple[str, list[bytes]]) -> None:
    bucket, parts = in_parts
    found = s3.get_object_attributes(
        Bucket=bucket,
        Key="k",
        ObjectAttributes=["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"],
        MaxParts=2,
    )
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert found["ETag"] == head["ETag"].strip('"')
    assert found["Checksum"]["ChecksumSHA256"] == head["ChecksumSHA256"]
    assert found["Checksum"]["ChecksumType"] == "COMPOSITE"
    assert found["ObjectSize"] == sum(map(len, parts))
    assert found["StorageClass"] == "STANDARD"
    shown = found["ObjectParts"]
    assert (shown["TotalPartsCount"], shown["IsTruncated"], shown["MaxParts"]) == (3, True, 2)
    assert [part["Size"] for part in shown["Parts"]] == [5 * MIB, 5 * MIB + 7]
    rest = s3.get_object_attributes(
        Bucket=bucket, Key="k", ObjectAttributes=["ObjectParts"], PartNumberMarker=shown["NextPartNumberMarker"]
    )["ObjectParts"]
    assert [part["Size"] for part in rest["Parts"]] == [7]
    assert rest["IsTruncated"] is False


def test_attributes_have_only_the_requested_fields(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=SMALL)
    found = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ObjectSize"])
    del found["ResponseMetadata"], found["LastModified"]
    assert found == {"ObjectSize": 1000}
    with refused("NoSuchKey", 404):
        s3.get_object_attributes(Bucket=bucket, Key="absent", ObjectAttributes=["ObjectSize"])


def test_conditions_of_a_read_are_checked(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=SMALL)["ETag"]
    hour = timedelta(hours=1)
    before, after = datetime.now(UTC) - hour, datetime.now(UTC) + hour
    assert body_of(s3, bucket, "k", IfMatch=etag) == SMALL
    assert body_of(s3, bucket, "k", IfNoneMatch='"another"') == SMALL
    assert body_of(s3, bucket, "k", IfModifiedSince=before) == SMALL
    assert body_of(s3, bucket, "k", IfUnmodifiedSince=after) == SMALL
    for condition in ({"IfMatch": '"another"'}, {"IfUnmodifiedSince": before}):
        with refused("PreconditionFailed", 412):
            s3.get_object(Bucket=bucket, Key="k", **condition)
        with refused("412", 412):
            s3.head_object(Bucket=bucket, Key="k", **condition)
    for condition in ({"IfNoneMatch": etag}, {"IfModifiedSince": after - hour / 2}):
        with refused("304", 304):
            s3.get_object(Bucket=bucket, Key="k", **condition)
        with refused("304", 304):
            s3.head_object(Bucket=bucket, Key="k", **condition)


def test_etag_condition_takes_precedence_over_time(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=SMALL)["ETag"]
    before = datetime.now(UTC) - timedelta(hours=1)
    assert body_of(s3, bucket, "k", IfMatch=etag, IfUnmodifiedSince=before) == SMALL
    with refused("304", 304):
        s3.get_object(Bucket=bucket, Key="k", IfNoneMatch=etag, IfModifiedSince=before)


def test_headers_of_an_object_are_stored_and_can_be_overridden(s3: Any, bucket: str) -> None:
    kept = {
        "ContentType": "text/csv",
        "CacheControl": "max-age=60",
        "ContentDisposition": 'attachment; filename="a.csv"',
        "ContentLanguage": "de",
        "ContentEncoding": "gzip",
    }
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Expires=datetime(2030, 1, 1, tzinfo=UTC), **kept)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert {name: head[name] for name in kept} == kept
    assert head["ExpiresString"] == "Tue, 01 Jan 2030 00:00:00 GMT"
    other = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="text/plain", ResponseCacheControl="no-store")
    assert (other["ContentType"], other["CacheControl"]) == ("text/plain", "no-store")
