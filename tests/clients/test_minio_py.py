"""minio-py on a running server."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3
from minio import Minio, S3Error
from minio.commonconfig import ComposeSource, CopySource
from minio.deleteobjects import DeleteObject

from tests.clients.boto import REGION, all_keys
from tests.clients.contract import ClientContract, ConditionFailed, Level, Missing
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration


class MinioPy:
    """The contract's operations with minio-py."""

    def __init__(self, minio: Minio) -> None:
        self._minio = minio

    def make_bucket(self, bucket: str) -> None:
        self._minio.make_bucket(bucket)

    def buckets(self) -> list[str]:
        return [bucket.name for bucket in self._minio.list_buckets()]

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self._minio.put_object(bucket, key, io.BytesIO(body), len(body))

    def put_with_metadata(self, bucket: str, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        self._minio.put_object(bucket, key, io.BytesIO(body), len(body), metadata=dict(metadata))

    def metadata(self, bucket: str, key: str) -> Mapping[str, str]:
        prefix = "x-amz-meta-"
        headers = self._minio.stat_object(bucket, key).metadata or {}
        return {
            name.lower().removeprefix(prefix): value
            for name, value in headers.items()
            if name.lower().startswith(prefix)
        }

    def get(self, bucket: str, key: str) -> bytes:
        try:
            with self._minio.get_object(bucket, key) as response:
                body: bytes = response.read()
                return body
        except S3Error as error:
            if error.code == "NoSuchKey":
                raise Missing from error
            raise

    def keys(self, bucket: str, prefix: str) -> list[str]:
        return [item.object_name or "" for item in self._minio.list_objects(bucket, prefix, recursive=True)]

    def level(self, bucket: str, prefix: str) -> Level:
        items = list(self._minio.list_objects(bucket, prefix))
        return Level(
            [item.object_name or "" for item in items if not item.is_dir],
            [item.object_name or "" for item in items if item.is_dir],
        )

    def upload(self, bucket: str, key: str, source: Path) -> None:
        self._minio.fput_object(bucket, key, str(source), part_size=16 * 1024 * 1024)

    def download(self, bucket: str, key: str, target: Path) -> None:
        self._minio.fget_object(bucket, key, str(target))

    def create(self, bucket: str, key: str, body: bytes) -> None:
        self._put_under(bucket, key, body, {"If-None-Match": "*"})

    def replace(self, bucket: str, key: str, body: bytes, etag: str) -> None:
        self._put_under(bucket, key, body, {"If-Match": etag})

    def _put_under(self, bucket: str, key: str, body: bytes, condition: Mapping[str, str]) -> None:
        """`put_object` has no condition parameter; the method below it accepts headers."""
        try:
            self._minio._put_object(bucket, key, body, dict(condition))
        except S3Error as error:
            if error.code == "PreconditionFailed":
                raise ConditionFailed from error
            raise

    def copy(self, bucket: str, key: str, target_bucket: str, target_key: str) -> None:
        self._minio.copy_object(target_bucket, target_key, CopySource(bucket, key))

    def delete(self, bucket: str, key: str) -> None:
        self._minio.remove_object(bucket, key)

    def link_to_get(self, bucket: str, key: str) -> str:
        link: str = self._minio.presigned_get_object(bucket, key, expires=timedelta(minutes=1))
        return link

    def link_to_put(self, bucket: str, key: str) -> str:
        link: str = self._minio.presigned_put_object(bucket, key, expires=timedelta(minutes=1))
        return link


@pytest.fixture(scope="module")
def minio_py(lakebed_server: RunningServer) -> Iterator[Minio]:
    with urllib3.PoolManager(retries=False) as pool:
        yield Minio(
            lakebed_server.endpoint.removeprefix("http://"),
            lakebed_server.access_key,
            lakebed_server.secret_key,
            secure=False,
            region=REGION,
            http_client=pool,
        )


class TestMinioPy(ClientContract):
    @pytest.fixture
    def client(self, minio_py: Minio) -> MinioPy:
        return MinioPy(minio_py)


def test_stream_of_unknown_length_is_uploaded_in_parts(minio_py: Minio, s3: Any, bucket: str) -> None:
    minio_py.put_object(bucket, "k", io.BytesIO(b"of unknown length"), -1, part_size=5 * 1024 * 1024)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ContentLength"] == 17


def test_many_objects_are_deleted_in_one_request(minio_py: Minio, s3: Any, bucket: str) -> None:
    for key in ("a", "b", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    assert list(minio_py.remove_objects(bucket, [DeleteObject("a"), DeleteObject("c"), DeleteObject("never")])) == []
    assert all_keys(s3, bucket) == ["b"]


def test_composed_object_concatenates_its_sources(minio_py: Minio, s3: Any, bucket: str) -> None:
    first, second = b"a" * (5 * 1024 * 1024), b"the end"
    s3.put_object(Bucket=bucket, Key="first", Body=first)
    s3.put_object(Bucket=bucket, Key="second", Body=second)
    minio_py.compose_object(bucket, "both", [ComposeSource(bucket, "first"), ComposeSource(bucket, "second")])
    with minio_py.get_object(bucket, "both") as response:
        assert response.read() == first + second
