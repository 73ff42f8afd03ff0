"""Events as they happen, at the edge."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakebed.core.ids import DeploymentId
from lakebed.events.ids import EventIds
from lakebed.wire.admin.handlers import stream as streaming
from tests.wire.admin.conftest import BASE, Admin
from tests.wire.iceberg.lake import DEPLOYMENT, allow

ELSEWHERE = EventIds(DeploymentId("b" * 26))


@dataclass
class Sent:
    """One message of a stream: its fields, by name."""

    fields: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Any:  # Any: JSON
        return json.loads(self.fields["data"])


class Messages:
    """The messages of a stream, as a browser reads them; comments are left out."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = ""

    async def next(self) -> Sent:
        while "\n\n" not in self._rest:
            self._rest += (await anext(self._pieces)).decode()
        block, _, self._rest = self._rest.partition("\n\n")
        sent = Sent()
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name:
                sent.fields[name] = value.removeprefix(" ")
        return sent

    async def event(self) -> Sent:
        """The next that a browser would hand on."""
        while "data" not in (sent := await self.next()).fields:
            pass
        return sent


@asynccontextmanager
async def listening(admin: Admin, query: str = "", **headers: str) -> AsyncIterator[Messages]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    response = await admin.lake.respond("GET", f"{BASE}/events/stream{query}", headers=sent)
    assert response.status == 200, response.body
    assert dict(response.headers)["Content-Type"].startswith("text/event-stream")
    assert response.stream is not None
    try:
        yield Messages(response.stream)
    finally:
        await response.stream.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_what_happens_from_now_on_is_told(admin: Admin) -> None:
    async with listening(admin) as messages:
        assert (await messages.next()).fields == {"retry": "1000"}
        await admin.lake.store.bucket("fresh")
        told = await messages.event()
    assert told.data["kind"] == "BucketCreated"
    assert told.fields["id"] == told.data["id"] == EventIds(DEPLOYMENT).cursor(told.data["seq"])
    assert "event" not in told.fields


async def test_who_comes_back_goes_on_behind_the_last_event(admin: Admin) -> None:
    for name in ("one", "two", "three"):
        await admin.lake.store.bucket(f"b-{name}")
    (known,) = (await admin.call("GET", "/events?kind=BucketCreated&subject=b-one")).document["events"]
    # As versions before ids were unique have them, too.
    for cursor in (known["id"], f"evt_{known['seq']}", str(known["seq"])):
        async with listening(admin, "?kind=BucketCreated&after=0", Last_Event_ID=cursor) as messages:
            assert [(await messages.event()).data["subject"] for _ in range(2)] == ["b-two", "b-three"]
        async with listening(admin, f"?kind=BucketCreated&after={cursor}") as messages:
            assert (await messages.event()).data["subject"] == "b-two"


async def test_only_what_is_asked_for_is_told(admin: Admin) -> None:
    async with listening(admin, "?kind=ObjectCreated:*&subject=plain&after=0") as messages:
        await admin.lake.store.bucket("plain")
        await admin.lake.store.put("plain", "k", b"abc")
        told = await messages.event()
    assert (told.data["kind"], told.data["subject"]) == ("ObjectCreated:Put", "plain/k")


@pytest.mark.parametrize(
    ("form", "field_name"), [("s3", "Records"), ("cloudevents", "specversion"), ("envelope", "namespace")]
)
async def test_events_come_in_the_form_that_is_asked_for(admin: Admin, form: str, field_name: str) -> None:
    async with listening(admin, f"?form={form}&after=0") as messages:
        assert field_name in (await messages.event()).data


async def test_what_is_gone_already_is_said(admin: Admin) -> None:
    f = admin.lake.store.object_context
    await f.outbox.trim(occurred_before_ms=1 << 60, limit=3)
    async with listening(admin, "?after=1") as messages:
        gap = await messages.event()
        assert (gap.fields["event"], gap.data) == ("gap", {"after": 1, "first-seq": 4})
        assert "id" not in gap.fields
        assert (await messages.event()).data["seq"] == 4
    async with listening(admin, "?after=3") as messages:
        assert (await messages.event()).data["seq"] == 4


async def test_silence_is_broken_by_the_place_that_was_come_to(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "ALIVE_SECONDS", 0.01)
    last = (await admin.call("GET", "/events")).document["last-seq"]
    async with listening(admin, "?kind=Nothing&after=0") as messages:
        while (await messages.next()).fields.get("id") != EventIds(DEPLOYMENT).cursor(last):
            pass


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?kind=", {}),
        ("?form=xml", {}),
        ("?after=x", {}),
        ("?limit=3", {}),
        ("", {"Last-Event-ID": "x"}),
        ("", {"Last-Event-ID": "1" * 20}),
        ("", {"Last-Event-ID": "-1"}),
        ("", {"Last-Event-ID": ELSEWHERE.cursor(1)}),
        (f"?after={ELSEWHERE.cursor(1)}", {}),
    ],
)
async def test_what_cannot_be_asked_for_is_refused(admin: Admin, query: str, headers: dict[str, str]) -> None:
    answer = await admin.lake.send("GET", f"{BASE}/events/stream{query}", headers=headers)
    assert answer.status == 400, answer.body


async def test_listening_is_reading_events(admin: Admin) -> None:
    nobody = await admin.lake.user("nobody")
    assert (await admin.call("GET", "/events/stream", keys=nobody)).status == 403
    reader = await admin.lake.user("reader", allow("lakebed:ReadEvents"))
    response = await admin.lake.respond("GET", f"{BASE}/events/stream", keys=reader)
    assert response.status == 200
