"""DeleteObjects: many keys in one request, each with its own result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.clients.boto import all_keys, refused

pytestmark = pytest.mark.integration


def _delete(s3: Any, bucket: str, *objects: dict[str, Any], quiet: bool = False) -> Any:
    return s3.delete_objects(Bucket=bucket, Delete={"Objects": list(objects), "Quiet": quiet})


@pytest.mark.slow
def test_a_thousand_keys_are_deleted_in_one_request(s3: Any, bucket: str) -> None:
    keys = [f"{number:04}/+ %&<ü>" for number in range(1000)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=b"1"), [*keys, "stays"]))
    answer = _delete(s3, bucket, *({"Key": key} for key in keys))
    assert [item["Key"] for item in answer["Deleted"]] == keys
    assert "Errors" not in answer
    assert all_keys(s3, bucket) == ["stays"]


def test_more_than_a_thousand_keys_are_refused(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="0", Body=b"1")
    with refused("MalformedXML", 400):
        _delete(s3, bucket, *({"Key": str(number)} for number in range(1001)))
    assert all_keys(s3, bucket) == ["0"]


def test_quiet_response_has_errors_only(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    answer = _delete(s3, bucket, {"Key": "a"}, quiet=True)
    assert "Deleted" not in answer
    assert all_keys(s3, bucket) == []


def test_absent_key_counts_as_deleted(s3: Any, bucket: str) -> None:
    assert _delete(s3, bucket, {"Key": "absent"})["Deleted"] == [{"Key": "absent"}]


def test_key_with_a_stale_etag_fails_alone(s3: Any, bucket: str) -> None:
    good = s3.put_object(Bucket=bucket, Key="good", Body=b"1")["ETag"]
    s3.put_object(Bucket=bucket, Key="changed", Body=b"2")
    answer = _delete(s3, bucket, {"Key": "good", "ETag": good}, {"Key": "changed", "ETag": good})
    assert [item["Key"] for item in answer["Deleted"]] == ["good"]
    assert [(item["Key"], item["Code"]) for item in answer["Errors"]] == [("changed", "PreconditionFailed")]
    assert all_keys(s3, bucket) == ["changed"]


def test_versions_are_deleted_by_id(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
    (marked,) = _delete(s3, bucket, {"Key": "k"})["Deleted"]
    assert marked["DeleteMarker"] is True
    gone = _delete(
        s3, bucket, {"Key": "k", "VersionId": version}, {"Key": "k", "VersionId": marked["DeleteMarkerVersionId"]}
    )
    assert len(gone["Deleted"]) == 2
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)
