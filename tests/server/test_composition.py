from __future__ import annotations

import asyncio
import gc
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lakebed.core.clock import ManualClock, SystemClock
from lakebed.core.errors import Corrupted, InvalidSetting
from lakebed.core.settings import LoggingFormat, LoggingSettings, ServerSettings, Settings
from lakebed.net.http import HttpRequest
from lakebed.server.composition import WorkerParts, compose
from lakebed.server.logs import AccessLog
from lakebed.server.metrics import Metrics
from lakebed.server.metrics.instruments import response_bytes, with_access_log
from lakebed.server.processes.child import CONNECTION
from lakebed.server.stores.identity import establish_identity
from lakebed.server.stores.object_store import open_storage
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import FileSlice, HeadFault, Request, Response
from tests.fixtures.descriptors import open_descriptors, opened_since
from tests.fixtures.raw_http import Connection, Signer, request_bytes
from tests.fixtures.server import RunningServer, running_server

from .running_processes import plain

V4 = Config(signature_version="v4")


def settings_on(folder: Path, **server: Any) -> Settings:  # Any: whatever the setting takes
    return Settings(server=ServerSettings(data=folder / "data", **server))


def request(method: str, path: str, query: str = "", **headers: str) -> Request:
    return Request(method, path, query, {"host": "here", **headers}, RequestBody(0), "http", "192.0.2.7", "REQ1")


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[WorkerParts]:
    settings = settings_on(tmp_path)
    metrics = Metrics(tmp_path / "run", 0)
    async with compose(settings, establish_identity(settings), metrics) as composed:
        yield composed
    metrics.close()


# -- the components of a worker ------------------------------------------------------------------------------------


async def test_health_and_metrics_need_no_credentials_and_other_paths_are_s3(parts: WorkerParts) -> None:
    assert (await parts.apps[CONNECTION].application(request("GET", "/health/ready"))).status == 200
    metrics = await parts.apps[CONNECTION].application(request("GET", "/metrics"))
    assert b"lakebed_connections 0\n" in metrics.body
    refused = await parts.apps[CONNECTION].application(request("GET", "/"))
    assert refused.status == 403
    assert b"<Code>AccessDenied</Code>" in refused.body
    counted = await parts.apps[CONNECTION].application(request("GET", "/metrics"))
    assert re.search(rb'lakebed_s3_requests_total\{operation="\w+",status="403"\} 1\n', counted.body)


async def test_connections_to_external_catalogs_close_with_the_server(tmp_path: Path) -> None:
    settings = settings_on(tmp_path)
    metrics = Metrics(tmp_path / "run", 0)
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        assert await reader.read() == b""
        ended.set()
        writer.close()

    gc.collect()  # closes sockets of earlier tests' clients
    before = sockets()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as other:
        async with compose(settings, establish_identity(settings), metrics) as parts:
            url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/"
            assert (await parts.outbound(HttpRequest("GET", url))).body == b"ok"
            assert not ended.is_set()
        async with asyncio.timeout(10):
            await ended.wait()
    async with asyncio.timeout(10):
        while sockets() != before:
            await asyncio.sleep(0)
    metrics.close()


def sockets() -> set[str]:
    """The open sockets of this process."""
    return {what for what in open_descriptors().values() if what.startswith("socket:")}


async def test_readiness_requires_the_metadata_store(parts: WorkerParts) -> None:
    await parts.meta.close()
    answer = await parts.apps[CONNECTION].application(request("GET", "/health/ready"))
    assert answer.status == 503


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (HeadFault(400, "malformed"), 400, "BadRequest"),
        (HeadFault(431, "too large"), 400, "RequestHeaderSectionTooLarge"),
        (HeadFault(500, "crashed"), 500, "InternalError"),
        (HeadFault(501, "coding"), 501, "NotImplemented"),
        (HeadFault(503, "full"), 503, "SlowDown"),
    ],
)
async def test_malformed_heads_are_refused_with_s3_errors(
    parts: WorkerParts, fault: HeadFault, status: int, code: str
) -> None:
    response = parts.apps[CONNECTION].reject(fault, "REQ9")
    assert response.status == status
    assert f"<Code>{code}</Code>".encode() in response.body
    assert b"<RequestId>REQ9</RequestId>" in response.body
    assert ("x-amz-request-id", "REQ9") in response.headers


async def test_file_in_place_of_the_blob_folder_is_an_invalid_setting(tmp_path: Path) -> None:
    settings = settings_on(tmp_path)
    settings.server.data.mkdir()
    (settings.server.data / "bytes").write_text("in the way")
    with pytest.raises(InvalidSetting, match=f"path={settings.server.data / 'bytes'}"):
        await open_storage(settings, SystemClock())


async def test_failed_start_closes_the_components_that_were_opened(tmp_path: Path) -> None:
    settings = settings_on(tmp_path)
    identity = establish_identity(settings)
    (settings.server.data / "bytes").write_text("in the way")
    before = open_descriptors()
    metrics = Metrics(tmp_path / "run", 0)
    with pytest.raises(InvalidSetting):
        async with compose(settings, identity, metrics):
            raise AssertionError("unreachable: compose fails")
    metrics.close()
    assert not opened_since(before)


