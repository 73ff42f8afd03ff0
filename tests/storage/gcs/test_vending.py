"""The exchange of tokens, with a scripted token service."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AccessDenied,
    InvalidInput,
    InvalidSetting,
    LakebedError,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from lakebed.core.secrets import Secret
from lakebed.net.sync_client import threaded_http
from lakebed.storage.cloud import ScopedToken
from lakebed.storage.gcs import GcsOptions, GcsScope, SourceToken, access_boundary, downscope, source_token
from lakebed.storage.gcs.vending import parse_token
from tests.fixtures.scripted_http import Script, ScriptedRequest, ScriptedResponse, scripted_server

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
SOURCE = SourceToken(Secret("source-token"), NOW_MS + 2 * HOUR_MS)
SCOPES = [GcsScope("lake", "db/it's/", write=True)]


async def exchanged(script: Script, source: SourceToken = SOURCE) -> ScopedToken:
    with scripted_server(script) as server:
        return await downscope(
            source, SCOPES, threaded_http(), ManualClock(NOW_MS), token_url=f"{server.url}/v1/token", allow_http=True
        )


def reply(**fields: object) -> ScriptedResponse:
    return ScriptedResponse(200, json.dumps(fields).encode(), {"content-type": "application/json"})


def refusal(status: int, code: str = "") -> ScriptedResponse:
    body = json.dumps({"error": code, "error_description": "source-token is wrong"}).encode()
    return ScriptedResponse(status, body, {"content-type": "application/json"})


async def test_exchange_sends_the_token_and_the_boundary() -> None:
    seen: list[ScriptedRequest] = []

    def answer(request: ScriptedRequest) -> ScriptedResponse:
        seen.append(request)
        return reply(access_token="scoped", expires_in=3600, token_type="Bearer")

    assert await exchanged(answer) == ScopedToken(Secret("scoped"), NOW_MS + HOUR_MS)
    (request,) = seen
    assert (request.method, request.path) == ("POST", "/v1/token")
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    form = {name: values[0] for name, values in parse_qs(request.body.decode(), strict_parsing=True).items()}
    assert json.loads(form.pop("options")) == access_boundary(SCOPES)
    assert form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "subject_token": "source-token",
    }


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_grant", Unauthenticated),
        (400, "invalid_request", InvalidInput),
        (401, "invalid_client", Unauthenticated),
        (401, "", Unauthenticated),
        (403, "access_denied", AccessDenied),
        (403, "", AccessDenied),
        (404, "", InvalidInput),
        (429, "invalid_grant", Throttled),
        (500, "", Unavailable),
        (503, "invalid_request", Unavailable),
    ],
)
async def test_refusal_is_mapped_and_quotes_no_token(status: int, code: str, kind: type[LakebedError]) -> None:
    with pytest.raises(LakebedError) as caught:
        await exchanged(lambda request: refusal(status, code))
    assert type(caught.value) is kind
    assert "source-token" not in str(caught.value)


async def test_failing_service_is_tried_again() -> None:
    replies = [refusal(503), refusal(429), reply(access_token="scoped", expires_in=60)]
    assert (await exchanged(lambda request: replies.pop(0))).token == Secret("scoped")
    assert replies == []


async def test_plain_http_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"^token_url: "):
        await downscope(SOURCE, SCOPES, threaded_http(), ManualClock(NOW_MS), token_url="http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("fields", "source_expires_ms", "expires_ms"),
    [
        ({"expires_in": 60}, None, NOW_MS + 60_000),
        ({"expires_in": 60}, NOW_MS + HOUR_MS, NOW_MS + 60_000),
        ({"expires_in": 7200}, NOW_MS + HOUR_MS, NOW_MS + HOUR_MS),
        ({}, NOW_MS + HOUR_MS, NOW_MS + HOUR_MS),
        ({"expires_in": "soon"}, NOW_MS + HOUR_MS, NOW_MS + HOUR_MS),
    ],
)
def test_token_expires_no_later_than_its_source(
    fields: dict[str, Any], source_expires_ms: int | None, expires_ms: int
) -> None:
    body = json.dumps({"access_token": "scoped", **fields}).encode()
    assert parse_token(body, source_expires_ms, NOW_MS).expires_ms == expires_ms


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"no json", b'{"expires_in":60}', b'{"access_token":"scoped"}', b'{"access_token":1}']
)
def test_incomplete_response_is_rejected(body: bytes) -> None:
    with pytest.raises(Unavailable):
        parse_token(body, None, NOW_MS)


async def test_source_is_the_token_of_the_options() -> None:
    found = await source_token(GcsOptions("lake", token=Secret("given")))
    assert found == SourceToken(Secret("given"), None)
