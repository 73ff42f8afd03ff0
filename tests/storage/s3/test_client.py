"""What goes over the wire, and what comes of strange answers."""

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
from tests.fixtures.scripted_http import Answer, Asked, Script

from .scripted_s3 import SECRET, TOKEN, Keyring, refusal, scripted_s3, written

KEY = Key("k")
CREATED = Answer(200, b"<InitiateMultipartUploadResult><UploadId>U1</UploadId></InitiateMultipartUploadResult>")


async def _complete(storage: S3Storage, condition: IfAbsent | None = None) -> object:
    upload = await storage.start_multipart(KEY)
    return await upload.complete([PartReceipt(1, "part", 1)], condition)


def _script_completion(answer: Answer) -> Callable[[Asked], Answer]:
    return lambda asked: CREATED if asked.path.endswith("?uploads") else answer


async def test_conditions_travel_as_headers() -> None:
    async with scripted_s3(lambda _: written()) as (storage, server):
        await storage.put(KEY, b"1")
        await storage.put_if_absent(KEY, b"2")
        await storage.put_if_match(KEY, b"3", "tag")
    plain, create, swap = server.asked
    assert plain.path == create.path == swap.path == "/bucket/pre/k"
    assert "if-none-match" not in plain.headers
    assert "if-match" not in plain.headers
    assert create.headers["if-none-match"] == "*"
    assert swap.headers["if-match"] == '"tag"'
    assert [asked.body for asked in server.asked] == [b"1", b"2", b"3"]


async def test_condition_travels_with_the_completion() -> None:
    done = Answer(200, b"<CompleteMultipartUploadResult><ETag>&quot;e-1&quot;</ETag></CompleteMultipartUploadResult>")
    async with scripted_s3(_script_completion(done)) as (storage, server):
        await _complete(storage, IfAbsent())
    assert server.asked[-1].headers["if-none-match"] == "*"
    assert b'<ETag>"part"</ETag>' in server.asked[-1].body.replace(b"&quot;", b'"')


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal(412, "PreconditionFailed"), AlreadyExists),
        (refusal(409, "ConditionalRequestConflict"), WriteConflict),
        (refusal(503, "SlowDown"), Throttled),
        (refusal(500, "InternalError"), Unavailable),
        (Answer(502, b"<html>bad gateway</html>"), Unavailable),
        (Answer(200), Unavailable),
    ],
)
async def test_answer_to_a_create_is_asked_for_once_and_told(answer: Answer, kind: type[LakebedError]) -> None:
    async with scripted_s3(lambda _: answer) as (storage, server):
        with pytest.raises(kind) as told:
            await storage.put_if_absent(KEY, b"body")
        assert type(told.value) is kind
    assert len(server.asked) == 1


async def test_replacing_what_is_absent_is_a_failed_precondition() -> None:
    async with scripted_s3(lambda _: refusal(404, "NoSuchKey")) as (storage, _):
        with pytest.raises(PreconditionFailed):
            await storage.put_if_match(KEY, b"body", "tag")


async def test_store_that_is_elsewhere_is_a_wrong_setting() -> None:
    async with scripted_s3(lambda _: refusal(301, "PermanentRedirect")) as (storage, server):
        with pytest.raises(InvalidSetting, match="region, endpoint, bucket"):
            await storage.get(KEY)
    assert len(server.asked) == 1


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
async def test_completion_of_200_is_believed_only_with_a_result_in_it(body: bytes, kind: type[LakebedError]) -> None:
    async with scripted_s3(_script_completion(Answer(200, body))) as (storage, _):
        with pytest.raises(kind):
            await _complete(storage, IfAbsent())


async def test_completing_an_upload_that_is_gone_is_told() -> None:
    async with scripted_s3(_script_completion(refusal(404, "NoSuchUpload"))) as (storage, _):
        with pytest.raises(NoSuchUpload):
            await _complete(storage, IfAbsent())


async def test_short_body_is_unavailable() -> None:
    async with scripted_s3(lambda _: Answer(200, b"half", claimed_length=8)) as (storage, _):
        with pytest.raises(Unavailable):
            await storage.get(KEY)
        with pytest.raises(Unavailable):
            _ = [piece async for piece in storage.stream(KEY)]


async def test_short_range_is_unavailable() -> None:
    short = Answer(206, b"ha", {"Content-Range": "bytes 0-3/8"}, claimed_length=4)
    async with scripted_s3(lambda _: short) as (storage, _):
        with pytest.raises(Unavailable):
            await storage.get_range(KEY, 0, 4)


async def test_store_that_ignores_ranges_is_not_believed() -> None:
    async with scripted_s3(lambda _: Answer(200, b"everything")) as (storage, _):
        with pytest.raises(NotSupported):
            await storage.get_range(KEY, 2, 4)
        with pytest.raises(NotSupported):
            _ = [piece async for piece in storage.stream(KEY, 2)]


