"""Where clients of streams are told to read files, and where keys to them are asked for."""

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
OWN = S3StorageSettings(
    bucket="lake",
    prefix="p",
    region="eu-west-1",
    endpoint="https://s3.example",
    access_key_id="OWNKEY",
    secret_access_key=Secret("own-secret"),
)


def settings(s3: S3StorageSettings = OWN, **streams: str) -> Settings:
    said: Mapping[str, str] = {"remote_address": "s3://lake/p/", "remote_role": ROLE, **streams}
    return Settings(storage=StorageSettings(StorageKind.S3, s3), streams=StreamsSettings(**said))  # type: ignore[arg-type]  # all are text


async def open_files(chosen: Settings) -> RemoteFiles | None:
    return await open_remote_files(chosen.streams, lambda: s3_options(chosen.storage.s3), SystemClock())


async def test_without_an_address_there_is_nothing() -> None:
    assert await open_files(Settings()) is None


@pytest.mark.parametrize(
    ("s3", "role", "endpoint", "path_style", "partition"),
    [
        (OWN, ROLE, "https://s3.example", True, "aws"),
        (replace(OWN, endpoint=None), ROLE, None, False, "aws"),
        (replace(OWN, path_style=False), "arn:aws-cn:iam::1:role/r", "https://s3.example", False, "aws-cn"),
        (OWN, "arn:minio:iam:::role/r", "https://s3.example", True, "aws"),
    ],
)
async def test_the_place_is_that_of_the_byte_store(
    s3: S3StorageSettings, role: str, endpoint: str | None, path_style: bool, partition: str
) -> None:
    files = await open_files(settings(s3, remote_role=role))
    assert files is not None
    place = files.location
    assert (place.address, place.bucket, place.folder) == ("s3://lake/p", "lake", "p/streams")
    assert (place.region, place.endpoint, place.path_style) == ("eu-west-1", endpoint, path_style)
    assert place.partition == partition
    await files.close()


async def test_without_a_role_there_are_no_keys() -> None:
    streams = StreamsSettings(remote_address="s3://lake/p")
    files = await open_files(replace(settings(), streams=streams))
    assert files is not None
    assert files.credentials is None
    await files.close()


class Own:
    """The byte store's own keys."""

    async def credentials(self, rejected: Credentials | None = None) -> Credentials:
        return Credentials("OWNKEY", Secret("own-secret"))

    async def close(self) -> None:
        """Nothing is refreshed."""


async def test_keys_are_the_role_s_and_confined() -> None:
    asked: list[HttpRequest] = []

    async def http(request: HttpRequest) -> HttpResponse:
        asked.append(request)
        return HttpResponse(200, sts_response())

    service = TokenService(machine(http=http), "eu-west-1", "https://s3.example")
    made = await RoleCredentials(ROLE, service, Own()).make("user-ann", '{"Version":"2012-10-17"}')
    (request,) = asked
    form = {name: value for name, (value,) in parse_qs(request.body.decode()).items()}
    assert request.url == "https://s3.example/"
    assert (form["Action"], form["RoleArn"], form["RoleSessionName"]) == ("AssumeRole", ROLE, "user-ann")
    assert (form["DurationSeconds"], form["Policy"]) == ("900", '{"Version":"2012-10-17"}')
    assert "OWNKEY/" in request.headers["authorization"]
    assert made.session_token is not None
    assert made.expires_ms is not None
    assert made.access_key_id != "OWNKEY"


@pytest.mark.integration
async def test_keys_of_somebody_else_s_store_open_what_the_policy_names(minio: MinioServer) -> None:
    bucket = minio.make_bucket()
    with minio.client() as client:
        for key in ("p/streams/log/fluss/t-1/0/a.log", "p/streams/log/fluss/t-10/0/a.log", "p/blobs/a"):
            client.put_object(Bucket=bucket, Key=key, Body=b"bytes")
    s3 = replace(
        OWN,
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
    keys = await files.credentials.make("user-ann", read_policy(files.location, ["p/streams/log/fluss/t-1/"]))
    await files.close()
    assert keys.session_token is not None
    client = botocore.session.Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=minio.endpoint,
        aws_access_key_id=keys.access_key_id,
        aws_secret_access_key=keys.secret_access_key.reveal(),
        aws_session_token=keys.session_token.reveal(),
        config=Config(s3={"addressing_style": "path"}),
    )
    try:
        assert client.get_object(Bucket=bucket, Key="p/streams/log/fluss/t-1/0/a.log")["Body"].read() == b"bytes"
        for method, words in (
            ("get_object", {"Key": "p/streams/log/fluss/t-10/0/a.log"}),
            ("get_object", {"Key": "p/blobs/a"}),
            ("put_object", {"Key": "p/streams/log/fluss/t-1/0/a.log", "Body": b"another"}),
            ("list_objects_v2", {}),
        ):
            with pytest.raises(ClientError) as raised:
                getattr(client, method)(Bucket=bucket, **words)
            assert raised.value.response["Error"]["Code"] == "AccessDenied"
    finally:
        client.close()
