"""The five checksum algorithms, in headers over HTTP and trailers over HTTPS, of single and multipart objects."""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from awscrt import checksums as crt

from tests.clients.boto import body_of, connected, refused
from tests.clients.tls import TlsServer
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

MIB = 1024 * 1024

DIGESTS: Mapping[str, Callable[[bytes], bytes]] = {
    "CRC32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "CRC32C": lambda body: crt.crc32c(body).to_bytes(4, "big"),
    "CRC64NVME": lambda body: crt.crc64nvme(body).to_bytes(8, "big"),
    "SHA1": lambda body: hashlib.sha1(body).digest(),
    "SHA256": lambda body: hashlib.sha256(body).digest(),
}

KNOWN = {
    "CRC32": "y/Q5Jg==",
    "CRC32C": "4waSgw==",
    "CRC64NVME": "rosUhgp5mIg=",
    "SHA1": "98O8HYCOBHMq32eZZczDTKeuNEE=",
    "SHA256": "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
}
"""The published check values of `123456789`."""


@dataclass(frozen=True, slots=True)
class ChecksumClient:
    """A client with a bucket, which sends checksums in headers or trailers."""

    client: Any  # Any: boto3's clients are created at run time
    bucket: str
    carrier: str
    sent: list[Mapping[str, str]]
    """Headers of the uploads that were sent."""


@pytest.fixture(scope="module", params=["header", "trailer"])
def connection(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    if request.param == "header":
        server: RunningServer = request.getfixturevalue("lakebed_server")
        trust = None
    else:
        tls: TlsServer = request.getfixturevalue("tls_server")
        server, trust = tls.server, str(tls.trust)
    with connected(server, verify=trust) as client:
        yield request.param, client


@pytest.fixture
def place(connection: tuple[str, Any]) -> Iterator[ChecksumClient]:
    carrier, client = connection
    sent: list[Mapping[str, str]] = []

    def note(request: Any, **_: Any) -> None:  # Any: botocore's prepared request and its context
        if request.method == "PUT":
            # Unsigned values are bytes, signed values are text.
            sent.append({k.lower(): v.decode() if isinstance(v, bytes) else v for k, v in request.headers.items()})

    bucket = f"bucket-{uuid4().hex[:20]}"
    client.create_bucket(Bucket=bucket)
    client.meta.events.register("before-send.s3", note)
    yield ChecksumClient(client, bucket, carrier, sent)
    client.meta.events.unregister("before-send.s3", note)


@pytest.mark.parametrize("algorithm", DIGESTS)
def test_checksum_is_verified_and_stored(place: ChecksumClient, algorithm: str) -> None:
    put = place.client.put_object(
        Bucket=place.bucket, Key="k", Body=io.BytesIO(b"123456789"), ChecksumAlgorithm=algorithm
    )
    header = f"x-amz-checksum-{algorithm.lower()}"
    (sent,) = place.sent
    if place.carrier == "trailer":
        assert sent["x-amz-trailer"] == header
        assert sent["x-amz-content-sha256"] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    else:
        assert sent[header] == KNOWN[algorithm]
    field = f"Checksum{algorithm}"
    assert put[field] == KNOWN[algorithm]
    head = place.client.head_object(Bucket=place.bucket, Key="k", ChecksumMode="ENABLED")
    assert (head[field], head["ChecksumType"]) == (KNOWN[algorithm], "FULL_OBJECT")
    assert body_of(place.client, place.bucket, "k", ChecksumMode="ENABLED") == b"123456789"


def test_default_checksum_of_the_sdk_is_stored(place: ChecksumClient) -> None:
    place.client.put_object(Bucket=place.bucket, Key="k", Body=b"123456789")
    head = place.client.head_object(Bucket=place.bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == KNOWN["CRC32"]


def test_content_encoding_without_aws_chunked_is_stored(place: ChecksumClient) -> None:
    place.client.put_object(Bucket=place.bucket, Key="k", Body=io.BytesIO(b"1"), ContentEncoding="gzip")
    assert place.client.head_object(Bucket=place.bucket, Key="k")["ContentEncoding"] == "gzip"
    place.client.put_object(Bucket=place.bucket, Key="k", Body=io.BytesIO(b"1"))
    assert "ContentEncoding" not in place.client.head_object(Bucket=place.bucket, Key="k")


def test_empty_body_has_a_checksum(place: ChecksumClient) -> None:
    put = place.client.put_object(Bucket=place.bucket, Key="k", Body=io.BytesIO(b""), ChecksumAlgorithm="SHA256")
    assert put["ChecksumSHA256"] == _text(DIGESTS["SHA256"](b""))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("CRC32", "FULL_OBJECT"),
        ("CRC32", "COMPOSITE"),
        ("CRC32C", "FULL_OBJECT"),
        ("CRC32C", "COMPOSITE"),
        ("CRC64NVME", "FULL_OBJECT"),
        ("SHA1", "COMPOSITE"),
        ("SHA256", "COMPOSITE"),
    ],
)
def test_checksum_of_a_multipart_object(place: ChecksumClient, algorithm: str, kind: str) -> None:
    digest, field = DIGESTS[algorithm], f"Checksum{algorithm}"
    target = {"Bucket": place.bucket, "Key": "k"}
    parts = [b"a" * (5 * MIB), b"b" * (5 * MIB + 1), b"the end"]
    upload = place.client.create_multipart_upload(**target, ChecksumAlgorithm=algorithm, ChecksumType=kind)
    assert (upload["ChecksumAlgorithm"], upload["ChecksumType"]) == (algorithm, kind)
    target["UploadId"] = upload["UploadId"]
    listed = []
    for number, part in enumerate(parts, 1):
        put = place.client.upload_part(**target, PartNumber=number, Body=io.BytesIO(part), ChecksumAlgorithm=algorithm)
        assert put[field] == _text(digest(part))
        listed.append({"PartNumber": number, "ETag": put["ETag"], field: put[field]})
    assert [part[field] for part in place.client.list_parts(**target)["Parts"]] == [part[field] for part in listed]
    done = place.client.complete_multipart_upload(**target, MultipartUpload={"Parts": listed}, ChecksumType=kind)
    if kind == "COMPOSITE":
        expected = _text(digest(b"".join(map(digest, parts)))) + "-3"
    else:
        expected = _text(digest(b"".join(parts)))
    assert (done[field], done["ChecksumType"]) == (expected, kind)
    del target["UploadId"]
    head = place.client.head_object(**target, ChecksumMode="ENABLED")
    assert (head[field], head["ChecksumType"]) == (expected, kind)
    assert body_of(place.client, place.bucket, "k", ChecksumMode="ENABLED") == b"".join(parts)


