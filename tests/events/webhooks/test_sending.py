from __future__ import annotations

import json

import msgspec
import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.core.webhooks import verify
from lakebed.events.webhooks import HttpSender
from lakebed.meta.outbox import Entry, Event
from lakebed.storage.credentials.http import Http, HttpAnswer, HttpRequest

from .conftest import URL, a_subscriber

ENTRY = Entry(7, Event("TableDropped", "lake/ns/t", msgspec.msgpack.encode({"name": "t"}), 5, "DROP_TABLE"))


class Ways:
    """Connects to whoever, and answers in their stead."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.sent: list[HttpRequest] = []
        self.bundles: list[str | None] = []

    def __call__(self, ca_bundle: str | None) -> Http:
        self.bundles.append(ca_bundle)

        async def http(request: HttpRequest) -> HttpAnswer:
            self.sent.append(request)
            return HttpAnswer(self.status, b"")

        return http


async def test_an_event_is_posted_with_a_signature() -> None:
    ways, clock, subscriber = Ways(), ManualClock(), a_subscriber()
    await HttpSender(ways, clock, timeout_seconds=3).send(subscriber, ENTRY)
    (sent,) = ways.sent
    assert (sent.method, sent.url, sent.timeout_seconds) == ("POST", URL, 3)
    assert verify([subscriber.secret], sent.headers, sent.body, now_ms=clock.now_ms()).id == "evt_7"
    assert json.loads(sent.body) == {
        "seq": 7,
        "kind": "TableDropped",
        "type": "AFTER_DROP_TABLE",
        "subject": "lake/ns/t",
        "occurred-ms": 5,
        "payload": {"name": "t"},
    }


@pytest.mark.parametrize("status", [301, 400, 404, 410, 429, 500])
async def test_anything_but_success_is_a_failure(status: int) -> None:
    with pytest.raises(Unavailable, match=f"answered {status}"):
        await HttpSender(Ways(status), ManualClock(), timeout_seconds=1).send(a_subscriber(), ENTRY)


async def test_each_attempt_has_the_same_id_and_its_own_time() -> None:
    ways, clock, subscriber = Ways(), ManualClock(), a_subscriber()
    sender = HttpSender(ways, clock, timeout_seconds=1)
    await sender.send(subscriber, ENTRY)
    clock.advance(600)
    await sender.send(subscriber, ENTRY)
    first, second = ways.sent
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 600
    assert ways.bundles == [None]
