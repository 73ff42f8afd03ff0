from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidInput, Unavailable
from lakebed.core.operations import parse_operations
from lakebed.core.settings import HookFailure
from lakebed.core.webhooks import new_secret, verify
from lakebed.governance.listeners import HookConfig, HttpHook
from lakebed.net.http import HttpRequest, HttpResponse

from .intents import an_intent

SECRET = new_secret()


class FakeHook:
    """Records requests, and returns or raises `response`."""

    def __init__(self, status: int = 200, body: bytes = b'{"allow": true}') -> None:
        self.response: HttpResponse | Exception = HttpResponse(status, body)
        self.sent: list[HttpRequest] = []

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request)
        if isinstance(self.response, Exception):
            raise self.response
        return self.response

    @property
    def payload(self) -> Mapping[str, Any]:
        document: dict[str, Any] = json.loads(self.sent[-1].body)
        return document


def a_hook(http: FakeHook, **more: Any) -> HttpHook:
    policy = HookConfig(url="https://guard.example/ask", secret=SECRET, operations=parse_operations(["TABLE"]), **more)
    return HttpHook("guard", policy, http, ManualClock())


async def test_hook_gets_a_signed_request_and_can_allow() -> None:
    http = FakeHook()
    assert await a_hook(http).before(an_intent()) is None
    (sent,) = http.sent
    assert (sent.method, sent.url) == ("POST", "https://guard.example/ask")
    verified = verify([SECRET], sent.headers, sent.body, now_ms=ManualClock().now_ms())
    assert verified.id == "e1"
    assert http.payload["event-type"] == "BEFORE_DROP_TABLE"
    assert (http.payload["principal"], http.payload["subject"]) == ("anna", "lake/sales/orders")
    assert "document" not in http.payload


@pytest.mark.parametrize(
    ("body", "reason"), [(b'{"allow": false, "reason": "frozen"}', "frozen"), (b'{"allow":false}', "")]
)
async def test_hook_can_veto_with_a_reason(body: bytes, reason: str) -> None:
    assert await a_hook(FakeHook(body=body)).before(an_intent()) == reason


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (204, b""), (302, b""), (200, b""), (200, b"yes"), (200, b"{}"), (200, b'{"allow": "true"}')],
)
async def test_invalid_response_refuses_the_operation(status: int, body: bytes) -> None:
    with pytest.raises(Unavailable, match="guard did not respond; nothing was done"):
        await a_hook(FakeHook(status, body)).before(an_intent())


async def test_failure_allows_the_operation_if_configured(caplog: pytest.LogCaptureFixture) -> None:
    http = FakeHook()
    http.response = Unavailable("no response")
    with caplog.at_level(logging.WARNING):
        assert await a_hook(http, on_failure=HookFailure.ALLOW).before(an_intent()) is None
    assert "hook failed; the operation proceeds" in caplog.text
    with pytest.raises(Unavailable):
        await a_hook(http).before(an_intent())


async def test_veto_applies_even_if_failures_allow() -> None:
    http = FakeHook(body=b'{"allow": false, "reason": "frozen"}')
    assert await a_hook(http, on_failure=HookFailure.ALLOW).before(an_intent()) == "frozen"


async def test_documents_are_sent_only_if_configured() -> None:
    http = FakeHook()
    intent = an_intent(document=b'{"schema": {"fields": []}}')
    await a_hook(http).before(intent)
    assert "document" not in http.payload
    await a_hook(http, sends_documents=True).before(intent)
    assert http.payload["document"] == {"schema": {"fields": []}}


async def test_document_cannot_inject_fields_into_the_request() -> None:
    http = FakeHook()
    forged = an_intent(document=b'{}, "principal": "root"')
    with pytest.raises(InvalidInput, match="is not valid JSON"):
        await a_hook(http, sends_documents=True).before(forged)
    assert http.sent == []