async def test_damaged_body_is_told_by_its_checksum() -> None:
    damaged = Answer(200, b"damaged", {"x-amz-checksum-crc32": "AAAAAA=="})
    async with scripted_s3(lambda _: damaged) as (_, server):
        storage = await connect_s3(
            S3Options("bucket", region="us-east-1", endpoint=server.url, allow_http=True, checksum="crc32"),
            credentials=Keyring(),
            capabilities=CONDITIONS_TRUSTED,
        )
        with pytest.raises(IntegrityMismatch):
            await storage.get(KEY)
        await storage.close()


async def test_nobody_at_the_endpoint_is_unavailable() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        storage = await connect_s3(
            S3Options("bucket", endpoint=endpoint, region="us-east-1", allow_http=True),
            credentials=Keyring(),
            capabilities=CONDITIONS_TRUSTED,
        )
        with pytest.raises(Unavailable) as told:
            await storage.put(KEY, b"body")
        assert not told.value.undecided
        await storage.close()


def hang_up(_: Asked) -> Answer:
    """Read the request and close the connection."""
    raise ConnectionError


@pytest.mark.parametrize("script", [hang_up, lambda _: Answer(200, b"", claimed_length=8)])
async def test_answer_to_a_write_that_is_lost_leaves_open_whether_it_happened(script: Script) -> None:
    async with scripted_s3(script) as (storage, server):
        with pytest.raises(Unavailable) as told:
            await storage.put(KEY, b"body")
        assert told.value.undecided
        with pytest.raises(Unavailable) as told:
            await storage.get(KEY)
        assert not told.value.undecided
    assert len(server.asked) == 2


async def test_expired_keys_are_replaced_once_and_the_request_sent_again() -> None:
    def script(asked: Asked) -> Answer:
        expired = "OLDKEYID" in asked.headers["authorization"]
        return refusal(400, "ExpiredToken") if expired else written()

    keyring = Keyring()
    async with scripted_s3(script, keyring) as (storage, server):
        assert (await storage.put_if_absent(KEY, b"body")).etag == "tag"
    assert keyring.rejections == 1
    assert len(server.asked) == 2


async def test_keys_that_stay_expired_are_tried_twice_and_no_more() -> None:
    async with scripted_s3(lambda _: refusal(403, "ExpiredToken")) as (storage, server):
        with pytest.raises(CredentialsExpired):
            await storage.get(KEY)
    assert len(server.asked) == 2


async def test_secrets_that_a_store_echoes_reach_neither_errors_nor_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = refusal(403, "SignatureDoesNotMatch", f"you sent {TOKEN} and your secret is {SECRET}")
    async with scripted_s3(lambda _: echo) as (storage, server):
        with pytest.raises(LakebedError) as told:
            await storage.put(KEY, b"body")
    assert server.asked[0].headers["x-amz-security-token"] == TOKEN
    shown = "".join(traceback.format_exception(told.value)) + caplog.text
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
    async with scripted_s3(lambda _: refusal(500, "InternalError")) as (storage, server):
        with pytest.raises(Unavailable):
            await storage.put(KEY, b"body")
    (asked,) = server.asked
    assert "OLDKEYID" in asked.headers["authorization"]
    assert not [name for name in asked.headers if name.startswith("x-amz-checksum")]


async def test_store_without_bulk_delete_is_asked_one_by_one_from_then_on() -> None:
    def script(asked: Asked) -> Answer:
        return refusal(501, "NotImplemented") if asked.method == "POST" else Answer(204)

    async with scripted_s3(script) as (storage, server):
        await storage.delete_many([Key("a"), Key("b")])
        await storage.delete_many([Key("c")])
    assert [asked.method for asked in server.asked].count("POST") == 1
    assert {asked.path for asked in server.asked if asked.method == "DELETE"} == {
        "/bucket/pre/a",
        "/bucket/pre/b",
        "/bucket/pre/c",
    }


async def test_bulk_delete_reports_the_key_that_was_refused() -> None:
    answer = b"""<DeleteResult><Error><Key>pre/a</Key><Code>NoSuchKey</Code></Error>
        <Error><Key>pre/b</Key><Code>SlowDown</Code></Error></DeleteResult>"""
    async with scripted_s3(lambda _: Answer(200, answer)) as (storage, _):
        with pytest.raises(Throttled, match="pre/b"):
            await storage.delete_many([Key("a"), Key("b")])


async def test_deleting_what_is_absent_is_success_where_the_store_says_404() -> None:
    async with scripted_s3(lambda _: refusal(404, "NoSuchKey")) as (storage, server):
        await storage.delete(KEY)
    assert len(server.asked) == 1
