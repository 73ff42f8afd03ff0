from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.ids import new_deployment_id
from lakebed.events.documents import payload_document
from lakebed.events.ids import EventIds
from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.handlers.tables_with_data import message
from tests.wire.iceberg.lake import DEPLOYMENT

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", max_size=3), PLAIN, max_size=4))
def test_payload_is_unchanged_in_json(payload: dict[str, object]) -> None:
    assert json.loads(payload_document(msgspec.msgpack.encode(payload))) == payload


@given(st.binary(max_size=64))
def test_any_payload_becomes_an_object(payload: bytes) -> None:
    document = json.loads(payload_document(payload))
    assert isinstance(document, dict)


def test_values_without_a_json_form_are_replaced() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    document = json.loads(payload_document(msgspec.msgpack.encode({"raw": b"\x00\xff", "at": at, "n": [1, None]})))
    assert document == {"raw": b64encode(b"\x00\xff").decode(), "at": "2026-01-01T00:00:00Z", "n": [1, None]}
    assert json.loads(payload_document(msgspec.msgpack.encode([1, 2]))) == {"value": [1, 2]}
    assert json.loads(payload_document(b"\xc1")) == {"unreadable": b64encode(b"\xc1").decode()}
    assert json.loads(payload_document(b"")) == {"unreadable": ""}
    extension = msgspec.msgpack.encode(msgspec.msgpack.Ext(5, b"x"))
    assert json.loads(payload_document(extension)) == {"unreadable": b64encode(extension).decode()}


async def test_pages_of_events_have_the_next_cursor(admin: Admin) -> None:
    first = (await admin.call("GET", "/events?limit=2")).document
    assert [event["kind"] for event in first["events"]] == ["BucketCreated", "CatalogRoleCreated"]
    assert first["first-seq"] == first["events"][0]["seq"]
    assert first["next-after"] == first["events"][1]["seq"]
    rest = (await admin.call("GET", f"/events?after={first['next-after']}")).document
    assert rest["events"][-1]["kind"] == "TableCreated"
    assert rest["events"][-1]["payload"]["namespace"] == ["ns"]
    assert rest["next-after"] == rest["last-seq"] == rest["events"][-1]["seq"]
    nothing = (await admin.call("GET", f"/events?after={rest['last-seq']}")).document
    assert nothing == {
        "events": [],
        "next-after": rest["last-seq"],
        "next-cursor": rest["events"][-1]["id"],
        "last-seq": rest["last-seq"],
        "first-seq": first["first-seq"],
        "deployment": DEPLOYMENT,
    }


async def test_reader_resumes_after_an_id_of_any_version_or_a_number(admin: Admin) -> None:
    events = (await admin.call("GET", "/events")).document["events"]
    for cursor in (events[1]["id"], f"evt_{events[1]['seq']}", events[1]["seq"]):
        page = (await admin.call("GET", f"/events?after={cursor}&limit=1")).document
        assert page["events"] == [events[2]]
        assert page["next-cursor"] == events[2]["id"]


@pytest.mark.parametrize("surface", ["/events", "/audit"])
async def test_cursor_of_another_deployment_is_refused(admin: Admin, surface: str) -> None:
    found = EventIds(new_deployment_id()).cursor(1)
    refused = await admin.call("GET", f"{surface}?after={found}")
    assert refused.error == (400, "BadRequestException")
    assert "after is an event id of another deployment" in message(refused)
    assert f"expected=evt_{DEPLOYMENT}_NUMBER found={found}" in message(refused)


async def test_waiting_request_returns_only_the_requested_kind(admin: Admin) -> None:
    last = (await admin.call("GET", "/events?limit=0")).document["last-seq"]
    waiting = asyncio.create_task(admin.call("GET", f"/events?after={last}&kind=lakebed%3ATask%2A&wait-seconds=30"))
    await asyncio.sleep(0)
    await admin.lake.call("POST", "/lake/namespaces", {"namespace": ["other"]})
    task = (await admin.submit()).document["id"]
    page = (await waiting).document
    assert [(event["kind"], event["payload"]["task"]) for event in page["events"]] == [("lakebed:TaskPlanned", task)]


async def test_task_changes_emit_events(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    await admin.lease()
    await admin.call("POST", f"/tasks/{task}/complete", {"token": 1, "report": {"seconds": 2}})
    events = (await admin.call("GET", "/events?kind=lakebed:Task*")).document["events"]
    assert [event["kind"] for event in events] == [
        "lakebed:TaskPlanned",
        "lakebed:TaskStarted",
        "lakebed:TaskSucceeded",
    ]
    assert {event["subject"] for event in events} == {"lake/ns/t"}
    assert events[2]["payload"]["report"]["seconds"] == 2


async def test_audit_log_has_changes_of_users_roles_and_keys(admin: Admin) -> None:
    await admin.lake.user("reader")
    events = (await admin.call("GET", "/audit")).document["events"]
    administered = ["CatalogRoleCreated", "GrantAdded", "GrantAdded", "CatalogRoleAssigned"]
    assert [event["kind"] for event in events] == [*administered, "UserCreated", "AccessKeyCreated"]
    assert "secret" not in json.dumps(events)


@pytest.mark.parametrize("surface", ["/events", "/audit"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("after=-1", "after must be an integer"),
        ("after=9223372036854775808", "after must be an integer"),
        ("after=1.5", "after must be an integer"),
        ("limit=1001", "limit must be a whole number from 0 to 1000"),
        ("wait-seconds=31", "wait-seconds must be a number from 0 to 30"),
        ("wait-seconds=soon", "wait-seconds must be a number from 0 to 30"),
        ("wait-seconds=.", "wait-seconds must be a number from 0 to 30"),
        ("wait-seconds=", "wait-seconds must be a number from 0 to 30"),
        ("kind=", "kind must be a comma-separated list of names"),
        ("after=evt_x", "after must be an integer from 0 to 9223372036854775807, or an event id"),
        ("after=req_4503599627370496", "after must be an integer"),
        ("before=7", "unknown parameter: before"),
    ],
)
async def test_invalid_queries_are_refused(admin: Admin, surface: str, query: str, expected: str) -> None:
    refused = await admin.call("GET", f"{surface}?{query}")
    assert refused.error == (400, "BadRequestException")
    assert expected in message(refused)
