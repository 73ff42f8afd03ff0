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


class Answering:
    """The other side: remembers what it was sent, and answers what it was told to."""

    def __init__(self, status: int = 200, body: bytes = b'{"allow": true}') -> None:
        self.answer: HttpResponse | Exception = HttpResponse(status, body)
        self.sent: list[HttpRequest] = []

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    @property
    def told(self) -> Mapping[str, Any]:
        document: dict[str, Any] = json.loads(self.sent[-1].body)
        return document


def a_hook(http: Answering, **more: Any) -> HttpHook:
    policy = HookConfig(url="https://guard.example/ask", secret=SECRET, operations=parse_operations(["TABLE"]), **more)
    return HttpHook("guard", policy, http, ManualClock())


async def test_it_is_asked_with_a_signature_and_may_allow() -> None:
    http = Answering()
    assert await a_hook(http).before(an_intent()) is None
    (sent,) = http.sent
    assert (sent.method, sent.url) == ("POST", "https://guard.example/ask")
    verified = verify([SECRET], sent.headers, sent.body, now_ms=ManualClock().now_ms())
    assert verified.id == "e1"
    assert http.told["event-type"] == "BEFORE_DROP_TABLE"
    assert (http.told["principal"], http.told["subject"]) == ("anna", "lake/sales/orders")
    assert "document" not in http.told


@pytest.mark.parametrize(
    ("body", "reason"), [(b'{"allow": false, "reason": "frozen"}', "frozen"), (b'{"allow":false}', "")]
)
async def test_it_may_refuse_with_a_reason(body: bytes, reason: str) -> None:
    assert await a_hook(Answering(body=body)).before(an_intent()) == reason


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (204, b""), (302, b""), (200, b""), (200, b"yes"), (200, b"{}"), (200, b'{"allow": "true"}')],
)
async def test_anything_else_is_no_answer_and_nothing_happens(status: int, body: bytes) -> None:
    with pytest.raises(Unavailable, match="guard did not respond; nothing was done"):
        await a_hook(Answering(status, body)).before(an_intent())


async def test_who_may_be_passed_over_when_silent_is(caplog: pytest.LogCaptureFixture) -> None:
    http = Answering()
    http.answer = Unavailable("no answer")
    with caplog.at_level(logging.WARNING):
        assert await a_hook(http, on_failure=HookFailure.ALLOW).before(an_intent()) is None
    assert "hook failed; the operation proceeds" in caplog.text
    with pytest.raises(Unavailable):
        await a_hook(http).before(an_intent())


async def test_a_refusal_counts_even_of_who_may_be_passed_over() -> None:
    http = Answering(body=b'{"allow": false, "reason": "frozen"}')
    assert await a_hook(http, on_failure=HookFailure.ALLOW).before(an_intent()) == "frozen"


async def test_documents_are_shown_only_to_who_asks_for_them() -> None:
    http = Answering()
    intent = an_intent(document=b'{"schema": {"fields": []}}')
    await a_hook(http).before(intent)
    assert "document" not in http.told
    await a_hook(http, sends_documents=True).before(intent)
    assert http.told["document"] == {"schema": {"fields": []}}


async def test_a_document_cannot_speak_in_the_servers_name() -> None:
    http = Answering()
    forged = an_intent(document=b'{}, "principal": "root"')
    with pytest.raises(InvalidInput, match="is not valid JSON"):
        await a_hook(http, sends_documents=True).before(forged)
    assert http.sent == []
