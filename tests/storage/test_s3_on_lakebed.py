"""The S3 store on a Lakebed server fulfils the whole contract, and a server can use another as its object store."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import boto3
import pytest

from lakebed.core.secrets import Secret
from lakebed.storage.ownership import MARKER_KEY
from lakebed.storage.s3 import S3Options, S3Storage, connect_s3
from tests.contracts.storage import Capabilities, StorageContract
from tests.fixtures.server import RunningServer, running_server

pytestmark = pytest.mark.integration


def _client(server: RunningServer) -> boto3.client:
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )


@pytest.fixture(scope="module")
def options(lakebed_server: RunningServer) -> S3Options:
    """A new bucket on the server."""
    bucket = f"bytes-{secrets.token_hex(6)}"
    _client(lakebed_server).create_bucket(Bucket=bucket)
    return S3Options(
        bucket=bucket,
        endpoint=lakebed_server.endpoint,
        allow_http=True,
        access_key_id=lakebed_server.access_key,
        secret_access_key=Secret(lakebed_server.secret_key),
    )


class TestS3OnLakebed(StorageContract):
    capabilities = Capabilities()

    @pytest.fixture
    async def storage(self, options: S3Options) -> AsyncIterator[S3Storage]:
        # Without given capabilities, the probe runs and must find all of them.
        opened = await connect_s3(options)
        assert opened.capabilities.conditional_put
        assert opened.capabilities.conditional_complete
        yield opened
        await opened.close()


@pytest.mark.slow
def test_server_uses_the_bucket_of_another_server(lakebed_server: RunningServer, tmp_path: Path) -> None:
    inner = _client(lakebed_server)
    bucket = f"under-{secrets.token_hex(6)}"
    inner.create_bucket(Bucket=bucket)
    flags = [
        f"--set=storage.{name}={value}"
        for name, value in {
            "kind": "s3",
            "s3.bucket": bucket,
            "s3.endpoint": lakebed_server.endpoint,
            "s3.allow_http": "true",
            "s3.access_key_id": lakebed_server.access_key,
            "s3.multipart_part_size": "5MiB",
        }.items()
    ]
    secret = {"LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY": lakebed_server.secret_key}
    with running_server(tmp_path / "outer", *flags, workers=1, **secret) as outer:
        client = _client(outer)
        client.create_bucket(Bucket="outer")
        body = secrets.token_bytes(12 * 1024 * 1024)
        client.put_object(Bucket="outer", Key="large", Body=body)
        client.put_object(Bucket="outer", Key="small", Body=b"small")
        assert client.get_object(Bucket="outer", Key="large")["Body"].read() == body
        assert client.get_object(Bucket="outer", Key="large", Range="bytes=5-9")["Body"].read() == body[5:10]
        assert client.get_object(Bucket="outer", Key="small")["Body"].read() == b"small"
        stored, deployment = inner.list_objects_v2(Bucket=bucket)["Contents"]
        assert deployment["Key"] == MARKER_KEY
        assert stored["Key"].startswith("blobs/")
        assert stored["Size"] == len(body)
