"""s3fs on a running server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from s3fs import S3FileSystem

from tests.clients.boto import REGION, all_keys, body_of
from tests.clients.contract import ClientContract, ConditionFailed, Level, Missing
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration


class S3Fs:
    """The contract's operations with s3fs, whose paths begin with the bucket."""

    def __init__(self, files: Any) -> None:  # Any: s3fs has no types
        self._files = files

    def make_bucket(self, bucket: str) -> None:
        self._files.mkdir(bucket)

    def buckets(self) -> list[str]:
        found: list[str] = self._files.ls("", detail=False, refresh=True)
        return found

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self._files.pipe_file(f"{bucket}/{key}", body)

    def put_with_metadata(self, bucket: str, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        with self._files.open(f"{bucket}/{key}", "wb", Metadata=dict(metadata)) as file:
            file.write(body)

    def metadata(self, bucket: str, key: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self._files.metadata(f"{bucket}/{key}", refresh=True)
        return found

    def get(self, bucket: str, key: str) -> bytes:
        try:
            body: bytes = self._files.cat_file(f"{bucket}/{key}")
        except FileNotFoundError as error:
            raise Missing from error
        return body

    def keys(self, bucket: str, prefix: str) -> list[str]:
        return [path.removeprefix(f"{bucket}/") for path in self._files.find(f"{bucket}/{prefix}", refresh=True)]

    def level(self, bucket: str, prefix: str) -> Level:
        keys, folders = [], []
        for item in self._files.ls(f"{bucket}/{prefix}", detail=True, refresh=True):
            key = item["name"].removeprefix(f"{bucket}/")
            if item["type"] == "directory":
                folders.append(key + "/")
            else:
                keys.append(key)
        return Level(sorted(keys), sorted(folders))

    def upload(self, bucket: str, key: str, source: Path) -> None:
        self._files.put_file(str(source), f"{bucket}/{key}", chunksize=8 * 1024 * 1024)

    def download(self, bucket: str, key: str, target: Path) -> None:
        self._files.get_file(f"{bucket}/{key}", str(target))

    def create(self, bucket: str, key: str, body: bytes) -> None:
        try:
            self._files.pipe_file(f"{bucket}/{key}", body, mode="create")
        except FileExistsError as error:
            raise ConditionFailed from error

    def replace(self, bucket: str, key: str, body: bytes, etag: str) -> None:
        """Open files have no such mode, but the call below them does."""
        try:
            self._files.call_s3("put_object", Bucket=bucket, Key=key, Body=body, IfMatch=etag)
        except OSError as error:
            cause = error.__cause__
            if isinstance(cause, ClientError) and cause.response["Error"]["Code"] == "PreconditionFailed":
                raise ConditionFailed from error
            raise

    def copy(self, bucket: str, key: str, target_bucket: str, target_key: str) -> None:
        self._files.copy(f"{bucket}/{key}", f"{target_bucket}/{target_key}")

    def delete(self, bucket: str, key: str) -> None:
        self._files.rm_file(f"{bucket}/{key}")

    def link_to_get(self, bucket: str, key: str) -> str:
        link: str = self._files.url(f"{bucket}/{key}", expires=60)
        return link

    def link_to_put(self, bucket: str, key: str) -> str:
        link: str = self._files.url(f"{bucket}/{key}", expires=60, client_method="put_object")
        return link


@pytest.fixture(scope="module")
def s3fs_files(lakebed_server: RunningServer) -> Iterator[Any]:
    files = S3FileSystem(
        key=lakebed_server.access_key,
        secret=lakebed_server.secret_key,
        endpoint_url=lakebed_server.endpoint,
        client_kwargs={"region_name": REGION},
        config_kwargs={"s3": {"addressing_style": "path"}, "signature_version": "s3v4"},  # see tests.clients.boto
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    yield files
    S3FileSystem.close_session(files.loop, files.s3)


class TestS3Fs(ClientContract):
    @pytest.fixture
    def client(self, s3fs_files: Any) -> S3Fs:
        return S3Fs(s3fs_files)


def test_file_in_blocks_is_readable_at_any_offset(s3fs_files: Any, bucket: str) -> None:
    body = bytes(range(256)) * 1024 * 44
    with s3fs_files.open(f"{bucket}/k", "wb", block_size=5 * 1024 * 1024) as file:
        for start in range(0, len(body), 1_000_003):
            file.write(body[start : start + 1_000_003])
    with s3fs_files.open(f"{bucket}/k", "rb", block_size=64 * 1024) as file:
        file.seek(9_999_999)
        assert file.read(1000) == body[9_999_999:10_000_999]
        file.seek(-10, 2)
        assert file.read() == body[-10:]


def test_exclusive_open_fails_if_the_file_exists(s3fs_files: Any, s3: Any, bucket: str) -> None:
    with s3fs_files.open(f"{bucket}/k", "xb") as file:
        file.write(b"first")
    with pytest.raises(FileExistsError), s3fs_files.open(f"{bucket}/k", "xb") as file:
        file.write(b"second")
    assert body_of(s3, bucket, "k") == b"first"


def test_recursive_removal_deletes_only_the_folder(s3fs_files: Any, s3: Any, bucket: str) -> None:
    for key in ("folder/a", "folder/b/c", "folder-not"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    s3fs_files.rm(f"{bucket}/folder", recursive=True)
    assert all_keys(s3, bucket) == ["folder-not"]
