"""The live feed of the admin API."""

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

OTHER_DEPLOYMENT = EventIds(DeploymentId("b" * 26))


@dataclass
class ServerSentEvent:
    """One server-sent event: its fields by name."""

    fields: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Any:  # Any: JSON
        return json.loads(self.fields["data"])


class Messages:
    """The server-sent events of a stream, without comments."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = ""

    async def next(self) -> ServerSentEvent:
        while "\n\n" not in self._rest:
            self._rest += (await anext(self._pieces)).decode()
        block, _, self._rest = self._rest.partition("\n\n")
        sent = ServerSentEvent()
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name:
                sent.fields[name] = value.removeprefix(" ")
        return sent

    async def event(self) -> ServerSentEvent:
        """The next event with data, which a browser would dispatch."""
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


async def test_new_events_are_streamed(admin: Admin) -> None:
    async with listening(admin) as messages:
        assert (await messages.next()).fields == {"retry": "1000"}
        await admin.lake.store.bucket("fresh")
        received = await messages.event()
    assert received.data["kind"] == "BucketCreated"
    assert received.fields["id"] == received.data["id"] == EventIds(DEPLOYMENT).cursor(received.data["seq"])
    assert "event" not in received.fields


async def test_stream_resumes_after_the_last_event_id(admin: Admin) -> None:
    for name in ("one", "two", "three"):
        await admin.lake.store.bucket(f"b-{name}")
    (known,) = (await admin.call("GET", "/events?kind=BucketCreated&subject=b-one")).document["events"]
    # Also with the event ids of earlier versions.
    for cursor in (known["id"], f"evt_{known['seq']}", str(known["seq"])):
        async with listening(admin, "?kind=BucketCreated&after=0", Last_Event_ID=cursor) as messages:
            assert [(await messages.event()).data["subject"] for _ in range(2)] == ["b-two", "b-three"]
        async with listening(admin, f"?kind=BucketCreated&after={cursor}") as messages:
            assert (await messages.event()).data["subject"] == "b-two"


async def test_stream_is_filtered_by_kind_and_subject(admin: Admin) -> None:
    async with listening(admin, "?kind=ObjectCreated:*&subject=plain&after=0") as messages:
        await admin.lake.store.bucket("plain")
        await admin.lake.store.put("plain", "k", b"abc")
        received = await messages.event()
    assert (received.data["kind"], received.data["subject"]) == ("ObjectCreated:Put", "plain/k")


@pytest.mark.parametrize(
    ("form", "field_name"), [("s3", "Records"), ("cloudevents", "specversion"), ("envelope", "namespace")]
)
async def test_events_have_the_requested_form(admin: Admin, form: str, field_name: str) -> None:
    async with listening(admin, f"?form={form}&after=0") as messages:
        assert field_name in (await messages.event()).data


async def test_deleted_events_are_reported_as_a_gap(admin: Admin) -> None:
    await admin.lake.store.object_context.outbox.trim(occurred_before_ms=1 << 60, limit=3)
    async with listening(admin, "?after=1") as messages:
        gap = await messages.event()
        assert (gap.fields["event"], gap.data) == ("gap", {"after": 1, "first-seq": 4})
        assert "id" not in gap.fields
        assert (await messages.event()).data["seq"] == 4
    async with listening(admin, "?after=3") as messages:
        assert (await messages.event()).data["seq"] == 4


async def test_heartbeat_has_the_current_position(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("", {"Last-Event-ID": OTHER_DEPLOYMENT.cursor(1)}),
        (f"?after={OTHER_DEPLOYMENT.cursor(1)}", {}),
    ],
)
async def test_invalid_requests_are_refused(admin: Admin, query: str, headers: dict[str, str]) -> None:
    answer = await admin.lake.send("GET", f"{BASE}/events/stream{query}", headers=headers)
    assert answer.status == 400, answer.body


async def test_stream_requires_permission_to_read_events(admin: Admin) -> None:
    unprivileged = await admin.lake.user("unprivileged")
    assert (await admin.call("GET", "/events/stream", keys=unprivileged)).status == 403
    reader = await admin.lake.user("reader", allow("lakebed:ReadEvents"))
    response = await admin.lake.respond("GET", f"{BASE}/events/stream", keys=reader)
    assert response.status == 200
