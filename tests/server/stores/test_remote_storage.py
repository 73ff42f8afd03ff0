from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Iterator
from contextlib import closing

import boto3
import pytest

from lakebed.core.clock import SystemClock
from lakebed.core.errors import AlreadyExists, InvalidSetting, LakebedError, NotSupported, Unavailable
from lakebed.core.secrets import Secret
from lakebed.core.settings import ConditionalPut, RetrySettings, S3StorageSettings
from lakebed.server.stores.remote_storage import open_remote
from lakebed.storage.seam import Key
from tests.fixtures.ports import free_port
from tests.fixtures.scripted_http import ScriptedResponse, scripted_server
from tests.fixtures.server import RunningServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MIB = 1024 * 1024


@pytest.fixture
def settings(lakebed_server: RunningServer) -> Iterator[S3StorageSettings]:
    """Settings that name a new bucket of another server."""
    client = boto3.client(
        "s3",
        endpoint_url=lakebed_server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=lakebed_server.access_key,
        aws_secret_access_key=lakebed_server.secret_key,
    )
    bucket = f"remote-{secrets.token_hex(6)}"
    with closing(client):
        client.create_bucket(Bucket=bucket)
        yield S3StorageSettings(
            bucket=bucket,
            prefix="below",
            endpoint=lakebed_server.endpoint,
            allow_http=True,
            access_key_id=lakebed_server.access_key,
            secret_access_key=Secret(lakebed_server.secret_key),
            multipart_part_size=5 * MIB,
        )
        stored = client.list_objects_v2(Bucket=bucket).get("Contents", [])
        assert all(item["Key"].startswith("below/") for item in stored)


async def test_unreachable_store_is_named_in_the_error(
    settings: S3StorageSettings, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable) as away:
        await open_remote(dataclasses.replace(settings, endpoint=endpoint), SystemClock())
    assert str(away.value).startswith("the object store is unreachable: check storage.s3.endpoint and the network.")
    assert f"endpoint={endpoint} bucket={settings.bucket}" in str(away.value)
    assert str(away.value).endswith("reason=Connection refused")
    assert "could not be removed" not in caplog.text


@pytest.mark.parametrize("status", [400, 404])
async def test_endpoint_without_an_s3_store_is_named_in_the_error(settings: S3StorageSettings, status: int) -> None:
    with scripted_server(lambda request: ScriptedResponse(status, b"<html>a web page</html>")) as other:
        with pytest.raises(InvalidSetting) as caught:
            await open_remote(dataclasses.replace(settings, endpoint=other.url), SystemClock())
        message = str(caught.value)
        assert message.startswith("storage.s3.endpoint: not an S3 store. ")
        assert f"endpoint={other.url} bucket={settings.bucket}" in message


async def test_errors_of_the_store_name_the_setting(settings: S3StorageSettings) -> None:
    async def refused(**changes: object) -> str:
        with pytest.raises(InvalidSetting) as caught:
            await open_remote(dataclasses.replace(settings, **changes), SystemClock())  # type: ignore[arg-type]
        return str(caught.value)

    assert (await refused(bucket="no-such-bucket")).startswith("storage.s3.bucket: the object store has no such bucket")
    assert (await refused(secret_access_key=Secret("wrong"))).startswith(
        "storage.s3: the object store accepts none of the credentials; set storage.s3.access_key_id"
    )
    assert (await refused(bucket="B")).startswith("storage.s3.bucket: expected a bucket name. found='B'")


async def test_blobs_are_stored_under_the_configured_prefix(settings: S3StorageSettings) -> None:
    storage, _ = await open_remote(settings, SystemClock())
    try:
        await storage.put_if_absent(Key("one"), b"first")
        with pytest.raises(AlreadyExists):
            await storage.put_if_absent(Key("one"), b"second")
        assert await storage.get_range(Key("one"), 0, 5) == b"first"
    finally:
        await storage.close()


async def test_large_bodies_are_uploaded_in_parts_of_the_configured_size(settings: S3StorageSettings) -> None:
    storage, open_writer = await open_remote(settings, SystemClock())
    body = os.urandom(12 * MIB)
    try:
        writer = open_writer(Key("large"))
        for start in range(0, len(body), MIB):
            await writer.write(body[start : start + MIB])
        written = await writer.finish()
        assert written.size == len(body)
        assert await storage.get_range(Key("large"), 0, len(body)) == body
        assert (await storage.head(Key("large"))).etag.strip('"').endswith("-3")
    finally:
        await storage.close()


async def test_store_configured_without_conditional_writes_refuses_them(settings: S3StorageSettings) -> None:
    plain = dataclasses.replace(settings, conditional_put=ConditionalPut.DISABLED)
    storage, _ = await open_remote(plain, SystemClock())
    try:
        with pytest.raises(NotSupported):
            await storage.put_if_absent(Key("one"), b"first")
    finally:
        await storage.close()


async def test_absent_store_raises_a_lakebed_error() -> None:
    settings = S3StorageSettings(
        bucket="nowhere",
        endpoint=f"http://127.0.0.1:{free_port()}",
        allow_http=True,
        access_key_id="A" * 20,
        secret_access_key=Secret("s" * 40),
        connect_timeout=1.0,
        retry=RetrySettings(max_attempts=1, timeout=2.0),
    )
    with pytest.raises(LakebedError):
        await open_remote(settings, SystemClock())
