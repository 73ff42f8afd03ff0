"""The location of stream files for clients, and the credentials for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import parse_qs

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lakebed.core.clock import SystemClock
from lakebed.core.secrets import Secret
from lakebed.core.settings import S3StorageSettings, Settings, StorageKind, StorageSettings, StreamsSettings
from lakebed.net.http import HttpRequest, HttpResponse
from lakebed.server.stores.remote_storage import s3_options
from lakebed.storage.credentials import Credentials
from lakebed.storage.credentials.sts import TokenService
from lakebed.streams.file_access import RoleCredentials, read_policy
from lakebed.streams.remote_files import RemoteFiles, open_remote_files
from tests.fixtures.minio import MinioServer
from tests.storage.credentials.fakes import machine, sts_response

ROLE = "arn:aws:iam::1:role/streams"
S3 = S3StorageSettings(
    bucket="lake",
    prefix="p",
    region="eu-west-1",
    endpoint="https://s3.example",
    access_key_id="OWNKEY",
    secret_access_key=Secret("own-secret"),
)


def settings(s3: S3StorageSettings = S3, **streams: str) -> Settings:
    texts: Mapping[str, str] = {"remote_address": "s3://lake/p/", "remote_role": ROLE, **streams}
    return Settings(storage=StorageSettings(StorageKind.S3, s3), streams=StreamsSettings(**texts))  # type: ignore[arg-type]  # all are text


async def open_files(chosen: Settings) -> RemoteFiles | None:
    return await open_remote_files(chosen.streams, lambda: s3_options(chosen.storage.s3), SystemClock())


async def test_no_remote_files_without_an_address() -> None:
    assert await open_files(Settings()) is None


@pytest.mark.parametrize(
    ("s3", "role", "endpoint", "path_style", "partition"),
    [
        (S3, ROLE, "https://s3.example", True, "aws"),
        (replace(S3, endpoint=None), ROLE, None, False, "aws"),
        (replace(S3, path_style=False), "arn:aws-cn:iam::1:role/r", "https://s3.example", False, "aws-cn"),
        (S3, "arn:minio:iam:::role/r", "https://s3.example", True, "aws"),
    ],
)
async def test_location_is_that_of_the_object_store(
    s3: S3StorageSettings, role: str, endpoint: str | None, path_style: bool, partition: str
) -> None:
    files = await open_files(settings(s3, remote_role=role))
    assert files is not None
    location = files.location
    assert (location.address, location.bucket, location.folder) == ("s3://lake/p", "lake", "p/streams")
    assert (location.region, location.endpoint, location.path_style) == ("eu-west-1", endpoint, path_style)
    assert location.partition == partition
    await files.close()


async def test_no_credentials_without_a_role() -> None:
    streams = StreamsSettings(remote_address="s3://lake/p")
    files = await open_files(replace(settings(), streams=streams))
    assert files is not None
    assert files.credentials is None
    await files.close()


class ServerCredentials:
    """The server's own credentials for the object store."""

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        return Credentials("OWNKEY", Secret("own-secret"))

    async def close(self) -> None:
        """Part of the interface."""


async def test_credentials_assume_the_role_with_the_policy() -> None:
    requests: list[HttpRequest] = []

    async def http(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        return HttpResponse(200, sts_response())

    service = TokenService(machine(http=http), "eu-west-1", "https://s3.example")
    assumed = await RoleCredentials(ROLE, service, ServerCredentials()).make("user-ann", '{"Version":"2012-10-17"}')
    (request,) = requests
    form = {name: value for name, (value,) in parse_qs(request.body.decode()).items()}
    assert request.url == "https://s3.example/"
    assert (form["Action"], form["RoleArn"], form["RoleSessionName"]) == ("AssumeRole", ROLE, "user-ann")
    assert (form["DurationSeconds"], form["Policy"]) == ("900", '{"Version":"2012-10-17"}')
    assert "OWNKEY/" in request.headers["authorization"]
    assert assumed.session_token is not None
    assert assumed.expires_ms is not None
    assert assumed.access_key_id != "OWNKEY"


@pytest.mark.integration
async def test_credentials_of_minio_are_limited_to_the_policy(minio: MinioServer) -> None:
    bucket = minio.make_bucket()
    with minio.client() as client:
        for key in ("p/streams/log/fluss/t-1/0/a.log", "p/streams/log/fluss/t-10/0/a.log", "p/blobs/a"):
            client.put_object(Bucket=bucket, Key=key, Body=b"bytes")
    s3 = replace(
        S3,
        bucket=bucket,
        endpoint=minio.endpoint,
        allow_http=True,
        region="us-east-1",
        access_key_id=minio.access_key_id,
        secret_access_key=Secret(minio.secret_access_key),
    )
    role = "arn:minio:iam:::role/streams"
    files = await open_files(settings(s3, remote_address=f"s3://{bucket}/p", remote_role=role))
    assert files is not None
    assert files.credentials is not None
    credentials = await files.credentials.make("user-ann", read_policy(files.location, ["p/streams/log/fluss/t-1/"]))
    await files.close()
    assert credentials.session_token is not None
    client = botocore.session.Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=minio.endpoint,
        aws_access_key_id=credentials.access_key_id,
        aws_secret_access_key=credentials.secret_access_key.reveal(),
        aws_session_token=credentials.session_token.reveal(),
        config=Config(s3={"addressing_style": "path"}),
    )
    try:
        assert client.get_object(Bucket=bucket, Key="p/streams/log/fluss/t-1/0/a.log")["Body"].read() == b"bytes"
        for method, parameters in (
            ("get_object", {"Key": "p/streams/log/fluss/t-10/0/a.log"}),
            ("get_object", {"Key": "p/blobs/a"}),
            ("put_object", {"Key": "p/streams/log/fluss/t-1/0/a.log", "Body": b"another"}),
            ("list_objects_v2", {}),
        ):
            with pytest.raises(ClientError) as raised:
                getattr(client, method)(Bucket=bucket, **parameters)
            assert raised.value.response["Error"]["Code"] == "AccessDenied"
    finally:
        client.close()
