"""Refused and failed attempts reach the audit trail: who, what, on what, from where, why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.boto import Keys
from tests.governance.listeners.intents import Remembering
from tests.wire.iceberg.lake import ROOT_KEYS, Lake, allow, opened_lake

NS = "/lake/namespaces/ns"


@pytest.fixture
def table_buckets() -> Remembering:
    return Remembering("DROP_VIEW", vetoes=["DROP_VIEW"])


@pytest.fixture
async def lake(tmp_path: Path, table_buckets: Remembering) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path, listeners=[table_buckets]) as lake:
        await lake.table()
        yield lake


async def trail(lake: Lake, query: str = "kind=Attempt*") -> list[dict[str, Any]]:
    """What the audit trail says, once all is written."""
    await lake.governance.recorder.write()
    answer = await lake.send("GET", f"/lakebed/v1/audit?{query}")
    assert answer.status == 200, answer
    events: list[dict[str, Any]] = answer.document["events"]
    return events


async def test_a_denied_change_is_told_with_all_that_is_known(lake: Lake) -> None:
    keys = await lake.user("anna", allow("s3tables:GetTable"))
    assert (await lake.call("DELETE", f"{NS}/tables/t", keys=keys)).status == 403
    (event,) = await trail(lake)
    assert (event["kind"], event["subject"]) == ("AttemptDenied", "lake/ns/t")
    payload = event["payload"]
    assert "no identity policy and no resource policy allows it" in payload.pop("reason")
    assert payload == {
        "edge": "catalog",
        "route": "dropTable",
        "operation": "DROP_TABLE",
        "principal": "anna",
        "source_ip": "127.0.0.1",
        "request_id": "R1",
        "status": 403,
    }


async def test_a_denied_read_is_told_and_one_that_finds_nothing_is_not(lake: Lake) -> None:
    keys = await lake.user("anna", allow("s3tables:ListNamespaces"))
    assert (await lake.call("GET", f"{NS}/tables/t", keys=keys)).status == 403
    assert (await lake.call("GET", f"{NS}/tables/none")).status == 404
    assert (await lake.call("HEAD", f"{NS}/tables/none")).status == 404
    assert [event["payload"]["route"] for event in await trail(lake)] == ["loadTable"]


async def test_who_shows_nothing_or_the_wrong_secret_is_told_of(lake: Lake) -> None:
    assert (await lake.send("GET", "/iceberg/v1/lake/namespaces", keys=None)).status == 401
    wrong = Keys(ROOT_KEYS.access_key, "not-the-secret-key")
    assert (await lake.call("GET", NS, keys=wrong)).status == 403
    unknown = Keys("NOBODYSKEY", "whatever-it-may-be")
    assert (await lake.call("GET", NS, keys=unknown)).status in (401, 403)
    events = await trail(lake)
    assert {event["kind"] for event in events} == {"AttemptDenied"}
    assert [event["payload"].get("claimed", "") for event in events] == ["", ROOT_KEYS.access_key, "NOBODYSKEY"]
    assert not any("principal" in event["payload"] for event in events)
    assert "not-the-secret-key" not in str(events)


async def test_vetoes_and_failed_changes_are_told_each_as_what_it_is(lake: Lake) -> None:
    assert (await lake.call("DELETE", f"{NS}/views/v")).status == 403
    assert (await lake.call("POST", "/lake/namespaces", {"namespace": ["ns"]})).status == 409
    events = await trail(lake)
    assert [event["kind"] for event in events] == ["AttemptVetoed", "AttemptFailed"]
    assert events[0]["payload"]["reason"] == "vetoed by guard: lake/ns/v is frozen. operation=DROP_VIEW"
    assert (events[1]["payload"]["operation"], events[1]["payload"]["status"]) == ("CREATE_NAMESPACE", 409)


async def test_the_object_store_and_management_are_watched_too(lake: Lake) -> None:
    keys = await lake.user("anna")
    await lake.store.bucket("plain")
    assert (await lake.send("PUT", "/plain/a%20key", b"x", keys=keys)).status == 403
    assert (await lake.send("GET", "/api/management/v1/principals", keys=keys)).status == 403
    told = [(event["payload"]["edge"], event["payload"]["route"], event["subject"]) for event in await trail(lake)]
    assert told == [("s3", "PutObject", "plain/a key"), ("management", "listPrincipals", "")]


async def test_conditions_that_fail_in_the_object_store_are_no_attempts(lake: Lake) -> None:
    await lake.store.bucket("plain")
    for status in (200, 412):
        answer = await lake.send("PUT", "/plain/key", b"x", {"if-none-match": "*"})
        assert answer.status == status
    assert await trail(lake) == []


async def test_the_trail_is_filtered_by_who_what_and_on_what(lake: Lake) -> None:
    anna, bert = await lake.user("anna"), await lake.user("bert")
    for keys in (anna, bert):
        for path in (f"{NS}/tables/t", f"{NS}/tables/u", "/lake/namespaces"):
            await lake.call("GET", path, keys=keys)
    assert len(await trail(lake)) == 6
    assert len(await trail(lake, "kind=Attempt*&principal=anna")) == 3
    assert len(await trail(lake, "subject=lake/ns/t&principal=bert&kind=AttemptDenied")) == 1
    assert len(await trail(lake, "kind=Attempt*&subject=lake/ns")) == 4
    first = (await lake.send("GET", "/lakebed/v1/audit?kind=Attempt*&limit=4")).document
    rest = (await lake.send("GET", f"/lakebed/v1/audit?kind=Attempt*&after={first['next-after']}")).document
    assert [len(page["events"]) for page in (first, rest)] == [4, 2]


async def test_repeated_attempts_take_little_room(lake: Lake) -> None:
    keys = await lake.user("anna")
    for _ in range(50):
        await lake.call("GET", f"{NS}/tables/t", keys=keys)
    assert len(await trail(lake)) == 1
    lake.clock.advance(61)
    _, again = await trail(lake)
    assert again["payload"]["count"] == 49
