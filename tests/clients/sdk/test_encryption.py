"""SSE-S3: clients get the headers, and the disk has no plain text."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.boto import body_of, connected, refused
from tests.fixtures.server import RunningServer, running_server

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
AES256 = {"ServerSideEncryption": "AES256"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A separate server, so that its data folder is small enough to search."""
    with running_server(tmp_path_factory.mktemp("encryption") / "data", workers=1) as server:
        yield server


@pytest.fixture(scope="module")
def s3(server: RunningServer) -> Iterator[Any]:
    with connected(server) as client:
        yield client


def secret_text() -> bytes:
    """A unique text, long enough to be found although a database page may split it."""
    return b"|".join(uuid.uuid4().hex.encode() for _ in range(8))


def is_on_disk(server: RunningServer, text: bytes) -> bool:
    """Whether a file of the data folder contains one of the words of the text."""
    words = text.split(b"|")
    return any(word in content for content in map(_read, server.data.rglob("*")) for word in words)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:  # temporary files of the server
        return b""


@pytest.mark.parametrize("size", [1000, 200_000], ids=["small", "large"])
def test_encrypted_body_is_not_on_disk_in_the_clear(server: RunningServer, s3: Any, bucket: str, size: int) -> None:
    plain, encrypted = secret_text(), secret_text()
    s3.put_object(Bucket=bucket, Key="plain", Body=plain.ljust(size, b"."))
    assert is_on_disk(server, plain), "the search finds unencrypted text"
    put = s3.put_object(Bucket=bucket, Key="encrypted", Body=encrypted.ljust(size, b"."), **AES256)
    assert put["ServerSideEncryption"] == "AES256"
    assert not is_on_disk(server, encrypted)
    answer = s3.get_object(Bucket=bucket, Key="encrypted")
    assert answer["ServerSideEncryption"] == "AES256"
    assert answer["Body"].read() == encrypted.ljust(size, b".")
    assert "ServerSideEncryption" not in s3.head_object(Bucket=bucket, Key="plain")


def test_encrypted_parts_are_not_on_disk_in_the_clear(server: RunningServer, s3: Any, bucket: str) -> None:
    text = secret_text()
    body = text.ljust(5 * MIB, b".") + text
    target = {"Bucket": bucket, "Key": "k"}
    upload = s3.create_multipart_upload(**target, **AES256)
    assert upload["ServerSideEncryption"] == "AES256"
    target["UploadId"] = upload["UploadId"]
    parts = []
    for number, part in enumerate((body[: 5 * MIB], body[5 * MIB :]), 1):
        put = s3.upload_part(**target, PartNumber=number, Body=part)
        assert put["ServerSideEncryption"] == "AES256"
        parts.append({"PartNumber": number, "ETag": put["ETag"]})
    done = s3.complete_multipart_upload(**target, MultipartUpload={"Parts": parts})
    assert done["ServerSideEncryption"] == "AES256"
    assert not is_on_disk(server, text)
    assert body_of(s3, bucket, "k") == body


def test_ranges_of_an_encrypted_body_are_correct(s3: Any, bucket: str) -> None:
    body = bytes(range(256)) * 2000
    s3.put_object(Bucket=bucket, Key="k", Body=body, **AES256)
    for start, end in ((0, 1), (65_535, 65_537), (131_071, 262_145), (511_999, 512_000), (100, 512_000)):
        assert body_of(s3, bucket, "k", Range=f"bytes={start}-{end - 1}") == body[start:end]
    assert body_of(s3, bucket, "k", Range="bytes=-10") == body[-10:]


def test_etag_of_an_encrypted_body_is_its_md5(s3: Any, bucket: str) -> None:
    plain = s3.put_object(Bucket=bucket, Key="plain", Body=b"the same")
    encrypted = s3.put_object(Bucket=bucket, Key="encrypted", Body=b"the same", **AES256)
    assert plain["ETag"] == encrypted["ETag"]


def test_bucket_default_encrypts_new_objects(server: RunningServer, s3: Any, bucket: str) -> None:
    rules = [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": False}]
    with refused("ServerSideEncryptionConfigurationNotFoundError", 404):
        s3.get_bucket_encryption(Bucket=bucket)
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})
    assert s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"] == rules
    text = secret_text()
    assert s3.put_object(Bucket=bucket, Key="k", Body=text)["ServerSideEncryption"] == "AES256"
    assert not is_on_disk(server, text)
    s3.delete_bucket_encryption(Bucket=bucket)
    assert "ServerSideEncryption" not in s3.put_object(Bucket=bucket, Key="k", Body=text)


def test_copy_can_encrypt_an_unencrypted_object(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="plain", Body=b"1")
    copied = s3.copy_object(Bucket=bucket, Key="encrypted", CopySource={"Bucket": bucket, "Key": "plain"}, **AES256)
    assert copied["ServerSideEncryption"] == "AES256"
    assert body_of(s3, bucket, "encrypted") == b"1"


@pytest.mark.parametrize(
    ("headers", "code", "status"),
    [
        ({"ServerSideEncryption": "aws:kms"}, "NotImplemented", 501),
        ({"ServerSideEncryption": "AES128"}, "InvalidArgument", 400),
    ],
)
def test_other_encryption_is_refused_and_nothing_is_stored(
    s3: Any, bucket: str, headers: dict[str, str], code: str, status: int
) -> None:
    with refused(code, status):
        s3.put_object(Bucket=bucket, Key="k", Body=b"1", **headers)
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="k")
