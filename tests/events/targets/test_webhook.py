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
from tests.events.made import IDS

URL = "https://receiver.example/events"
SECRET = new_secret().reveal()
ENTRY = OutboxEntry(7, OutboxEvent("TableDropped", "lake/ns/t", msgspec.msgpack.encode({"name": "t"}), 5, "DROP_TABLE"))
MESSAGE = render(ENTRY, Form.LAKEBED, region="", ids=IDS)


class Way:
    """Answers in the stead of whoever is called."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.sent: list[HttpRequest] = []
        self.is_closed = False

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request)
        return HttpResponse(self.status, b"")

    async def close(self) -> None:
        self.is_closed = True


def target(way: Way, clock: ManualClock | None = None, **settings: str) -> WebhookTarget:
    stated = WebhookSettings(endpoint=URL, **({"secret": SECRET} | settings))  # type: ignore[arg-type]  # texts all
    return WebhookTarget(stated, way, clock or ManualClock(), timeout_seconds=3)


async def test_an_event_is_posted_with_a_signature() -> None:
    way, clock = Way(), ManualClock()
    await target(way, clock).send(MESSAGE)
    (sent,) = way.sent
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
async def test_anything_but_success_is_a_failure(status: int) -> None:
    with pytest.raises(Unavailable, match=f"error response. status={status}"):
        await target(Way(status)).send(MESSAGE)


async def test_an_event_that_is_too_large_for_the_receiver_is_not_sent_again() -> None:
    with pytest.raises(Undeliverable, match="too large"):
        await target(Way(413)).send(MESSAGE)


async def test_each_attempt_has_the_same_id_and_its_own_time() -> None:
    way, clock = Way(), ManualClock()
    posting = target(way, clock)
    await posting.send(MESSAGE)
    clock.advance(600)
    await posting.send(MESSAGE)
    first, second = way.sent
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 600


@pytest.mark.parametrize(("token", "header"), [("word", "Bearer word"), ("Basic dXNlcg==", "Basic dXNlcg==")])
async def test_a_token_is_shown_with_or_without_a_signature(token: str, header: str) -> None:
    way = Way()
    await target(way, auth_token=token).send(MESSAGE)
    await target(way, auth_token=token, secret="").send(MESSAGE)
    assert [sent.headers["Authorization"] for sent in way.sent] == [header, header]
    assert ["webhook-signature" in sent.headers for sent in way.sent] == [True, False]


async def test_the_id_is_a_header_with_a_token_as_with_a_signature() -> None:
    way = Way()
    await target(way, auth_token="word", secret="").send(MESSAGE)
    await target(way).send(MESSAGE)
    assert [sent.headers["webhook-id"] for sent in way.sent] == [IDS.cursor(7), IDS.cursor(7)]


async def test_any_answer_at_the_root_means_that_somebody_is_there() -> None:
    way = Way(404)
    await target(way).check()
    (sent,) = way.sent
    assert (sent.method, sent.url) == ("HEAD", "https://receiver.example/")


async def test_a_token_that_is_no_good_is_told() -> None:
    with pytest.raises(Unavailable, match=r"error response\. status=401 reason=Unauthorized"):
        await target(Way(401), auth_token="word").check()


async def test_its_connections_end_with_it() -> None:
    way = Way()
    await target(way).close()
    assert way.is_closed


def test_a_secret_is_made_up_unless_something_says_who_sends() -> None:
    assert WebhookSettings(endpoint=URL).completed().secret.startswith("whsec_")
    for stated in (WebhookSettings(endpoint=URL, secret=SECRET), WebhookSettings(endpoint=URL, auth_token="t")):
        assert stated.completed() == stated


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
def test_a_url_that_events_cannot_be_posted_to_is_refused(url: str) -> None:
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
def test_settings_that_cannot_be_are_refused_by_their_names(settings: dict[str, object], argument: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        msgspec.convert({"endpoint": URL, **settings}, WebhookSettings).validate()
    assert caught.value.argument == argument
    assert "hunter2" not in str(caught.value)


def test_plain_http_is_for_this_machine_or_for_who_allows_it() -> None:
    def make(url: str, *, allow_http: bool) -> None:
        kind = webhook_type(ManualClock(), timeout_seconds=1, allow_http=allow_http)
        kind.make(WebhookSettings(endpoint=url, secret=SECRET))

    make("http://127.0.0.1:8080/x", allow_http=False)
    make("http://receiver.example/x", allow_http=True)
    make("https://receiver.example/x?y=z", allow_http=False)
    with pytest.raises(InvalidInput, match=r"targets\.allow_http"):
        make("http://receiver.example/x", allow_http=False)
