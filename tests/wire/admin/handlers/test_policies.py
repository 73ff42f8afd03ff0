from __future__ import annotations

import json

import pytest

from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.lake import allow

COMPACTION = "system.data-compaction"
POLICY = "/policies/lake/ns/p"
HOME = "/polaris/v1/lake/namespaces/ns/policies"


async def make(admin: Admin, name: str = "p", kind: str = COMPACTION) -> None:
    document = {"name": name, "type": kind, "content": '{"enable": true}'}
    made = await admin.lake.send("POST", HOME, json.dumps(document).encode())
    assert made.status == 200, made.body


async def attach(admin: Admin, target: dict[str, object], name: str = "p") -> None:
    attached = await admin.lake.send("PUT", f"{HOME}/{name}/mappings", json.dumps({"target": target}).encode())
    assert attached.status == 204, attached.body


async def test_targets_of_a_policy_come_in_pages(admin: Admin) -> None:
    await make(admin)
    targets: list[dict[str, object]] = [
        {"type": "catalog"},
        {"type": "namespace", "path": ["ns"]},
        {"type": "table-like", "path": ["ns", "t"]},
    ]
    for target in targets:
        await attach(admin, target)
    seen: list[object] = []
    token = ""
    while True:
        page = (await admin.call("GET", f"{POLICY}/targets?page-size=2&page-token={token}")).document
        assert len(page["targets"]) <= 2
        seen += page["targets"]
        token = page.get("next-page-token", "")
        if not token:
            break
    now_ms = admin.lake.clock.now_ms()
    assert sorted(seen, key=str) == sorted(
        (
            {"target": target, "attached-to": words, "parameters": {}, "attached-at-ms": now_ms}
            for target, words in zip(targets, ("catalog", "namespace ns", "table ns.t"), strict=True)
        ),
        key=str,
    )


async def test_effect_tells_from_what_to_what_and_why(admin: Admin) -> None:
    await make(admin)
    await make(admin, "q")
    await attach(admin, {"type": "catalog"}, "q")
    before = await admin.lake.store.object_context.outbox.last_seq(admin.lake.store.meta)
    answer = (await admin.call("GET", f"{POLICY}/effect?namespace=ns&target-name=t")).document
    assert answer["policy"] == {"namespace": ["ns"], "name": "p", "policy-type": COMPACTION, "version": 0}
    assert (answer["change"], answer["examined"]) == ("attach", 1)
    assert answer["target"] == {"type": "table-like", "path": ["ns", "t"]}
    [affected] = answer["affected"]
    assert (affected["kind"], affected["namespace"], affected["name"]) == ("table", ["ns"], "t")
    [change] = affected["changes"]
    assert (change["policy-type"], change["from"]["name"], change["to"]["name"]) == (COMPACTION, "q", "p")
    assert change["why"] == "policy ns.p v0, attached to table ns.t, over ns.q v0 of catalog"
    assert await admin.lake.store.object_context.outbox.last_seq(admin.lake.store.meta) == before
    gone = (await admin.call("GET", "/policies/lake/ns/q/effect?change=detach")).document
    [change] = gone["affected"][0]["changes"]
    assert (change["from"]["name"], change["to"]) == ("q", None)
    assert change["why"] == f"no other policy of {COMPACTION} is attached to it, or to what it is in"


async def test_effects_go_on_by_token(admin: Admin) -> None:
    for name in ("u", "v", "w"):
        await admin.lake.table(name)
    await make(admin)
    seen: list[str] = []
    token = ""
    while True:
        page = (await admin.call("GET", f"{POLICY}/effect?page-size=1&page-token={token}")).document
        seen += [one["name"] for one in page["affected"]]
        token = page.get("next-page-token", "")
        if not token:
            break
    assert sorted(seen) == ["t", "u", "v", "w"]
    token = (await admin.call("GET", f"{POLICY}/effect?page-size=1")).document["next-page-token"]
    foreign = await admin.call("GET", f"{POLICY}/effect?page-token={token}&namespace=ns")
    assert foreign.error == (400, "BadRequestException")


async def test_tables_without_a_policy_are_listed(admin: Admin) -> None:
    await admin.lake.table("u")
    await make(admin)
    await attach(admin, {"type": "table-like", "path": ["ns", "t"]})
    answer = (await admin.call("GET", "/tables/without-policy?warehouse=lake")).document
    assert ([one["table"] for one in answer["tables"]], answer["examined"]) == (["u"], 2)
    of_type = await admin.call("GET", f"/tables/without-policy?warehouse=lake&namespace=ns&type={COMPACTION}")
    assert [one["table"] for one in of_type.document["tables"]] == ["u"]
    other = await admin.call("GET", "/tables/without-policy?warehouse=lake&type=system.snapshot-expiry&page-size=1")
    assert len(other.document["tables"]) == 1
    token = other.document["next-page-token"]
    rest = await admin.call(
        "GET", f"/tables/without-policy?warehouse=lake&type=system.snapshot-expiry&page-size=1&page-token={token}"
    )
    assert {one["table"] for one in (*other.document["tables"], *rest.document["tables"])} == {"t", "u"}


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/policies/lake/ns/none/targets", (404, "NoSuchPolicyException")),
        ("/policies/none/ns/p/targets", (404, "NoSuchWarehouseException")),
        ("/policies/lake/ns/p/targets?page-token=x", (400, "BadRequestException")),
        ("/policies/lake/ns/none/effect", (404, "NoSuchPolicyException")),
        ("/policies/lake/ns/p/effect?change=perhaps", (400, "BadRequestException")),
        ("/policies/lake/ns/p/effect?target-name=t", (400, "BadRequestException")),
        ("/policies/lake/ns/p/effect?namespace=none", (404, "NoSuchTargetException")),
        ("/policies/lake/ns/p/effect?change=detach", (404, "NoSuchMappingException")),
        ("/tables/without-policy", (400, "BadRequestException")),
        ("/tables/without-policy?warehouse=lake&namespace=none", (404, "NoSuchNamespaceException")),
        ("/tables/without-policy?warehouse=lake&type=none", (400, "BadRequestException")),
        ("/tables/without-policy?warehouse=lake&kind=table", (400, "BadRequestException")),
    ],
)
async def test_questions_that_make_no_sense(admin: Admin, path: str, error: tuple[int, str]) -> None:
    await make(admin)
    assert (await admin.call("GET", path)).error == error


async def test_rights_are_asked_for(admin: Admin) -> None:
    await make(admin)
    nobody = await admin.lake.user("nobody", allow("s3tables:GetTable"))
    reader = await admin.lake.user("reader", allow("lakebed:ReadPolicy", "s3tables:Get*", "s3tables:List*"))
    for path in (f"{POLICY}/targets", f"{POLICY}/effect", "/tables/without-policy?warehouse=lake"):
        assert (await admin.call("GET", path, keys=nobody)).error == (403, "ForbiddenException")
        assert (await admin.call("GET", path, keys=None)).error == (401, "NotAuthorizedException")
        assert (await admin.call("GET", path, keys=reader)).status == 200
