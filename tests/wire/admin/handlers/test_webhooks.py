from __future__ import annotations

import pytest

from lakebed.meta.seam import Transaction
from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.lake import allow

URL = "https://receiver.example/events"


async def test_a_webhook_is_made_shown_changed_and_removed(admin: Admin) -> None:
    made = await admin.call("PUT", "/webhooks/r", {"url": URL, "kinds": ["Table*"]})
    assert made.status == 201
    assert made.headers["cache-control"] == "no-store"
    secret = made.document.pop("secret")
    assert secret.startswith("whsec_")
    shown = (await admin.call("GET", "/webhooks/r")).document
    last = shown["last-seq"]
    assert shown == {
        "name": "r",
        "url": URL,
        "kinds": ["Table*"],
        "origin": "api",
        "after": last - 1,
        "last-seq": last,
        "waiting": 0,
        "dead": 0,
    }
    changed = await admin.call("PUT", "/webhooks/r", {"url": URL})
    assert (changed.status, changed.document["kinds"]) == (200, ["*"])
    assert secret not in changed.body.decode()
    listed = (await admin.call("GET", "/webhooks")).document["webhooks"]
    assert [one["name"] for one in listed] == ["r"]
    assert (await admin.call("DELETE", "/webhooks/r")).status == 204
    gone = await admin.call("GET", "/webhooks/r")
    assert gone.error == (404, "NoSuchResourceException")


async def test_dead_letters_are_listed_in_pages_and_tried_again(admin: Admin) -> None:
    await admin.call("PUT", "/webhooks/r", {"url": URL})
    meta = admin.lake.store.meta

    async def work(tx: Transaction) -> None:
        for seq in (7, 8, 9):
            await tx.run(
                "INSERT INTO webhook_deliveries"
                " VALUES ('r', ?, 'lane', 'K', 's', ?, 1, 'DROP_TABLE', 'dead', 3, 1, 'no', 2)",
                seq,
                b"\x80",
            )

    await meta.transact(work)
    first = (await admin.call("GET", "/webhooks/r/deliveries?page-size=2")).document
    assert [one["event"]["seq"] for one in first["deliveries"]] == [7, 8]
    assert first["deliveries"][0] == {
        "event": {
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
    }
    rest = (
        await admin.call("GET", f"/webhooks/r/deliveries?page-size=2&page-token={first['next-page-token']}")
    ).document
    assert [one["event"]["seq"] for one in rest["deliveries"]] == [9]
    assert "next-page-token" not in rest
    assert (await admin.call("POST", "/webhooks/r/redrive", {"seq": 8})).document == {"redriven": 1}
    assert (await admin.call("POST", "/webhooks/r/redrive")).document == {"redriven": 2}
    waiting = (await admin.call("GET", "/webhooks/r/deliveries?state=waiting")).document["deliveries"]
    assert [one["attempts"] for one in waiting] == [0, 0, 0]
    other = await admin.call("GET", f"/webhooks/r/deliveries?state=waiting&page-token={first['next-page-token']}")
    assert other.error == (400, "BadRequestException")


@pytest.mark.parametrize(
    ("method", "path", "document"),
    [
        ("PUT", "/webhooks/r", {"url": "not a url"}),
        ("PUT", "/webhooks/r", {"url": "http://elsewhere.example/"}),
        ("PUT", "/webhooks/r", {}),
        ("PUT", "/webhooks/r", {"url": URL, "kinds": ["a*b"]}),
        ("PUT", "/webhooks/r", {"url": URL, "secret": "short"}),
        ("PUT", "/webhooks/r", {"url": URL, "enabled": True}),
        ("PUT", "/webhooks/a%20b", {"url": URL}),
        ("GET", "/webhooks?name=r", None),
        ("GET", "/webhooks/r/deliveries?state=lost", None),
        ("POST", "/webhooks/r/redrive", {"all": True}),
    ],
)
async def test_bad_input_is_refused(admin: Admin, method: str, path: str, document: object) -> None:
    assert (await admin.call(method, path, document)).error == (400, "BadRequestException")


async def test_only_who_may_manage_webhooks_does(admin: Admin) -> None:
    keys = await admin.lake.user("reader", allow("lakebed:ReadEvents", "s3tables:*"))
    for method, path in (("GET", "/webhooks"), ("PUT", "/webhooks/r"), ("DELETE", "/webhooks/r")):
        answer = await admin.call(method, path, {"url": URL} if method == "PUT" else None, keys=keys)
        assert answer.error == (403, "ForbiddenException")
        assert "lakebed:ManageWebhooks" in answer.document["error"]["message"]
