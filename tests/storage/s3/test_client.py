"""Requests of the S3 client, and its handling of unusual responses."""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import Callable

import pytest

from lakebed.core.errors import (
    AlreadyExists,
    CredentialsExpired,
    IntegrityMismatch,
    InvalidSetting,
    LakebedError,
    NoSuchUpload,
    NotSupported,
    PreconditionFailed,
    Throttled,
    Unavailable,
    WriteConflict,
)
from lakebed.storage.probe import CONDITIONS_TRUSTED
from lakebed.storage.s3 import S3Options, S3Storage, connect_s3
from lakebed.storage.seam import IfAbsent, Key, PartReceipt
from tests.fixtures.scripted_http import Script, ScriptedRequest, ScriptedResponse

from .scripted_s3 import SECRET, TOKEN, Keyring, error, scripted_s3, written

KEY = Key("k")
CREATED = ScriptedResponse(
    200, b"<InitiateMultipartUploadResult><UploadId>U1</UploadId></InitiateMultipartUploadResult>"
)


async def _complete(storage: S3Storage, condition: IfAbsent | None = None) -> object:
    upload = await storage.start_multipart(KEY)
    return await upload.complete([PartReceipt(1, "part", 1)], condition)


def _script_completion(answer: ScriptedResponse) -> Callable[[ScriptedRequest], ScriptedResponse]:
    return lambda request: CREATED if request.path.endswith("?uploads") else answer


async def test_conditions_are_sent_as_headers() -> None:
    async with scripted_s3(lambda _: written()) as (storage, server):
        await storage.put(KEY, b"1")
        await storage.put_if_absent(KEY, b"2")
        await storage.put_if_match(KEY, b"3", "tag")
    plain, create, swap = server.requests
    assert plain.path == create.path == swap.path == "/bucket/pre/k"
    assert "if-none-match" not in plain.headers
    assert "if-match" not in plain.headers
    assert create.headers["if-none-match"] == "*"
    assert swap.headers["if-match"] == '"tag"'
    assert [request.body for request in server.requests] == [b"1", b"2", b"3"]


async def test_condition_of_a_completion_is_sent() -> None:
    done = ScriptedResponse(
        200, b"<CompleteMultipartUploadResult><ETag>&quot;e-1&quot;</ETag></CompleteMultipartUploadResult>"
    )
    async with scripted_s3(_script_completion(done)) as (storage, server):
        await _complete(storage, IfAbsent())
    assert server.requests[-1].headers["if-none-match"] == "*"
    assert b'<ETag>"part"</ETag>' in server.requests[-1].body.replace(b"&quot;", b'"')


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(412, "PreconditionFailed"), AlreadyExists),
        (error(409, "ConditionalRequestConflict"), WriteConflict),
        (error(503, "SlowDown"), Throttled),
        (error(500, "InternalError"), Unavailable),
        (ScriptedResponse(502, b"<html>bad gateway</html>"), Unavailable),
        (ScriptedResponse(200), Unavailable),
    ],
)
async def test_failed_create_is_mapped_without_retries(answer: ScriptedResponse, kind: type[LakebedError]) -> None:
    async with scripted_s3(lambda _: answer) as (storage, server):
        with pytest.raises(kind) as raised:
            await storage.put_if_absent(KEY, b"body")
        assert type(raised.value) is kind
    assert len(server.requests) == 1


async def test_replacing_absent_object_is_a_failed_precondition() -> None:
    async with scripted_s3(lambda _: error(404, "NoSuchKey")) as (storage, _):
        with pytest.raises(PreconditionFailed):
            await storage.put_if_match(KEY, b"body", "tag")


async def test_redirect_is_an_invalid_setting() -> None:
    async with scripted_s3(lambda _: error(301, "PermanentRedirect")) as (storage, server):
        with pytest.raises(InvalidSetting, match="region, endpoint, bucket"):
            await storage.get(KEY)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<Error><Code>InternalError</Code><Message>again</Message></Error>", Unavailable),
        (b"   \n  <Error><Code>SlowDown</Code></Error>", Throttled),
        (b"<Error><Code>PreconditionFailed</Code></Error>", AlreadyExists),
        (b"<CompleteMultipartUploadResult><ETag>&quot;cut of", Unavailable),
        (b"", Unavailable),
        (b"<CompleteMultipartUploadResult/>", Unavailable),
    ],
)
async def test_completion_with_status_200_requires_a_result(body: bytes, kind: type[LakebedError]) -> None:
    async with scripted_s3(_script_completion(ScriptedResponse(200, body))) as (storage, _):
        with pytest.raises(kind):
            await _complete(storage, IfAbsent())


async def test_completing_absent_upload_raises_no_such_upload() -> None:
    async with scripted_s3(_script_completion(error(404, "NoSuchUpload"))) as (storage, _):
        with pytest.raises(NoSuchUpload):
            await _complete(storage, IfAbsent())


async def test_short_body_is_unavailable() -> None:
    async with scripted_s3(lambda _: ScriptedResponse(200, b"half", claimed_length=8)) as (storage, _):
        with pytest.raises(Unavailable):
            await storage.get(KEY)
        with pytest.raises(Unavailable):
            _ = [piece async for piece in storage.stream(KEY)]


async def test_short_range_is_unavailable() -> None:
    short = ScriptedResponse(206, b"ha", {"Content-Range": "bytes 0-3/8"}, claimed_length=4)
    async with scripted_s3(lambda _: short) as (storage, _):
        with pytest.raises(Unavailable):
            await storage.get_range(KEY, 0, 4)


