from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import unquote

from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.wire.s3.documents.listings import (
    BucketRow,
    ListingHeader,
    OwnerElement,
    VersionRow,
    write_bucket_list,
    write_object_list,
    write_object_list_v2,
    write_version_list,
)

from .client import understood

OWNER = OwnerElement("an-id", "A & B")
TIME_MS = 1767323045006
TIME = datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)
keys = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff"), min_size=1)
    | st.sampled_from(["a~b", "dt=1/x", "a b", "a+b", "<&>", "%41"]),
    max_size=8,
)


def listing(**changes: object) -> ListingHeader:
    values: dict[str, object] = {
        "bucket": "b",
        "prefix": "",
        "delimiter": None,
        "max_keys": 1000,
        "is_truncated": False,
    }
    return ListingHeader(**(values | changes))  # type: ignore[arg-type]  # a test's shorthand for keyword arguments


@settings(max_examples=50)
@given(keys, keys, st.booleans())
def test_client_parses_every_key_and_prefix(names: list[str], prefixes: list[str], is_url_encoded: bool) -> None:
    rows = [(key, size, "e", TIME_MS, None, None) for size, key in enumerate(names)]
    page = listing(common_prefixes=prefixes, is_url_encoded=is_url_encoded)
    for body in (write_object_list(page, rows), write_object_list_v2(page, rows)):
        response = understood("ListObjectsV2", body)
        read = unquote if is_url_encoded else str
        assert [read(row["Key"]) for row in response.get("Contents", [])] == names
        assert [row["Size"] for row in response.get("Contents", [])] == list(range(len(names)))
        assert [read(row["Prefix"]) for row in response.get("CommonPrefixes", [])] == prefixes


def test_object_list_has_the_elements_of_list_objects() -> None:
    page = listing(prefix="p/", delimiter="/", is_truncated=True, common_prefixes=["p/a/"], owner=OWNER, max_keys=2)
    rows = [("p/k", 5, "abc", TIME_MS, "CRC32", "COMPOSITE")]
    assert understood("ListObjects", write_object_list(page, rows, marker="p/", next_marker="p/k")) == {
        "Name": "b",
        "Prefix": "p/",
        "Delimiter": "/",
        "MaxKeys": 2,
        "IsTruncated": True,
        "Marker": "p/",
        "NextMarker": "p/k",
        "CommonPrefixes": [{"Prefix": "p/a/"}],
        "Contents": [
            {
                "Key": "p/k",
                "Size": 5,
                "ETag": '"abc"',
                "LastModified": TIME,
                "StorageClass": "STANDARD",
                "ChecksumAlgorithm": ["CRC32"],
                "ChecksumType": "COMPOSITE",
                "Owner": {"ID": "an-id", "DisplayName": "A & B"},
            }
        ],
    }


def test_object_list_has_the_elements_of_list_objects_v2() -> None:
    page = listing(prefix="a b", is_url_encoded=True, common_prefixes=["a b/"])
    body = write_object_list_v2(page, [], continuation_token="<in>", next_continuation_token="out", start_after="a b+")
    assert understood("ListObjectsV2", body) == {
        "Name": "b",
        "Prefix": "a%20b",
        "MaxKeys": 1000,
        "KeyCount": 1,
        "IsTruncated": False,
        "EncodingType": "url",
        "ContinuationToken": "<in>",
        "NextContinuationToken": "out",
        "StartAfter": "a%20b%2B",
        "CommonPrefixes": [{"Prefix": "a%20b/"}],
    }


def test_each_row_has_its_checksum_kind_and_storage_class() -> None:
    rows = [
        ("a", 1, "e", TIME_MS, "CRC32", "FULL_OBJECT"),
        ("b", 1, "e", TIME_MS, None, None),
        ("c", 1, "e", TIME_MS, "SHA1", "COMPOSITE"),
    ]
    contents = understood("ListObjectsV2", write_object_list_v2(listing(), rows))["Contents"]
    assert [(row.get("ChecksumAlgorithm"), row.get("ChecksumType"), row["StorageClass"]) for row in contents] == [
        (["CRC32"], "FULL_OBJECT", "STANDARD"),
        (None, None, "STANDARD"),
        (["SHA1"], "COMPOSITE", "STANDARD"),
    ]
    assert all("Owner" not in row for row in contents)


def test_version_list_keeps_markers_among_versions_in_order() -> None:
    rows = [
        VersionRow("k", "v3", True, TIME_MS, True),
        VersionRow("k", "v2", False, TIME_MS, False, 7, "abc", "CRC64NVME", "FULL_OBJECT"),
        VersionRow("k<", "null", True, TIME_MS, False, 0, "def"),
    ]
    body = write_version_list(
        listing(owner=OWNER, is_truncated=True),
        rows,
        key_marker="j",
        version_id_marker="v1",
        next_key_marker="k<",
        next_version_id_marker="null",
    )
    assert body.index(b"<DeleteMarker>") < body.index(b"<Version>")
    owner = {"ID": "an-id", "DisplayName": "A & B"}
    assert understood("ListObjectVersions", body) == {
        "Name": "b",
        "Prefix": "",
        "MaxKeys": 1000,
        "IsTruncated": True,
        "KeyMarker": "j",
        "VersionIdMarker": "v1",
        "NextKeyMarker": "k<",
        "NextVersionIdMarker": "null",
        "DeleteMarkers": [{"Key": "k", "VersionId": "v3", "IsLatest": True, "LastModified": TIME, "Owner": owner}],
        "Versions": [
            {
                "Key": "k",
                "VersionId": "v2",
                "IsLatest": False,
                "LastModified": TIME,
                "Owner": owner,
                "ETag": '"abc"',
                "Size": 7,
                "StorageClass": "STANDARD",
                "ChecksumAlgorithm": ["CRC64NVME"],
                "ChecksumType": "FULL_OBJECT",
            },
            {
                "Key": "k<",
                "VersionId": "null",
                "IsLatest": True,
                "LastModified": TIME,
                "Owner": owner,
                "ETag": '"def"',
                "Size": 0,
                "StorageClass": "STANDARD",
            },
        ],
    }


def test_bucket_list_has_regions_prefix_and_token() -> None:
    rows = [BucketRow("one", TIME_MS, "eu-west-1"), BucketRow("two", TIME_MS)]
    assert understood("ListBuckets", write_bucket_list(OWNER, rows, prefix="p", continuation_token="t")) == {
        "Owner": {"ID": "an-id", "DisplayName": "A & B"},
        "Buckets": [
            {"Name": "one", "CreationDate": TIME, "BucketRegion": "eu-west-1"},
            {"Name": "two", "CreationDate": TIME},
        ],
        "Prefix": "p",
        "ContinuationToken": "t",
    }
    assert understood("ListBuckets", write_bucket_list(OWNER, []))["Buckets"] == []


def test_documents_have_the_namespace_of_s3() -> None:
    assert write_bucket_list(OWNER, []).startswith(
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner>'
    )
