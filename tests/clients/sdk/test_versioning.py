"""Versions and delete markers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.boto import all_keys, body_of, refused

pytestmark = pytest.mark.integration


@pytest.fixture
def versioned(s3: Any, bucket: str) -> str:
    _set_versioning(s3, bucket, "Enabled")
    return bucket


def _set_versioning(s3: Any, bucket: str, status: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def _put(s3: Any, bucket: str, key: str, body: bytes) -> str:
    version: str = s3.put_object(Bucket=bucket, Key=key, Body=body)["VersionId"]
    return version


def test_versioning_state_reads_back(s3: Any, bucket: str) -> None:
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    for status in ("Enabled", "Suspended"):
        _set_versioning(s3, bucket, status)
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == status


def test_every_version_stays_readable(s3: Any, versioned: str) -> None:
    first, second = _put(s3, versioned, "k", b"first"), _put(s3, versioned, "k", b"second")
    assert first != second
    assert body_of(s3, versioned, "k") == b"second"
    assert body_of(s3, versioned, "k", VersionId=first) == b"first"
    assert s3.head_object(Bucket=versioned, Key="k", VersionId=first)["ContentLength"] == 5


def test_delete_hides_the_object_with_a_delete_marker(s3: Any, versioned: str) -> None:
    version = _put(s3, versioned, "k", b"hidden")
    deleted = s3.delete_object(Bucket=versioned, Key="k")
    assert deleted["DeleteMarker"] is True
    with pytest.raises(s3.exceptions.NoSuchKey) as caught:
        s3.get_object(Bucket=versioned, Key="k")
    headers = caught.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert headers["x-amz-delete-marker"] == "true"
    assert headers["x-amz-version-id"] == deleted["VersionId"]
    assert all_keys(s3, versioned) == []
    assert body_of(s3, versioned, "k", VersionId=version) == b"hidden"
    with refused("MethodNotAllowed", 405):
        s3.get_object(Bucket=versioned, Key="k", VersionId=deleted["VersionId"])


def test_removing_the_delete_marker_restores_the_object(s3: Any, versioned: str) -> None:
    _put(s3, versioned, "k", b"restored")
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    removed = s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    assert (removed["DeleteMarker"], removed["VersionId"]) == (True, marker)
    assert body_of(s3, versioned, "k") == b"restored"


def test_removing_the_newest_version_restores_the_previous_one(s3: Any, versioned: str) -> None:
    first, second = _put(s3, versioned, "k", b"first"), _put(s3, versioned, "k", b"second")
    assert s3.delete_object(Bucket=versioned, Key="k", VersionId=second)["VersionId"] == second
    assert body_of(s3, versioned, "k") == b"first"
    with refused("NoSuchVersion", 404):
        s3.get_object(Bucket=versioned, Key="k", VersionId=second)
    s3.delete_object(Bucket=versioned, Key="k", VersionId=first)
    assert "Versions" not in s3.list_object_versions(Bucket=versioned)


def test_listing_shows_versions_and_markers_newest_first(s3: Any, versioned: str) -> None:
    a1, a2 = _put(s3, versioned, "a", b"1"), _put(s3, versioned, "a", b"22")
    marker = s3.delete_object(Bucket=versioned, Key="a")["VersionId"]
    a3, b1 = _put(s3, versioned, "a", b"333"), _put(s3, versioned, "b", b"1")
    page = s3.list_object_versions(Bucket=versioned)
    shown = [(item["Key"], item["VersionId"], item["IsLatest"], item["Size"]) for item in page["Versions"]]
    assert shown == [("a", a3, True, 3), ("a", a2, False, 2), ("a", a1, False, 1), ("b", b1, True, 1)]
    markers = [(item["Key"], item["VersionId"], item["IsLatest"]) for item in page["DeleteMarkers"]]
    assert markers == [("a", marker, False)]


def test_pages_of_versions_are_complete(s3: Any, versioned: str) -> None:
    put = [(key, _put(s3, versioned, key, b"")) for key in ("a", "a", "a", "b/1", "b/2", "c")]
    pages = list(s3.get_paginator("list_object_versions").paginate(Bucket=versioned, PaginationConfig={"PageSize": 2}))
    assert len(pages) == 3
    listed = [(item["Key"], item["VersionId"]) for page in pages for item in page["Versions"]]
    assert sorted(listed) == sorted(put)
    assert [key for key, _ in listed] == ["a", "a", "a", "b/1", "b/2", "c"]
    folded = s3.list_object_versions(Bucket=versioned, Delimiter="/")
    assert [item["Prefix"] for item in folded["CommonPrefixes"]] == ["b/"]
    assert {item["Key"] for item in folded["Versions"]} == {"a", "c"}


def test_object_older_than_versioning_is_the_null_version(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    _set_versioning(s3, bucket, "Enabled")
    _put(s3, bucket, "k", b"after")
    assert body_of(s3, bucket, "k", VersionId="null") == b"before"


def test_suspended_bucket_replaces_only_the_null_version(s3: Any, versioned: str) -> None:
    kept = _put(s3, versioned, "k", b"kept")
    _set_versioning(s3, versioned, "Suspended")
    s3.put_object(Bucket=versioned, Key="k", Body=b"null 1")
    s3.put_object(Bucket=versioned, Key="k", Body=b"null 2")
    versions = [item["VersionId"] for item in s3.list_object_versions(Bucket=versioned)["Versions"]]
    assert versions == ["null", kept]
    assert body_of(s3, versioned, "k", VersionId=kept) == b"kept"
    deleted = s3.delete_object(Bucket=versioned, Key="k")
    assert (deleted["DeleteMarker"], deleted["VersionId"]) == (True, "null")


def test_old_version_can_be_copied_over_the_current_one(s3: Any, versioned: str) -> None:
    first = _put(s3, versioned, "k", b"first")
    _put(s3, versioned, "k", b"second")
    copied = s3.copy_object(Bucket=versioned, Key="k", CopySource={"Bucket": versioned, "Key": "k", "VersionId": first})
    assert copied["CopySourceVersionId"] == first
    assert body_of(s3, versioned, "k") == b"first"


def test_versioned_bucket_with_only_markers_is_not_empty(s3: Any, versioned: str) -> None:
    marker = s3.delete_object(Bucket=versioned, Key="absent")["VersionId"]
    with refused("BucketNotEmpty", 409):
        s3.delete_bucket(Bucket=versioned)
    s3.delete_object(Bucket=versioned, Key="absent", VersionId=marker)
    s3.delete_bucket(Bucket=versioned)
