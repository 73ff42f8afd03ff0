"""Requests to GCS against a scripted service: errors, replaced objects, ETags."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from google.auth.credentials import Credentials
from google.auth.exceptions import RefreshError

from lakebed.core.errors import (
    AccessDenied,
    LakebedError,
    NoSuchBucket,
    NoSuchKey,
    PreconditionFailed,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from lakebed.core.secrets import Secret
from lakebed.storage.cloud import CloudStorage
from lakebed.storage.gcs import GcsOptions, connect_gcs
from lakebed.storage.gcs.sdk import PIECE_BYTES, GcsClient
from lakebed.storage.seam import Key
from tests.fixtures.ports import free_port
from tests.fixtures.scripted_http import Script, ScriptedRequest, ScriptedResponse, scripted_server


def options(url: str) -> GcsOptions:
    return GcsOptions("bucket", endpoint=url, allow_http=True, token=Secret("hidden-token"))


@asynccontextmanager
async def storage_of(script: Script) -> AsyncIterator[CloudStorage]:
    with scripted_server(script) as server:
        storage = await connect_gcs(options(server.url))
        try:
            yield storage
        finally:
            await storage.close()


def refusal(status: int, reason: str, message: str = "refused") -> ScriptedResponse:
    body = {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}
    return ScriptedResponse(status, json.dumps(body).encode(), {"content-type": "application/json"})


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind"),
    [
        (403, "forbidden", "no permission", AccessDenied),
        (404, "notFound", "No such object: bucket/k", NoSuchKey),
        (404, "notFound", "The specified bucket does not exist.", NoSuchBucket),
        (429, "rateLimitExceeded", "slow down", Throttled),
        (503, "backendError", "later", Unavailable),
    ],
)
async def test_error_has_the_reason_of_the_service(
    status: int, reason: str, message: str, kind: type[LakebedError]
) -> None:
    async with storage_of(lambda request: refusal(status, reason, message)) as storage:
        with pytest.raises(kind) as caught:
            await storage.head(Key("k"))
        with pytest.raises(kind):
            await storage.get(Key("k"))
    assert "hidden" not in str(caught.value)


async def test_write_is_sent_once_and_only_to_the_object() -> None:
    requests: list[str] = []

    def fail(request: ScriptedRequest) -> ScriptedResponse:
        requests.append(f"{request.method} {urlsplit(request.path).path}")
        return refusal(503, "backendError")

    async with storage_of(fail) as storage:
        with pytest.raises(Unavailable) as caught:
            await storage.put_if_absent(Key("k"), b"body")
    assert requests == ["POST /upload/storage/v1/b/bucket/o"]
    assert caught.value.undecided


async def test_conditional_write_to_a_missing_bucket_is_not_a_false_condition() -> None:
    async with storage_of(lambda request: refusal(404, "notFound", "Not Found")) as storage:
        with pytest.raises(NoSuchBucket):
            await storage.put_if_match(Key("k"), b"body", "7")
        with pytest.raises(NoSuchBucket):
            await storage.put_if_absent(Key("k"), b"body")


async def test_stopped_server_is_decided() -> None:
    storage = await connect_gcs(options(f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(Unavailable) as caught:
        await storage.put(Key("k"), b"body")
    await storage.close()
    assert not caught.value.undecided


@pytest.mark.parametrize("etag", ["", "0", "-1", "00", "1.0", "tag", "١", str(2**63)])
async def test_etag_of_another_store_matches_no_object(etag: str) -> None:
    def fail(request: ScriptedRequest) -> ScriptedResponse:
        raise AssertionError("generation 0 would create the object")

    async with storage_of(fail) as storage:
        with pytest.raises(PreconditionFailed):
            await storage.put_if_match(Key("k"), b"body", etag)


@pytest.mark.parametrize("status", [404, 412])
async def test_object_replaced_during_a_stream_is_not_mixed(status: int) -> None:
    def replaced(request: ScriptedRequest) -> ScriptedResponse:
        query = parse_qs(urlsplit(request.path).query)
        if "ifGenerationMatch" in query:
            assert query["ifGenerationMatch"] == ["7"]
            return refusal(status, "notFound" if status == 404 else "conditionNotMet")
        return ScriptedResponse(206, b"x" * PIECE_BYTES, {"x-goog-generation": "7"})

    async with storage_of(replaced) as storage:
        pieces = storage.stream(Key("k"))
        assert len(await anext(pieces)) == PIECE_BYTES
        with pytest.raises(Unavailable, match="replaced"):
            await anext(pieces)


class NoIdentity(Credentials):
    """Credentials that get no token."""

    def refresh(self, request: object) -> None:
        raise RefreshError("hidden details")  # type: ignore[no-untyped-call]  # the library's


def test_missing_token_is_unauthenticated() -> None:
    client = GcsClient(GcsOptions("bucket"), NoIdentity())  # type: ignore[no-untyped-call]  # the library's
    with pytest.raises(Unauthenticated) as caught:
        client.get("k")
    client.close()
    assert "hidden" not in str(caught.value)
