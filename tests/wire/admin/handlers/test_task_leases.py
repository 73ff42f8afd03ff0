from __future__ import annotations

import asyncio

import pytest

from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.handlers.grown import message


async def test_a_claim_that_was_lost_is_told_with_409(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    (lost,) = (await admin.lease(lease_seconds=1)).document["tasks"]
    admin.lake.clock.advance(2)
    (taken,) = (await admin.lease(worker="other")).document["tasks"]
    assert taken["token"] > lost["token"]
    for word, body in (
        ("heartbeat", {"lease-seconds": 60}),
        ("complete", {"report": {}}),
        ("fail", {"reason": "late"}),
    ):
        late = await admin.call("POST", f"/tasks/{task}/{word}", {"token": lost["token"], **body})
        assert late.error == (409, "LeaseLostException"), word
    assert (await admin.call("GET", f"/tasks/{task}")).document["worker"] == "other"


async def test_the_same_end_told_twice_is_one_end(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    await admin.lease()
    for _ in range(2):
        ended = await admin.call("POST", f"/tasks/{task}/complete", {"token": 1, "report": {"seconds": 1}})
        assert ended.status == 204


async def test_a_worker_is_heard_while_it_works(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    (leased,) = (await admin.lease(lease_seconds=60)).document["tasks"]
    admin.lake.clock.advance(50)
    beat = {"token": 1, "lease-seconds": 60, "progress": {"stage": "rewriting", "done": 0.5}}
    answer = await admin.call("POST", f"/tasks/{task}/heartbeat", beat)
    assert (answer.status, answer.document) == (200, {"order": leased["order"]})
    seen = (await admin.call("GET", f"/tasks/{task}")).document
    assert seen["progress"] == {"stage": "rewriting", "done": 0.5}
    assert seen["due-ms"] == leased["due-ms"] + 50_000
    admin.lake.clock.advance(50)
    assert (await admin.lease()).document["tasks"] == []


async def test_two_claims_at_once_take_different_tasks(admin: Admin) -> None:
    jobs = ["verify-table", "compact-table", "rewrite-layout", "expire-snapshots"]
    ids = {(await admin.submit(job)).document["id"] for job in jobs}
    answers = await asyncio.gather(*(admin.lease(worker=f"w{number}") for number in range(6)))
    leased = [task["id"] for answer in answers for task in answer.document["tasks"]]
    assert sorted(leased) == sorted(ids)


async def test_a_claim_waits_until_there_is_work(admin: Admin) -> None:
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
async def test_a_claim_that_means_nothing_is_told_so(admin: Admin, document: dict[str, object], expected: str) -> None:
    refused = await admin.call("POST", "/tasks/claim", document)
    assert refused.error == (400, "BadRequestException")
    assert expected in message(refused)


async def test_reports_and_progress_are_objects(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    await admin.lease()
    reports: list[object] = [[], "done", 7, None]
    for report in reports:
        refused = await admin.call("POST", f"/tasks/{task}/complete", {"token": 1, "report": report})
        assert refused.status == 400
        assert "report must be an object" in message(refused)
    odd = await admin.call("POST", f"/tasks/{task}/complete", {"token": 1, "report": {"seconds": "many"}})
    assert (odd.status, "$.seconds" in message(odd)) == (400, True)
    beat = {"token": 1, "lease-seconds": 60, "progress": 50}
    refused = await admin.call("POST", f"/tasks/{task}/heartbeat", beat)
    assert (refused.status, "progress must be an object" in message(refused)) == (400, True)
    assert (await admin.call("GET", f"/tasks/{task}")).document["state"] == "claimed"
