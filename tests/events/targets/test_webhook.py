from __future__ import annotations

import json

import msgspec
import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import InvalidInput, Unavailable, Undeliverable
from lakebed.core.secrets import Secret
from lakebed.core.webhooks import new_secret, verify
from lakebed.events.forms import Form, render
from lakebed.events.targets.webhook import WebhookSettings, WebhookTarget, webhook_type
from lakebed.meta.outbox import OutboxEntry, OutboxEvent
from lakebed.net.http import HttpRequest, HttpResponse
from tests.events.samples import IDS

URL = "https://receiver.example/events"
SECRET = new_secret().reveal()
ENTRY = OutboxEntry(7, OutboxEvent("TableDropped", "lake/ns/t", msgspec.msgpack.encode({"name": "t"}), 5, "DROP_TABLE"))
MESSAGE = render(ENTRY, Form.LAKEBED, region="", ids=IDS)


class FakeHttp:
    """An HTTP client with a fixed response."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.sent: list[HttpRequest] = []
        self.is_closed = False

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request)
        return HttpResponse(self.status, b"")

    async def close(self) -> None:
        self.is_closed = True


def target(http: FakeHttp, clock: ManualClock | None = None, **settings: str) -> WebhookTarget:
    configured = WebhookSettings(endpoint=URL, **({"secret": SECRET} | settings))  # type: ignore[arg-type]  # texts all
    return WebhookTarget(configured, http, clock or ManualClock(), timeout_seconds=3)


async def test_event_is_posted_with_a_signature() -> None:
    http, clock = FakeHttp(), ManualClock()
    await target(http, clock).send(MESSAGE)
    (sent,) = http.sent
    assert (sent.method, sent.url, sent.timeout_seconds) == ("POST", URL, 3)
    assert verify([Secret(SECRET)], sent.headers, sent.body, now_ms=clock.now_ms()).id == IDS.cursor(7)
    assert "Authorization" not in sent.headers
    assert json.loads(sent.body) == {
        "id": IDS.cursor(7),
        "seq": 7,
        "kind": "TableDropped",
        "type": "AFTER_DROP_TABLE",
        "subject": "lake/ns/t",
        "occurred-ms": 5,
        "payload": {"name": "t"},
    }


@pytest.mark.parametrize("status", [301, 400, 404, 410, 429, 500])
async def test_non_2xx_response_is_retryable(status: int) -> None:
    with pytest.raises(Unavailable, match=f"error response. status={status}"):
        await target(FakeHttp(status)).send(MESSAGE)


async def test_status_413_is_undeliverable() -> None:
    with pytest.raises(Undeliverable, match="too large"):
        await target(FakeHttp(413)).send(MESSAGE)


async def test_attempts_have_the_same_id_and_different_timestamps() -> None:
    http, clock = FakeHttp(), ManualClock()
    posting = target(http, clock)
    await posting.send(MESSAGE)
    clock.advance(600)
    await posting.send(MESSAGE)
    first, second = http.sent
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 600


@pytest.mark.parametrize(("token", "header"), [("word", "Bearer word"), ("Basic dXNlcg==", "Basic dXNlcg==")])
async def test_token_is_sent_with_or_without_a_signature(token: str, header: str) -> None:
    http = FakeHttp()
    await target(http, auth_token=token).send(MESSAGE)
    await target(http, auth_token=token, secret="").send(MESSAGE)
    assert [sent.headers["Authorization"] for sent in http.sent] == [header, header]
    assert ["webhook-signature" in sent.headers for sent in http.sent] == [True, False]


async def test_event_id_is_a_header_with_token_and_with_signature() -> None:
    http = FakeHttp()
    await target(http, auth_token="word", secret="").send(MESSAGE)
    await target(http).send(MESSAGE)
    assert [sent.headers["webhook-id"] for sent in http.sent] == [IDS.cursor(7), IDS.cursor(7)]


async def test_check_accepts_any_response_at_the_root() -> None:
    http = FakeHttp(404)
    await target(http).check()
    (sent,) = http.sent
    assert (sent.method, sent.url) == ("HEAD", "https://receiver.example/")


async def test_check_fails_for_rejected_token() -> None:
    with pytest.raises(Unavailable, match=r"error response\. status=401 reason=Unauthorized"):
        await target(FakeHttp(401), auth_token="word").check()


async def test_close_closes_the_connections() -> None:
    http = FakeHttp()
    await target(http).close()
    assert http.is_closed


def test_secret_is_generated_without_secret_or_token() -> None:
    assert WebhookSettings(endpoint=URL).completed().secret.startswith("whsec_")
    for configured in (WebhookSettings(endpoint=URL, secret=SECRET), WebhookSettings(endpoint=URL, auth_token="t")):
        assert configured.completed() == configured


@pytest.mark.parametrize(
    "url",
    [
        "",
        "receiver.example",
        "ftp://receiver.example/",
        "https://",
        "https://receiver.example:0/",
        "https://receiver.example:x/",
        "https://user:word@receiver.example/",
        "https://receiver.example/#part",
        "https://receiver.example/a b",
        "https://[::1/",
        "https://receiver.example/" + "x" * 3000,
    ],
)
def test_invalid_endpoint_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        WebhookSettings(endpoint=url, secret=SECRET).validate()
    assert caught.value.argument == "endpoint"


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({}, "secret"),
        ({"secret": "short"}, "secret"),
        ({"auth_token": "a b c"}, "auth_token"),
        ({"auth_token": "a\r\nX-Evil: 1"}, "auth_token"),
        ({"secret": SECRET, "client_ca": "ca.pem"}, "client_ca"),
        ({"secret": SECRET, "client_cert": "/c.pem"}, "client_key"),
        ({"secret": SECRET, "client_key": "/k.pem"}, "client_cert"),
        ({"secret": SECRET, "client_ca": "/ca.pem", "skip_tls_verify": True}, "client_ca"),
    ],
)
def test_invalid_webhook_settings_are_rejected_by_name(settings: dict[str, object], argument: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        msgspec.convert({"endpoint": URL, **settings}, WebhookSettings).validate()
    assert caught.value.argument == argument
    assert "hunter2" not in str(caught.value)


def test_plain_http_requires_loopback_or_allow_http() -> None:
    def make(url: str, *, allow_http: bool) -> None:
        kind = webhook_type(ManualClock(), timeout_seconds=1, allow_http=allow_http)
        kind.make(WebhookSettings(endpoint=url, secret=SECRET))

    make("http://127.0.0.1:8080/x", allow_http=False)
    make("http://receiver.example/x", allow_http=True)
    make("https://receiver.example/x?y=z", allow_http=False)
    with pytest.raises(InvalidInput, match=r"targets\.allow_http"):
        make("http://receiver.example/x", allow_http=False)
