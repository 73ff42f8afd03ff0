from __future__ import annotations

import pytest

from lakebed.events.ids import EventIds
from lakebed.meta.seam import Transaction
from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.lake import DEPLOYMENT, allow

URL = "https://receiver.example/events"


async def test_target_is_created_returned_changed_and_deleted(admin: Admin) -> None:
    created = await admin.call("PUT", "/targets/webhook/r", {"settings": {"endpoint": URL}, "kinds": ["Table*"]})
    assert created.status == 201
    assert created.headers["cache-control"] == "no-store"
    secret = created.document["made"]["secret"]
    assert secret.startswith("whsec_")
    target = (await admin.call("GET", "/targets/webhook/r")).document
    last = target["last-seq"]
    assert target == {
        "name": "r",
        "type": "webhook",
        "arn": "arn:lakebed:sqs:us-east-1:r:webhook",
        "settings": {"endpoint": URL, "secret": "***"},
        "kinds": ["Table*"],
        "audit": False,
        "requests": False,
        "paused": False,
        "origin": "api",
        "after": last - 1,
        "last-seq": last,
        "waiting": 0,
        "dead": 0,
    }
    document = {"settings": {"endpoint": URL}, "kinds": ["*"], "subject": "lake", "audit": True, "form": "lakebed"}
    changed = await admin.call("PUT", "/targets/webhook/r", document)
    assert (changed.status, changed.document["kinds"]) == (200, ["*"])
    assert [changed.document[name] for name in ("subject", "audit", "form")] == ["lake", True, "lakebed"]
    assert secret not in changed.body.decode()
    audited = await admin.call("PUT", "/targets/webhook/r", {"settings": {"endpoint": URL}, "requests": True})
    assert (audited.status, audited.document["requests"]) == (200, True)
    assert (await admin.call("GET", "/targets/webhook/r")).document["requests-behind"] == 0
    listed = (await admin.call("GET", "/targets")).document["targets"]
    assert [one["name"] for one in listed] == ["r"]
    assert (await admin.call("GET", "/targets/arns")).document == {"arns": ["arn:lakebed:sqs:us-east-1:r:webhook"]}
    assert (await admin.call("DELETE", "/targets/webhook/r")).status == 204
    deleted = await admin.call("GET", "/targets/webhook/r")
    assert deleted.error == (404, "NoSuchResourceException")


async def test_dead_letters_are_paged_and_redriven(admin: Admin) -> None:
    await admin.call("PUT", "/targets/webhook/r", {"settings": {"endpoint": URL}})
    meta = admin.lake.store.meta

    async def work(tx: Transaction) -> None:
        for seq in (7, 8, 9):
            await tx.run(
                "INSERT INTO deliveries (target, seq, lane, kind, subject, payload, occurred_ms, operation, rule,"
                " state, attempts, due_ms, failure, changed_ms)"
                " VALUES ('r:webhook', ?, 'lane', 'K', 's', ?, 1, 'DROP_TABLE', 'by-rule', 'dead', 3, 1, 'no', 2)",
                seq,
                b"\x80",
            )

    await meta.transact(work)
    first = (await admin.call("GET", "/targets/webhook/r/deliveries?page-size=2")).document
    assert [one["event"]["seq"] for one in first["deliveries"]] == [7, 8]
    assert first["deliveries"][0] == {
        "event": {
            "id": EventIds(DEPLOYMENT).cursor(7),
            "seq": 7,
            "kind": "K",
            "type": "AFTER_DROP_TABLE",
            "subject": "s",
            "occurred-ms": 1,
            "payload": {},
        },
        "state": "dead",
        "attempts": 3,
        "due-ms": 1,
        "changed-ms": 2,
        "failure": "no",
        "rule": "by-rule",
    }
    rest = (
        await admin.call("GET", f"/targets/webhook/r/deliveries?page-size=2&page-token={first['next-page-token']}")
    ).document
    assert [one["event"]["seq"] for one in rest["deliveries"]] == [9]
    assert "next-page-token" not in rest
    assert (await admin.call("POST", "/targets/webhook/r/redrive", {"seq": 8})).document == {"redriven": 1}
    assert (await admin.call("POST", "/targets/webhook/r/redrive")).document == {"redriven": 2}
    waiting = (await admin.call("GET", "/targets/webhook/r/deliveries?state=waiting")).document["deliveries"]
    assert [one["attempts"] for one in waiting] == [0, 0, 0]
    other = await admin.call(
        "GET", f"/targets/webhook/r/deliveries?state=waiting&page-token={first['next-page-token']}"
    )
    assert other.error == (400, "BadRequestException")


@pytest.mark.parametrize(
    ("method", "path", "document"),
    [
        ("PUT", "/targets/webhook/r", {"settings": {"endpoint": "not a url"}}),
        ("PUT", "/targets/webhook/r", {"settings": {"endpoint": "http://elsewhere.example/"}}),
        ("PUT", "/targets/webhook/r", {}),
        ("PUT", "/targets/webhook/r", {"settings": {"endpoint": URL}, "kinds": ["a*b"]}),
        ("PUT", "/targets/webhook/r", {"settings": {"endpoint": URL, "secret": "short"}}),
        ("PUT", "/targets/webhook/r", {"settings": {"endpoint": URL, "enabled": True}}),
        ("PUT", "/targets/webhook/r", {"settings": {"endpoint": URL}, "enabled": True}),
        ("PUT", "/targets/webhook/r", {"settings": {"endpoint": URL}, "form": "haiku"}),
        ("PUT", "/targets/pigeon/r", {"settings": {"endpoint": URL}}),
        ("PUT", "/targets/webhook/a%20b", {"settings": {"endpoint": URL}}),
        ("GET", "/targets?name=r", None),
        ("GET", "/targets/webhook/r/deliveries?state=lost", None),
        ("POST", "/targets/webhook/r/redrive", {"all": True}),
    ],
)
async def test_invalid_requests_are_refused(admin: Admin, method: str, path: str, document: object) -> None:
    assert (await admin.call(method, path, document)).error == (400, "BadRequestException")


async def test_targets_require_permission(admin: Admin) -> None:
    keys = await admin.lake.user("reader", allow("lakebed:ReadEvents", "s3tables:*"))
    for method, path in (("GET", "/targets"), ("PUT", "/targets/webhook/r"), ("DELETE", "/targets/webhook/r")):
        answer = await admin.call(method, path, {"settings": {"endpoint": URL}} if method == "PUT" else None, keys=keys)
        assert answer.error == (403, "ForbiddenException")
        assert "lakebed:ManageTargets" in answer.document["error"]["message"]


async def test_target_is_paused_resumed_and_tested(admin: Admin) -> None:
    await admin.call("PUT", "/targets/webhook/r", {"settings": {"endpoint": "http://127.0.0.1:9/x"}})
    for verb, is_paused in (("pause", True), ("resume", False)):
        assert (await admin.call("POST", f"/targets/webhook/r/{verb}")).status == 204
        assert (await admin.call("GET", "/targets/webhook/r")).document["paused"] is is_paused
    tested = (await admin.call("POST", "/targets/webhook/r/test")).document
    assert tested["is-ready"] is False
    assert tested["failure"].startswith("no response. host=127.0.0.1")
    assert (await admin.call("POST", "/targets/webhook/x/test")).status == 404
