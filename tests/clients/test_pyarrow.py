"""pyarrow's S3FileSystem (the AWS SDK for C++) on a running server."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pyarrow.parquet
import pytest
from pyarrow.fs import FileSelector, FileType, S3FileSystem

from tests.clients.boto import REGION, all_keys, body_of
from tests.clients.contract import PAST_INLINE, ClientContract, Level, Missing
from tests.clients.plain_http import fetch
from tests.clients.tls import TlsServer
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

PIECE_BYTES = 1024 * 1024


class PyArrow:
    """The contract's operations with pyarrow's file system, whose paths begin with the bucket.

    It lacks conditions and presigned URLs; the tests below cover its alternatives.
    """

    def __init__(self, files: Any) -> None:  # Any: pyarrow has no types
        self._files = files

    def make_bucket(self, bucket: str) -> None:
        self._files.create_dir(bucket)

    def buckets(self) -> list[str]:
        return [item.path for item in self._files.get_file_info(FileSelector(""))]

    def put(self, bucket: str, key: str, body: bytes) -> None:
        with self._files.open_output_stream(f"{bucket}/{key}") as file:
            file.write(body)

    def put_with_metadata(self, bucket: str, key: str, body: bytes, metadata: Mapping[str, str]) -> None:
        raise NotImplementedError(TestPyArrow.cannot["metadata"])

    def metadata(self, bucket: str, key: str) -> Mapping[str, str]:
        raise NotImplementedError(TestPyArrow.cannot["metadata"])

    def get(self, bucket: str, key: str) -> bytes:
        try:
            with self._files.open_input_stream(f"{bucket}/{key}") as file:
                body: bytes = file.read()
                return body
        except FileNotFoundError as error:
            raise Missing from error

    def keys(self, bucket: str, prefix: str) -> list[str]:
        return sorted(self._paths(bucket, prefix, FileType.File, recursive=True), key=str.encode)

    def level(self, bucket: str, prefix: str) -> Level:
        return Level(
            sorted(self._paths(bucket, prefix, FileType.File)),
            sorted(path + "/" for path in self._paths(bucket, prefix, FileType.Directory)),
        )

    def _paths(self, bucket: str, prefix: str, kind: FileType, *, recursive: bool = False) -> list[str]:
        found = self._files.get_file_info(FileSelector(f"{bucket}/{prefix}", recursive=recursive))
        return [item.path.removeprefix(f"{bucket}/") for item in found if item.type == kind]

    def upload(self, bucket: str, key: str, source: Path) -> None:
        with source.open("rb") as read, self._files.open_output_stream(f"{bucket}/{key}") as written:
            shutil.copyfileobj(read, written, PIECE_BYTES)

    def download(self, bucket: str, key: str, target: Path) -> None:
        with self._files.open_input_stream(f"{bucket}/{key}") as read, target.open("wb") as written:
            shutil.copyfileobj(read, written, PIECE_BYTES)

    def create(self, bucket: str, key: str, body: bytes) -> None:
        raise NotImplementedError(TestPyArrow.cannot["create"])

    def replace(self, bucket: str, key: str, body: bytes, etag: str) -> None:
        raise NotImplementedError(TestPyArrow.cannot["replace"])

    def copy(self, bucket: str, key: str, target_bucket: str, target_key: str) -> None:
        self._files.copy_file(f"{bucket}/{key}", f"{target_bucket}/{target_key}")

    def delete(self, bucket: str, key: str) -> None:
        self._files.delete_file(f"{bucket}/{key}")

    def link_to_get(self, bucket: str, key: str) -> str:
        raise NotImplementedError(TestPyArrow.cannot["link_to_get"])

    def link_to_put(self, bucket: str, key: str) -> str:
        raise NotImplementedError(TestPyArrow.cannot["link_to_put"])


def _file_system(server: RunningServer, **options: str) -> Any:  # Any: pyarrow has no types
    scheme, _, address = server.endpoint.partition("://")
    return S3FileSystem(
        access_key=server.access_key,
        secret_key=server.secret_key,
        endpoint_override=address,
        scheme=scheme,
        region=REGION,
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
        **options,
    )


@pytest.fixture(scope="module")
def arrow_files(lakebed_server: RunningServer) -> Any:
    return _file_system(lakebed_server)


_NO_CONDITIONS = "pyarrow's files have no conditional write: see the tests of its output streams"
_NO_LINKS = "pyarrow does not presign: see the test of a URL that boto3 presigned"


class TestPyArrow(ClientContract):
    cannot: ClassVar[Mapping[str, str]] = {
        "metadata": "pyarrow's files have content headers, but no user metadata",
        "create": _NO_CONDITIONS,
        "replace": _NO_CONDITIONS,
        "link_to_get": _NO_LINKS,
        "link_to_put": _NO_LINKS,
    }

    @pytest.fixture
    def client(self, arrow_files: Any) -> PyArrow:
        return PyArrow(arrow_files)


def test_content_type_of_a_stream_is_stored(arrow_files: Any, s3: Any, bucket: str) -> None:
    with arrow_files.open_output_stream(f"{bucket}/k", metadata={"Content-Type": "text/plain"}) as file:
        file.write(b"1")
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "text/plain"
    with arrow_files.open_input_stream(f"{bucket}/k") as file:
        assert file.metadata()["Content-Type"] == b"text/plain"


def test_old_body_stays_visible_until_the_stream_is_closed(arrow_files: Any, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    body = b"n" * (6 * 1024 * 1024)
    with arrow_files.open_output_stream(f"{bucket}/k") as file:
        file.write(body)
        file.write(body)
        assert body_of(s3, bucket, "k") == b"old"
    assert body_of(s3, bucket, "k") == body + body


def test_url_presigned_by_boto3_reads_what_pyarrow_wrote(arrow_files: Any, s3: Any, bucket: str) -> None:
    with arrow_files.open_output_stream(f"{bucket}/k") as file:
        file.write(b"written by pyarrow")
    link = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60)
    assert fetch("GET", link).body == b"written by pyarrow"


def test_parquet_table_reads_back_by_column(arrow_files: Any, bucket: str) -> None:
    table = pyarrow.table({"id": list(range(100_000)), "name": [f"name-{number % 97}" for number in range(100_000)]})
    pyarrow.parquet.write_table(table, f"{bucket}/t/part.parquet", filesystem=arrow_files)
    ids = pyarrow.parquet.read_table(f"{bucket}/t/part.parquet", filesystem=arrow_files, columns=["id"])
    assert ids == table.select(["id"])


def test_directory_is_deleted_with_its_contents(arrow_files: Any, s3: Any, bucket: str) -> None:
    for key in ("folder/a", "folder/b/c", "keep"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"1")
    arrow_files.delete_dir(f"{bucket}/folder")
    assert all_keys(s3, bucket) == ["keep"]


@pytest.mark.parametrize("body", [b"", b"a few bytes", PAST_INLINE, b"0123456789" * 1_200_000], ids=len)
def test_body_reads_back_over_tls(tls_server: TlsServer, new_name: str, body: bytes) -> None:
    files = _file_system(tls_server.server, tls_ca_file_path=str(tls_server.trust))
    files.create_dir(new_name)
    client = PyArrow(files)
    client.put(new_name, "k", body)
    assert client.get(new_name, "k") == body
