"""The audit log has records of refused and failed requests: principal, operation, subject, source and reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.boto import Keys
from tests.governance.listeners.intents import RecordingListener
from tests.wire.iceberg.lake import ROOT_KEYS, Lake, allow, opened_lake

NS = "/lake/namespaces/ns"


@pytest.fixture
def listener() -> RecordingListener:
    return RecordingListener("DROP_VIEW", vetoes=["DROP_VIEW"])


@pytest.fixture
async def lake(tmp_path: Path, listener: RecordingListener) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path, listeners=[listener]) as lake:
        await lake.table()
        yield lake


async def audit_log(lake: Lake, query: str = "kind=Attempt*") -> list[dict[str, Any]]:
    """The audit records, after writing all that are buffered."""
    await lake.governance.recorder.write()
    response = await lake.send("GET", f"/lakebed/v1/audit?{query}")
    assert response.status == 200, response
    events: list[dict[str, Any]] = response.document["events"]
    return events


async def test_denied_change_is_recorded_with_all_fields(lake: Lake) -> None:
    keys = await lake.user("anna", allow("s3tables:GetTable"))
    assert (await lake.call("DELETE", f"{NS}/tables/t", keys=keys)).status == 403
    (event,) = await audit_log(lake)
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


async def test_denied_read_is_recorded_but_not_a_read_of_a_missing_table(lake: Lake) -> None:
    keys = await lake.user("anna", allow("s3tables:ListNamespaces"))
    assert (await lake.call("GET", f"{NS}/tables/t", keys=keys)).status == 403
    assert (await lake.call("GET", f"{NS}/tables/none")).status == 404
    assert (await lake.call("HEAD", f"{NS}/tables/none")).status == 404
    assert [event["payload"]["route"] for event in await audit_log(lake)] == ["loadTable"]


async def test_missing_and_invalid_credentials_are_recorded(lake: Lake) -> None:
    assert (await lake.send("GET", "/iceberg/v1/lake/namespaces", keys=None)).status == 401
    wrong = Keys(ROOT_KEYS.access_key, "not-the-secret-key")
    assert (await lake.call("GET", NS, keys=wrong)).status == 403
    unknown = Keys("NOBODYSKEY", "whatever-it-may-be")
    assert (await lake.call("GET", NS, keys=unknown)).status in (401, 403)
    events = await audit_log(lake)
    assert {event["kind"] for event in events} == {"AttemptDenied"}
    assert [event["payload"].get("claimed", "") for event in events] == ["", ROOT_KEYS.access_key, "NOBODYSKEY"]
    assert not any("principal" in event["payload"] for event in events)
    assert "not-the-secret-key" not in str(events)


async def test_vetoes_and_failed_changes_have_different_kinds(lake: Lake) -> None:
    assert (await lake.call("DELETE", f"{NS}/views/v")).status == 403
    assert (await lake.call("POST", "/lake/namespaces", {"namespace": ["ns"]})).status == 409
    events = await audit_log(lake)
    assert [event["kind"] for event in events] == ["AttemptVetoed", "AttemptFailed"]
    assert events[0]["payload"]["reason"] == "vetoed by guard: lake/ns/v is frozen. operation=DROP_VIEW"
    assert (events[1]["payload"]["operation"], events[1]["payload"]["status"]) == ("CREATE_NAMESPACE", 409)


async def test_denied_requests_to_s3_and_management_are_recorded(lake: Lake) -> None:
    keys = await lake.user("anna")
    await lake.store.bucket("plain")
    assert (await lake.send("PUT", "/plain/a%20key", b"x", keys=keys)).status == 403
    assert (await lake.send("GET", "/api/management/v1/principals", keys=keys)).status == 403
    records = [
        (event["payload"]["edge"], event["payload"]["route"], event["subject"]) for event in await audit_log(lake)
    ]
    assert records == [("s3", "PutObject", "plain/a key"), ("management", "listPrincipals", "")]


async def test_failed_conditions_in_s3_are_not_recorded(lake: Lake) -> None:
    await lake.store.bucket("plain")
    for status in (200, 412):
        response = await lake.send("PUT", "/plain/key", b"x", {"if-none-match": "*"})
        assert response.status == status
    assert await audit_log(lake) == []


async def test_audit_log_is_filtered_by_principal_kind_and_subject(lake: Lake) -> None:
    anna, bert = await lake.user("anna"), await lake.user("bert")
    for keys in (anna, bert):
        for path in (f"{NS}/tables/t", f"{NS}/tables/u", "/lake/namespaces"):
            await lake.call("GET", path, keys=keys)
    assert len(await audit_log(lake)) == 6
    assert len(await audit_log(lake, "kind=Attempt*&principal=anna")) == 3
    assert len(await audit_log(lake, "subject=lake/ns/t&principal=bert&kind=AttemptDenied")) == 1
    assert len(await audit_log(lake, "kind=Attempt*&subject=lake/ns")) == 4
    first = (await lake.send("GET", "/lakebed/v1/audit?kind=Attempt*&limit=4")).document
    rest = (await lake.send("GET", f"/lakebed/v1/audit?kind=Attempt*&after={first['next-after']}")).document
    assert [len(page["events"]) for page in (first, rest)] == [4, 2]


async def test_repeated_refusals_are_counted_in_one_record(lake: Lake) -> None:
    keys = await lake.user("anna")
    for _ in range(50):
        await lake.call("GET", f"{NS}/tables/t", keys=keys)
    assert len(await audit_log(lake)) == 1
    lake.clock.advance(61)
    _, again = await audit_log(lake)
    assert again["payload"]["count"] == 49
