"""Requests to Azure against a scripted service: errors, replaced objects, directories."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError

from lakebed.core.errors import (
    AccessDenied,
    LakebedError,
    NoSuchKey,
    NotSupported,
    StateConflict,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from lakebed.core.secrets import Secret
from lakebed.storage.azure import AzureOptions, AzureStorage, connect_azure
from lakebed.storage.azure.sdk import PIECE_BYTES, AzureBlobClient
from lakebed.storage.seam import Key
from tests.fixtures.ports import free_port
from tests.fixtures.scripted_http import Script, ScriptedRequest, ScriptedResponse, scripted_server

SAS = "sv=2026-02-06&sig=hidden-signature"
MODIFIED = {"ETag": '"0x1"', "Last-Modified": "Tue, 14 Nov 2023 22:13:20 GMT", "x-ms-blob-type": "BlockBlob"}


@asynccontextmanager
async def storage_of(script: Script, *, hierarchical: bool = False) -> AsyncIterator[AzureStorage]:
    with scripted_server(script) as server:
        storage = await connect_azure(options(server.url, hierarchical=hierarchical))
        try:
            yield storage
        finally:
            await storage.close()


def options(url: str, *, hierarchical: bool = False) -> AzureOptions:
    return AzureOptions(
        "account",
        "container",
        endpoint=f"{url}/account",
        allow_http=True,
        sas_token=Secret(SAS),
        hierarchical=hierarchical,
    )


def refusal(status: int, code: str, message: str = "refused") -> Callable[[ScriptedRequest], ScriptedResponse]:
    body = (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}\nsecond line hidden-line</Message></Error>"
    )
    reply = ScriptedResponse(status, body.encode(), {"x-ms-error-code": code, "content-type": "application/xml"})
    return lambda request: reply


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AuthorizationPermissionMismatch", AccessDenied),
        (403, "AuthenticationFailed", Unauthenticated),
        (409, "SnapshotsPresent", StateConflict),
        (503, "ServerBusy", Throttled),
    ],
)
async def test_error_has_the_code_of_the_service_and_no_secret(
    status: int, code: str, kind: type[LakebedError]
) -> None:
    async with storage_of(refusal(status, code)) as storage:
        with pytest.raises(kind) as caught:
            await storage.delete(Key("k"))
    assert f"code={code}" in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_write_is_sent_once() -> None:
    requests: list[str] = []

    def fail(request: ScriptedRequest) -> ScriptedResponse:
        requests.append(request.method)
        return refusal(500, "InternalError")(request)

    async with storage_of(fail) as storage:
        with pytest.raises(Unavailable) as caught:
            await storage.put_if_absent(Key("k"), b"body")
    assert requests == ["PUT"]
    assert caught.value.undecided


async def test_large_body_is_one_request() -> None:
    sizes: list[int] = []

    def accept(request: ScriptedRequest) -> ScriptedResponse:
        sizes.append(len(request.body))
        assert request.headers["if-none-match"] == "*"
        return ScriptedResponse(201, b"", MODIFIED)

    async with storage_of(accept) as storage:
        await storage.put_if_absent(Key("k"), b"x" * (2 * PIECE_BYTES))
    assert sizes == [2 * PIECE_BYTES]


async def test_stopped_server_is_decided_and_no_secret_is_shown() -> None:
    storage = await connect_azure(options(f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(Unavailable) as caught:
        await storage.put(Key("k"), b"body")
    await storage.close()
    assert not caught.value.undecided
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_logs_have_no_signature(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with storage_of(lambda request: ScriptedResponse(201, b"", MODIFIED)) as storage:
        await storage.put(Key("k"), b"body")
    assert "hidden-signature" not in caplog.text


async def test_object_replaced_during_a_stream_is_not_mixed() -> None:
    def replaced(request: ScriptedRequest) -> ScriptedResponse:
        if "if-match" in request.headers:
            assert request.headers["if-match"] == '"0x1"'
            return refusal(412, "ConditionNotMet")(request)
        size = 2 * PIECE_BYTES
        headers = {**MODIFIED, "Content-Range": f"bytes 0-{PIECE_BYTES - 1}/{size}"}
        return ScriptedResponse(206, b"x" * PIECE_BYTES, headers)

    async with storage_of(replaced) as storage:
        pieces = storage.stream(Key("k"))
        assert len(await anext(pieces)) == PIECE_BYTES
        with pytest.raises(Unavailable, match="replaced"):
            await anext(pieces)
        with pytest.raises(Unavailable, match="replaced"):
            await storage.get(Key("k"))


async def test_directory_of_a_hierarchical_namespace_is_no_object() -> None:
    directory = {**MODIFIED, "x-ms-meta-hdi_isfolder": "true"}
    entries = "".join(
        f"<Blob><Name>{name}</Name><Properties><Last-Modified>Tue, 14 Nov 2023 22:13:20 GMT</Last-Modified>"
        f"<Etag>0x1</Etag><Content-Length>0</Content-Length><BlobType>BlockBlob</BlobType></Properties>{metadata}</Blob>"
        for name, metadata in [("d", "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>"), ("d/o", "<Metadata />")]
    )
    listing = f"<?xml version='1.0'?><EnumerationResults><Blobs>{entries}</Blobs><NextMarker /></EnumerationResults>"

    def answer(request: ScriptedRequest) -> ScriptedResponse:
        if "comp=list" in request.path:
            assert "include=metadata" in request.path
            assert "startFrom" not in request.path
            return ScriptedResponse(200, listing.encode(), {"content-type": "application/xml"})
        if "x-ms-range" in request.headers:
            return refusal(416, "InvalidRange")(request)
        return ScriptedResponse(200, b"", directory)

    async with storage_of(answer, hierarchical=True) as storage:
        assert [head.key async for head in storage.list_prefix("d", "d")] == ["d/o"]
        with pytest.raises(NoSuchKey):
            await storage.head(Key("d"))
        with pytest.raises(NoSuchKey):
            await storage.get(Key("d"))


async def test_ignored_range_is_reported() -> None:
    async with storage_of(lambda request: ScriptedResponse(200, b"whole", MODIFIED)) as storage:
        with pytest.raises(NotSupported):
            await storage.get_range(Key("k"), 1, 2)


async def test_start_of_a_listing_is_sent_to_the_service() -> None:
    def answer(request: ScriptedRequest) -> ScriptedResponse:
        paths.append(request.path)
        body = b"<?xml version='1.0'?><EnumerationResults><Blobs /><NextMarker /></EnumerationResults>"
        return ScriptedResponse(200, body, {"content-type": "application/xml"})

    paths: list[str] = []
    async with storage_of(answer) as storage:
        assert [head async for head in storage.list_prefix("a/", "a/5")] == []
        assert [head async for head in storage.list_prefix("a/", "a/\U00010000")] == []
    assert "startFrom=a%2F5" in paths[0] or "startFrom=a/5" in paths[0]
    assert "startFrom" not in paths[1], "the service may order such keys differently"


class NoIdentity:
    """An identity that gets no token."""

    def get_token(self, *scopes: str, **_: Any) -> Any:  # Any: the library's keywords and tokens
        raise ClientAuthenticationError("hidden details")


def test_missing_identity_is_unauthenticated() -> None:
    client = AzureBlobClient(AzureOptions("account", "container"), NoIdentity())
    with pytest.raises(Unauthenticated) as caught:
        client.get("k")
    client.close()
    assert "hidden" not in str(caught.value)
