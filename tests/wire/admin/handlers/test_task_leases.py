from __future__ import annotations

import asyncio

import pytest

from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.handlers.tables_with_data import message


async def test_calls_with_a_lost_lease_are_409(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    (lost,) = (await admin.lease(lease_seconds=1)).document["tasks"]
    admin.lake.clock.advance(2)
    (leased,) = (await admin.lease(worker="other")).document["tasks"]
    assert leased["token"] > lost["token"]
    for verb, body in (
        ("heartbeat", {"lease-seconds": 60}),
        ("complete", {"report": {}}),
        ("fail", {"reason": "late"}),
    ):
        late = await admin.call("POST", f"/tasks/{task}/{verb}", {"token": lost["token"], **body})
        assert late.error == (409, "LeaseLostException"), verb
    assert (await admin.call("GET", f"/tasks/{task}")).document["worker"] == "other"


async def test_completing_a_task_is_idempotent(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    await admin.lease()
    for _ in range(2):
        ended = await admin.call("POST", f"/tasks/{task}/complete", {"token": 1, "report": {"seconds": 1}})
        assert ended.status == 204


async def test_heartbeat_extends_a_lease_and_stores_progress(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    (leased,) = (await admin.lease(lease_seconds=60)).document["tasks"]
    admin.lake.clock.advance(50)
    heartbeat = {"token": 1, "lease-seconds": 60, "progress": {"stage": "rewriting", "done": 0.5}}
    answer = await admin.call("POST", f"/tasks/{task}/heartbeat", heartbeat)
    assert (answer.status, answer.document) == (200, {"order": leased["order"]})
    running = (await admin.call("GET", f"/tasks/{task}")).document
    assert running["progress"] == {"stage": "rewriting", "done": 0.5}
    assert running["due-ms"] == leased["due-ms"] + 50_000
    admin.lake.clock.advance(50)
    assert (await admin.lease()).document["tasks"] == []


async def test_concurrent_leases_are_of_different_tasks(admin: Admin) -> None:
    jobs = ["verify-table", "compact-table", "rewrite-layout", "expire-snapshots"]
    ids = {(await admin.submit(job)).document["id"] for job in jobs}
    answers = await asyncio.gather(*(admin.lease(worker=f"w{number}") for number in range(6)))
    leased = [task["id"] for answer in answers for task in answer.document["tasks"]]
    assert sorted(leased) == sorted(ids)


async def test_lease_waits_for_a_task(admin: Admin) -> None:
    waiting = asyncio.create_task(
        admin.call("POST", "/tasks/claim", {"worker": "w", "lease-seconds": 60, "wait-seconds": 30})
    )
    await asyncio.sleep(0)
    task = (await admin.submit()).document["id"]
    assert [one["id"] for one in (await waiting).document["tasks"]] == [task]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"lease-seconds": 60}, "missing required field `worker`"),
        ({"worker": "w"}, "missing required field `lease-seconds`"),
        ({"worker": "", "lease-seconds": 60}, "worker must have"),
        ({"worker": "w" * 257, "lease-seconds": 60}, "worker must have"),
        ({"worker": "w", "lease-seconds": 0}, "lease-seconds must be above 0"),
        ({"worker": "w", "lease-seconds": 1e9}, "lease-seconds must be above 0 and up to"),
        ({"worker": "w", "lease-seconds": 60, "limit": 0}, "limit must be from 1"),
        ({"worker": "w", "lease-seconds": 60, "limit": 101}, "limit must be from 1 to 100"),
        ({"worker": "w", "lease-seconds": 60, "wait-seconds": 31}, "$.wait-seconds"),
        ({"worker": "w", "lease-seconds": 60, "kinds": ["bake-bread"]}, "$.kinds[0]"),
        ({"worker": "w", "lease-seconds": 60, "colour": "blue"}, "colour"),
    ],
)
async def test_invalid_leases_are_refused(admin: Admin, document: dict[str, object], expected: str) -> None:
    refused = await admin.call("POST", "/tasks/claim", document)
    assert refused.error == (400, "BadRequestException")
    assert expected in message(refused)


async def test_reports_and_progress_must_be_objects(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    await admin.lease()
    reports: list[object] = [[], "done", 7, None]
    for report in reports:
        refused = await admin.call("POST", f"/tasks/{task}/complete", {"token": 1, "report": report})
        assert refused.status == 400
        assert "report must be an object" in message(refused)
    odd = await admin.call("POST", f"/tasks/{task}/complete", {"token": 1, "report": {"seconds": "many"}})
    assert (odd.status, "$.seconds" in message(odd)) == (400, True)
    heartbeat = {"token": 1, "lease-seconds": 60, "progress": 50}
    refused = await admin.call("POST", f"/tasks/{task}/heartbeat", heartbeat)
    assert (refused.status, "progress must be an object" in message(refused)) == (400, True)
    assert (await admin.call("GET", f"/tasks/{task}")).document["state"] == "claimed"
