"""boto3 on a running server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from tests.clients.boto import Connect, all_keys, body_of
from tests.clients.contract import ClientContract, ConditionFailed, LargeFile, Level, Missing
from tests.clients.tls import TlsServer

pytestmark = pytest.mark.integration


class Boto3:
    """The contract's operations with boto3."""

    def __init__(self, s3: Any) -> None:  # Any: boto3's clients are created at run time
        self._s3 = s3

    def make_bucket(self, bucket: str) -> None:
        self._s3.create_bucket(Bucket=bucket)

    def buckets(self) -> list[str]:
        return [item["Name"] for item in self._s3.list_buckets()["Buckets"]]

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self._s3.put_object(Bucket=bucket, Key=key, Body=body)

    def put_with_metadata(self, bucket: str, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        self._s3.put_object(Bucket=bucket, Key=key, Body=body, Metadata=metadata)

    def metadata(self, bucket: str, key: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self._s3.head_object(Bucket=bucket, Key=key)["Metadata"]
        return found

    def get(self, bucket: str, key: str) -> bytes:
        try:
            return body_of(self._s3, bucket, key)
        except self._s3.exceptions.NoSuchKey as error:
            raise Missing from error

    def keys(self, bucket: str, prefix: str) -> list[str]:
        return all_keys(self._s3, bucket, prefix)

    def level(self, bucket: str, prefix: str) -> Level:
        page = self._s3.list_objects_v2(Bucket=bucket, Prefix=prefix, Delimiter="/")
        return Level(
            [item["Key"] for item in page["Contents"]],
            [item["Prefix"] for item in page["CommonPrefixes"]],
        )

    def upload(self, bucket: str, key: str, source: Path) -> None:
        self._s3.upload_file(str(source), bucket, key)

    def download(self, bucket: str, key: str, target: Path) -> None:
        self._s3.download_file(bucket, key, str(target))

    def create(self, bucket: str, key: str, body: bytes) -> None:
        self._put_under(bucket, key, body, IfNoneMatch="*")

    def replace(self, bucket: str, key: str, body: bytes, etag: str) -> None:
        self._put_under(bucket, key, body, IfMatch=etag)

    def _put_under(self, bucket: str, key: str, body: bytes, **condition: str) -> None:
        try:
            self._s3.put_object(Bucket=bucket, Key=key, Body=body, **condition)
        except ClientError as error:
            if error.response["Error"]["Code"] == "PreconditionFailed":
                raise ConditionFailed from error
            raise

    def copy(self, bucket: str, key: str, target_bucket: str, target_key: str) -> None:
        self._s3.copy_object(Bucket=target_bucket, Key=target_key, CopySource={"Bucket": bucket, "Key": key})

    def delete(self, bucket: str, key: str) -> None:
        self._s3.delete_object(Bucket=bucket, Key=key)

    def link_to_get(self, bucket: str, key: str) -> str:
        return self._link("get_object", bucket, key)

    def link_to_put(self, bucket: str, key: str) -> str:
        return self._link("put_object", bucket, key)

    def _link(self, method: str, bucket: str, key: str) -> str:
        url: str = self._s3.generate_presigned_url(method, Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
        return url


class TestBoto3(ClientContract):
    @pytest.fixture
    def client(self, s3: Any) -> Boto3:
        return Boto3(s3)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
def test_listing_continues_past_a_thousand_keys(s3: Any, crowded_bucket: tuple[str, list[str]], operation: str) -> None:
    bucket, keys = crowded_bucket
    pages = list(s3.get_paginator(operation).paginate(Bucket=bucket))
    assert [len(page["Contents"]) for page in pages] == [1000, 200]
    assert [item["Key"] for page in pages for item in page["Contents"]] == keys


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["list_objects", "list_objects_v2"])
def test_pages_with_a_delimiter_repeat_no_common_prefix(
    s3: Any, crowded_bucket: tuple[str, list[str]], operation: str
) -> None:
    bucket, keys = crowded_bucket
    pages = s3.get_paginator(operation).paginate(Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": 7})
    found = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", [])]
    assert found == sorted({key.partition("/")[0] + "/" for key in keys})


@pytest.mark.slow
def test_listing_starts_after_a_key(s3: Any, crowded_bucket: tuple[str, list[str]]) -> None:
    bucket, keys = crowded_bucket
    page = s3.list_objects_v2(Bucket=bucket, StartAfter=keys[1195])
    assert [item["Key"] for item in page["Contents"]] == keys[1196:]
    assert page["KeyCount"] == 4
    assert page["IsTruncated"] is False


@pytest.mark.slow
def test_64_mib_over_tls_read_back(
    connect: Connect, tls_server: TlsServer, new_name: str, large_file: LargeFile, tmp_path: Path
) -> None:
    client = Boto3(connect(tls_server.server, verify=str(tls_server.trust)))
    client.make_bucket(new_name)
    client.upload(new_name, "large", large_file.path)
    client.download(new_name, "large", tmp_path / "back")
    with (tmp_path / "back").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == large_file.sha256


@pytest.fixture(scope="module")
def crowded_bucket(s3: Any) -> tuple[str, list[str]]:
    """A bucket of 1,200 keys in 40 folders, and the keys in order."""
    bucket = f"crowded-{uuid4().hex[:12]}"
    s3.create_bucket(Bucket=bucket)
    keys = [f"{folder:02}/{number:02}" for folder in range(40) for number in range(30)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=b""), keys))
    return bucket, keys
