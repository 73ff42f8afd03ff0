from __future__ import annotations

from datetime import UTC, datetime

from lakebed.core.checksums import Checksum, ChecksumAlgorithm, ChecksumType
from lakebed.wire.s3.documents.objects import (
    AttributeParts,
    ObjectAttributesPart,
    ObjectPart,
    write_attributes,
    write_copy,
    write_post,
)
from lakebed.wire.s3.xml import parse_document

from .client import understood

CRC = Checksum(ChecksumAlgorithm.CRC32C, b"\x01\x02\x03\x04")
SHA = Checksum(ChecksumAlgorithm.SHA1, bytes(20), ChecksumType.COMPOSITE, 2)


def test_client_parses_copy_result() -> None:
    assert understood("CopyObject", write_copy("abc", 1767323045006, CRC)) == {
        "CopyObjectResult": {
            "ETag": '"abc"',
            "LastModified": datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
            "ChecksumCRC32C": "AQIDBA==",
            "ChecksumType": "FULL_OBJECT",
        }
    }
    assert "ChecksumType" not in understood("CopyObject", write_copy("abc", 0))["CopyObjectResult"]


def test_attributes_have_a_bare_etag_and_a_page_of_parts() -> None:
    part = Checksum(ChecksumAlgorithm.SHA1, bytes(20))
    body = write_attributes(
        ObjectAttributesPart(
            etag="abc-2",
            checksum=SHA,
            parts=AttributeParts(2, 0, 1, True, [ObjectPart(1, 5_242_880, part)]),
            storage_class="STANDARD",
            size=5_242_881,
        )
    )
    assert understood("GetObjectAttributes", body) == {
        "ETag": "abc-2",
        "Checksum": {"ChecksumSHA1": SHA.text, "ChecksumType": "COMPOSITE"},
        "ObjectParts": {
            "TotalPartsCount": 2,
            "PartNumberMarker": 0,
            "NextPartNumberMarker": 1,
            "MaxParts": 1,
            "IsTruncated": True,
            "Parts": [{"PartNumber": 1, "Size": 5_242_880, "ChecksumSHA1": part.text}],
        },
        "StorageClass": "STANDARD",
        "ObjectSize": 5_242_881,
    }


def test_attributes_that_are_not_requested_are_omitted() -> None:
    assert understood("GetObjectAttributes", write_attributes(ObjectAttributesPart(size=0))) == {"ObjectSize": 0}
    page = understood(
        "GetObjectAttributes", write_attributes(ObjectAttributesPart(parts=AttributeParts(3, 3, 9, False)))
    )
    assert page == {
        "ObjectParts": {
            "TotalPartsCount": 3,
            "PartNumberMarker": 3,
            "NextPartNumberMarker": 3,
            "MaxParts": 9,
            "IsTruncated": False,
        }
    }


def test_post_response_names_the_new_object() -> None:
    root = parse_document(write_post("http://h/b/k", "b", "k<", "abc"), "PostResponse")
    assert root.texts() == {"Location": "http://h/b/k", "Bucket": "b", "Key": "k<", "ETag": '"abc"'}