async def test_store_that_ignores_ranges_is_rejected() -> None:
    async with scripted_s3(lambda _: ScriptedResponse(200, b"everything")) as (storage, _):
        with pytest.raises(NotSupported):
            await storage.get_range(KEY, 2, 4)
        with pytest.raises(NotSupported):
            _ = [piece async for piece in storage.stream(KEY, 2)]


async def test_damaged_body_is_detected_by_its_checksum() -> None:
    damaged = ScriptedResponse(200, b"damaged", {"x-amz-checksum-crc32": "AAAAAA=="})
    async with scripted_s3(lambda _: damaged) as (_, server):
        storage = await connect_s3(
            S3Options("bucket", region="us-east-1", endpoint=server.url, allow_http=True, checksum="crc32"),
            credentials=Keyring(),
            capabilities=CONDITIONS_TRUSTED,
        )
        with pytest.raises(IntegrityMismatch):
            await storage.get(KEY)
        await storage.close()


async def test_refused_connection_is_unavailable() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        storage = await connect_s3(
            S3Options("bucket", endpoint=endpoint, region="us-east-1", allow_http=True),
            credentials=Keyring(),
            capabilities=CONDITIONS_TRUSTED,
        )
        with pytest.raises(Unavailable) as raised:
            await storage.put(KEY, b"body")
        assert not raised.value.undecided
        await storage.close()


def hang_up(_: ScriptedRequest) -> ScriptedResponse:
    """Read the request and close the connection."""
    raise ConnectionError


@pytest.mark.parametrize("script", [hang_up, lambda _: ScriptedResponse(200, b"", claimed_length=8)])
async def test_lost_response_to_a_write_is_undecided(script: Script) -> None:
    async with scripted_s3(script) as (storage, server):
        with pytest.raises(Unavailable) as raised:
            await storage.put(KEY, b"body")
        assert raised.value.undecided
        with pytest.raises(Unavailable) as raised:
            await storage.get(KEY)
        assert not raised.value.undecided
    assert len(server.requests) == 2


async def test_request_with_expired_credentials_is_retried_once_with_new_ones() -> None:
    def script(request: ScriptedRequest) -> ScriptedResponse:
        expired = "OLDKEYID" in request.headers["authorization"]
        return error(400, "ExpiredToken") if expired else written()

    keyring = Keyring()
    async with scripted_s3(script, keyring) as (storage, server):
        assert (await storage.put_if_absent(KEY, b"body")).etag == "tag"
    assert keyring.rejections == 1
    assert len(server.requests) == 2


async def test_request_with_expired_credentials_is_tried_twice_at_most() -> None:
    async with scripted_s3(lambda _: error(403, "ExpiredToken")) as (storage, server):
        with pytest.raises(CredentialsExpired):
            await storage.get(KEY)
    assert len(server.requests) == 2


async def test_echoed_secrets_are_removed_from_errors_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = error(403, "SignatureDoesNotMatch", f"you sent {TOKEN} and your secret is {SECRET}")
    async with scripted_s3(lambda _: echo) as (storage, server):
        with pytest.raises(LakebedError) as raised:
            await storage.put(KEY, b"body")
    assert server.requests[0].headers["x-amz-security-token"] == TOKEN
    shown = "".join(traceback.format_exception(raised.value)) + caplog.text
    assert "you sent *** and your secret is ***" in shown
    assert TOKEN not in shown
    assert SECRET not in shown


async def test_ambient_configuration_of_aws_tools_does_not_change_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_PROFILE": "no-such-profile",
        "AWS_CONFIG_FILE": "/no/such/file",
        "AWS_ENDPOINT_URL_S3": "http://elsewhere.invalid",
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_supported",
        "AWS_MAX_ATTEMPTS": "9",
        "AWS_ACCESS_KEY_ID": "AMBIENT",
        "AWS_SECRET_ACCESS_KEY": "ambient",
    }.items():
        monkeypatch.setenv(name, value)
    async with scripted_s3(lambda _: error(500, "InternalError")) as (storage, server):
        with pytest.raises(Unavailable):
            await storage.put(KEY, b"body")
    (request,) = server.requests
    assert "OLDKEYID" in request.headers["authorization"]
    assert not [name for name in request.headers if name.startswith("x-amz-checksum")]


async def test_store_without_bulk_delete_gets_single_deletes_from_then_on() -> None:
    def script(request: ScriptedRequest) -> ScriptedResponse:
        return error(501, "NotImplemented") if request.method == "POST" else ScriptedResponse(204)

    async with scripted_s3(script) as (storage, server):
        await storage.delete_many([Key("a"), Key("b")])
        await storage.delete_many([Key("c")])
    assert [request.method for request in server.requests].count("POST") == 1
    assert {request.path for request in server.requests if request.method == "DELETE"} == {
        "/bucket/pre/a",
        "/bucket/pre/b",
        "/bucket/pre/c",
    }


async def test_bulk_delete_reports_the_failed_key() -> None:
    answer = b"""<DeleteResult><Error><Key>pre/a</Key><Code>NoSuchKey</Code></Error>
        <Error><Key>pre/b</Key><Code>SlowDown</Code></Error></DeleteResult>"""
    async with scripted_s3(lambda _: ScriptedResponse(200, answer)) as (storage, _):
        with pytest.raises(Throttled, match="pre/b"):
            await storage.delete_many([Key("a"), Key("b")])


async def test_delete_with_response_404_succeeds() -> None:
    async with scripted_s3(lambda _: error(404, "NoSuchKey")) as (storage, server):
        await storage.delete(KEY)
    assert len(server.requests) == 1
