from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.checksums import Checksum, ChecksumAlgorithm, ChecksumType
from lakebed.core.errors import InvalidInput
from lakebed.wire.s3.documents.listings import OwnerElement
from lakebed.wire.s3.documents.multipart import (
    CompletedPart,
    PartRow,
    UploadListing,
    UploadRow,
    read_completion,
    write_completion,
    write_initiation,
    write_part_copy,
    write_part_list,
    write_upload_list,
)
from lakebed.wire.s3.xml import MalformedDocument

from .client import sent, understood

OWNER = OwnerElement("an-id", "name")
TIME_MS = 1767323045006
TIME = datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)
CRC = Checksum(ChecksumAlgorithm.CRC32, b"\x01\x02\x03\x04")
A_OWNER = {"ID": "an-id", "DisplayName": "name"}

checksums = st.sampled_from(ChecksumAlgorithm).flatmap(
    lambda a: st.binary(min_size=a.digest_size, max_size=a.digest_size).map(lambda digest: Checksum(a, digest))
)
parts = st.builds(
    CompletedPart, st.integers(1, 10_000), st.text("0123456789abcdef-", max_size=40), st.none() | checksums
)


@settings(max_examples=50)
@given(st.lists(parts, min_size=1, max_size=5), st.sampled_from(['"{}"', "{}"]))
def test_completion_of_the_client_is_parsed(given_parts: list[CompletedPart], quoting: str) -> None:
    listed = []
    for part in given_parts:
        item: dict[str, object] = {"PartNumber": part.number, "ETag": quoting.format(part.etag)}
        if part.checksum is not None:
            item[f"Checksum{part.checksum.algorithm}"] = part.checksum.text
        listed.append(item)
    body = sent("CompleteMultipartUpload", Bucket="b", Key="k", UploadId="u", MultipartUpload={"Parts": listed})
    assert read_completion(body) == given_parts


def completion(parts: str) -> bytes:
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "<Part/>",
        "<Part><PartNumber>1</PartNumber></Part>",
        "<Part><ETag>e</ETag></Part>",
        "<Part><PartNumber>one</PartNumber><ETag>e</ETag></Part>",
        "<Part><PartNumber>1</PartNumber><PartNumber>1</PartNumber><ETag>e</ETag></Part>",
        "<Part><PartNumber>1</PartNumber><ETag>e</ETag><Size>1</Size></Part>",
        "<Part><PartNumber>1</PartNumber><ETag>e</ETag><CRC32>AAAAAA==</CRC32></Part>",
        "<Part><PartNumber>1</PartNumber><ETag>e</ETag><ChecksumCRC16>AAA=</ChecksumCRC16></Part>",
        "<Other/>",
    ],
)
def test_invalid_completion_is_malformed(content: str) -> None:
    with pytest.raises(MalformedDocument):
        read_completion(completion(content))


def test_completion_of_too_many_parts_is_malformed() -> None:
    part = "<Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>"
    with pytest.raises(MalformedDocument, match="count=10001"):
        read_completion(completion(part * 10_001))


@pytest.mark.parametrize("number", [0, -1, 10_001])
def test_part_number_out_of_range_names_its_argument(number: int) -> None:
    with pytest.raises(InvalidInput) as error:
        read_completion(completion(f"<Part><PartNumber>{number}</PartNumber><ETag>e</ETag></Part>"))
    assert error.value.argument == "PartNumber"


def test_invalid_or_multiple_checksums_of_a_part_are_rejected() -> None:
    start = "<Part><PartNumber>1</PartNumber><ETag>e</ETag>"
    with pytest.raises(InvalidInput, match="Base64") as bad:
        read_completion(completion(f"{start}<ChecksumSHA256>bad</ChecksumSHA256></Part>"))
    assert (bad.value.argument, bad.value.value) == ("Checksum", "bad")
    two = "<ChecksumCRC32>AAAAAA==</ChecksumCRC32><ChecksumXXHASH64>AAAAAAAAAAA=</ChecksumXXHASH64>"
    with pytest.raises(InvalidInput, match="multiple") as several:
        read_completion(completion(f"{start}{two}</Part>"))
    assert several.value.value == "CRC32:AAAAAA==;XXHASH64:AAAAAAAAAAA=;"