@pytest.mark.parametrize("algorithm", DIGESTS)
def test_wrong_checksum_stores_nothing(place: ChecksumClient, algorithm: str) -> None:
    wrong = _text(DIGESTS[algorithm](b"something else"))
    with refused("BadDigest", 400):
        place.client.put_object(Bucket=place.bucket, Key="k", Body=b"the body", **{f"Checksum{algorithm}": wrong})
    with refused("404", 404):
        place.client.head_object(Bucket=place.bucket, Key="k")


def test_completion_with_a_wrong_object_checksum_is_refused(place: ChecksumClient) -> None:
    target = {"Bucket": place.bucket, "Key": "k"}
    upload = place.client.create_multipart_upload(**target, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    target["UploadId"] = upload["UploadId"]
    part = place.client.upload_part(**target, PartNumber=1, Body=b"the body", ChecksumAlgorithm="CRC32")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}]}
    with refused("BadDigest", 400):
        place.client.complete_multipart_upload(
            **target, MultipartUpload=parts, ChecksumType="FULL_OBJECT", ChecksumCRC32=KNOWN["CRC32"]
        )
    place.client.complete_multipart_upload(
        **target, MultipartUpload=parts, ChecksumType="FULL_OBJECT", ChecksumCRC32=part["ChecksumCRC32"]
    )
    assert body_of(place.client, place.bucket, "k") == b"the body"


@pytest.mark.parametrize(("algorithm", "kind"), [("SHA256", "FULL_OBJECT"), ("CRC64NVME", "COMPOSITE")])
def test_unsupported_checksum_types_are_refused(place: ChecksumClient, algorithm: str, kind: str) -> None:
    with refused("InvalidRequest", 400):
        place.client.create_multipart_upload(
            Bucket=place.bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType=kind
        )


def test_copy_keeps_the_checksum_or_computes_another(place: ChecksumClient) -> None:
    place.client.put_object(Bucket=place.bucket, Key="k", Body=b"123456789", ChecksumAlgorithm="SHA1")
    source = {"Bucket": place.bucket, "Key": "k"}
    kept = place.client.copy_object(Bucket=place.bucket, Key="kept", CopySource=source)
    assert kept["CopyObjectResult"]["ChecksumSHA1"] == KNOWN["SHA1"]
    other = place.client.copy_object(Bucket=place.bucket, Key="other", CopySource=source, ChecksumAlgorithm="CRC64NVME")
    assert other["CopyObjectResult"]["ChecksumCRC64NVME"] == KNOWN["CRC64NVME"]


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