async def test_damaged_metadata_is_corrupted(tmp_path: Path) -> None:
    settings = settings_on(tmp_path)
    identity = establish_identity(settings)
    (settings.server.data / "meta.db").write_bytes(os.urandom(50_000))
    metrics = Metrics(tmp_path / "run", 0)
    with pytest.raises(Corrupted):
        async with compose(settings, identity, metrics):
            raise AssertionError("unreachable: compose fails")
    metrics.close()


# -- the access log --------------------------------------------------------------------------------------------------


def recorded(path: Path) -> list[dict[str, Any]]:  # Any: fields of a line
    lines = []
    for line in path.read_text().splitlines():
        document = json.loads(line)
        if document["logger"] == "lakebed.access":
            lines.append(document)
    return lines


async def test_access_log_line_has_the_request_and_its_principal(tmp_path: Path) -> None:
    clock = ManualClock()
    path = tmp_path / "log"
    with path.open("wb") as file:

        async def application(request: Request) -> Response:
            request.principal = "ann"
            clock.advance(0.25)
            return Response(206, body=b"12345")

        logged = with_access_log(application, AccessLog(file.fileno(), LoggingFormat.JSON, clock), clock)
        signed = request("GET", "/b/k", "X-Amz-Signature=abcdef&a=1")
        assert (await logged(signed)).status == 206
    (line,) = recorded(path)
    line.pop("time")
    assert line == {
        "logger": "lakebed.access",
        "request_id": "REQ1",
        "remote": "192.0.2.7",
        "principal": "ann",
        "method": "GET",
        "target": "/b/k?X-Amz-Signature=***&a=1",
        "status": 206,
        "received_bytes": 0,
        "sent_bytes": 5,
        "ms": 250.0,
    }


@pytest.mark.parametrize(
    ("method", "response", "expected"),
    [
        ("GET", Response(200, body=b"abc"), 3),
        ("HEAD", Response(200, length=1000), 0),
        ("GET", Response(200, files=[FileSlice(-1, 0, 7)], length=7), 7),
        ("GET", Response(204), 0),
    ],
)
def test_sent_bytes_are_the_bytes_of_the_body(method: str, response: Response, expected: int) -> None:
    assert response_bytes(request(method, "/"), response) == expected


def test_access_log_is_off_by_default() -> None:
    assert LoggingSettings().access is False


@pytest.mark.integration
@pytest.mark.slow
def test_access_log_of_a_server_has_key_ids_and_no_secrets(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", "--set", "log.access=true") as server:
        signer = Signer(f"127.0.0.1:{server.port}")
        answers = {}
        with Connection(server.port) as connection:
            answers["PUT"] = connection.exchange(signer.request("PUT", "/bucket"))
            answers["POST"] = connection.exchange(signer.request("POST", "/bucket/key?uploads"))
            presigned = signer.presign("GET", "/bucket?list-type=2", 60)
            answers["GET"] = connection.exchange(request_bytes("GET", presigned, {"host": signer.host}))
            answers["DELETE"] = connection.exchange(plain("DELETE", "/bucket"))
        assert {method: answer.status for method, answer in answers.items()} == {
            "PUT": 200,
            "POST": 200,
            "GET": 200,
            "DELETE": 403,
        }
        temporary = use_temporary_keys(server)
        lines = recorded(server.log)
        text = server.log_text()
    for method, answer in answers.items():
        (line,) = [line for line in lines if line["request_id"] == answer.request_id]
        assert (line["method"], line["status"], line["remote"]) == (method, answer.status, "127.0.0.1")
        assert line["principal"] == ("anonymous" if method == "DELETE" else "root")
    assert len({line["request_id"] for line in lines}) == len(lines)
    signature = presigned.rpartition("=")[2]
    assert len(signature) == 64
    for secret in (signature, server.secret_key, *temporary):
        assert secret not in text
    assert not re.search(r"Signature=[0-9a-f]{8}", text)


def use_temporary_keys(server: RunningServer) -> tuple[str, str]:
    """Use temporary credentials in a presigned URL; their secret key and session token."""

    def client(service: str, **keys: str) -> Any:  # Any: boto3's clients are made at run time
        return boto3.client(service, endpoint_url=server.endpoint, region_name="us-east-1", config=V4, **keys)

    root = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key}
    with closing(client("sts", **root)) as sts:
        role = "arn:aws:iam::000000000000:role/reader"
        issued = sts.assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    keys = {
        "aws_access_key_id": issued["AccessKeyId"],
        "aws_secret_access_key": issued["SecretAccessKey"],
        "aws_session_token": issued["SessionToken"],
    }
    with closing(client("s3", **keys)) as s3:
        s3.list_objects_v2(Bucket="bucket")
        url = s3.generate_presigned_url("list_objects_v2", Params={"Bucket": "bucket"})
    with Connection(server.port) as connection:
        host = {"host": server.endpoint.removeprefix("http://")}
        answer = connection.exchange(request_bytes("GET", url.removeprefix(server.endpoint), host))
        assert answer.status == 200
    return issued["SecretAccessKey"], issued["SessionToken"]