def test_client_parses_initiation() -> None:
    body = write_initiation("b", "k&<", "u")
    assert understood("CreateMultipartUpload", body) == {"Bucket": "b", "Key": "k&<", "UploadId": "u"}


def test_completion_result_has_etag_and_checksum() -> None:
    composite = Checksum(ChecksumAlgorithm.CRC32, b"\x01\x02\x03\x04", ChecksumType.COMPOSITE, 3)
    body = write_completion("http://h/b/k%20", "b", "k ", "abc-3", composite)
    assert understood("CompleteMultipartUpload", body) == {
        "Location": "http://h/b/k%20",
        "Bucket": "b",
        "Key": "k ",
        "ETag": '"abc-3"',
        "ChecksumCRC32": "AQIDBA==-3",
        "ChecksumType": "COMPOSITE",
    }


def test_client_parses_part_copy() -> None:
    body = write_part_copy("abc", TIME_MS, CRC)
    assert understood("UploadPartCopy", body) == {
        "CopyPartResult": {"ETag": '"abc"', "LastModified": TIME, "ChecksumCRC32": "AQIDBA=="}
    }


def test_client_parses_part_list() -> None:
    body = write_part_list(
        "b",
        "k",
        "u",
        [PartRow(2, 10, "abc", TIME_MS, CRC), PartRow(5, 11, "def", TIME_MS)],
        part_number_marker=1,
        max_parts=2,
        is_truncated=True,
        owner=OWNER,
        checksum_algorithm="CRC32",
        checksum_type="FULL_OBJECT",
    )
    assert understood("ListParts", body) == {
        "Bucket": "b",
        "Key": "k",
        "UploadId": "u",
        "PartNumberMarker": 1,
        "NextPartNumberMarker": 5,
        "MaxParts": 2,
        "IsTruncated": True,
        "Parts": [
            {"PartNumber": 2, "Size": 10, "ETag": '"abc"', "LastModified": TIME, "ChecksumCRC32": "AQIDBA=="},
            {"PartNumber": 5, "Size": 11, "ETag": '"def"', "LastModified": TIME},
        ],
        "Initiator": A_OWNER,
        "Owner": A_OWNER,
        "StorageClass": "STANDARD",
        "ChecksumAlgorithm": "CRC32",
        "ChecksumType": "FULL_OBJECT",
    }


def test_empty_part_list_repeats_its_marker() -> None:
    body = write_part_list("b", "k", "u", [], part_number_marker=7, max_parts=2, is_truncated=False, owner=OWNER)
    assert understood("ListParts", body)["NextPartNumberMarker"] == 7


def test_client_parses_upload_list() -> None:
    page = UploadListing(
        bucket="b",
        prefix="a b",
        delimiter="/",
        max_uploads=10,
        is_truncated=True,
        owner=OWNER,
        key_marker="a",
        upload_id_marker="u0",
        next_key_marker="a b/k",
        next_upload_id_marker="u1",
        common_prefixes=["a b/c/"],
        is_url_encoded=True,
    )
    body = write_upload_list(page, [UploadRow("a b/k", "u1", TIME_MS, "CRC32", "COMPOSITE")])
    assert understood("ListMultipartUploads", body) == {
        "Bucket": "b",
        "Prefix": "a%20b",
        "Delimiter": "/",
        "MaxUploads": 10,
        "IsTruncated": True,
        "EncodingType": "url",
        "KeyMarker": "a",
        "UploadIdMarker": "u0",
        "NextKeyMarker": "a%20b/k",
        "NextUploadIdMarker": "u1",
        "CommonPrefixes": [{"Prefix": "a%20b/c/"}],
        "Uploads": [
            {
                "Key": "a%20b/k",
                "UploadId": "u1",
                "Initiated": TIME,
                "StorageClass": "STANDARD",
                "Owner": A_OWNER,
                "Initiator": A_OWNER,
                "ChecksumAlgorithm": "CRC32",
                "ChecksumType": "COMPOSITE",
            }
        ],
    }
