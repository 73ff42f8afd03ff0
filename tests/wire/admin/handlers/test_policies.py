from __future__ import annotations

import json

import pytest

from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.lake import allow

COMPACTION = "system.data-compaction"
POLICY = "/policies/lake/ns/p"
POLICIES = "/polaris/v1/lake/namespaces/ns/policies"


async def create(admin: Admin, name: str = "p", kind: str = COMPACTION) -> None:
    document = {"name": name, "type": kind, "content": '{"enable": true}'}
    created = await admin.lake.send("POST", POLICIES, json.dumps(document).encode())
    assert created.status == 200, created.body


async def attach(admin: Admin, target: dict[str, object], name: str = "p") -> None:
    attached = await admin.lake.send("PUT", f"{POLICIES}/{name}/mappings", json.dumps({"target": target}).encode())
    assert attached.status == 204, attached.body


async def test_targets_of_a_policy_are_paged(admin: Admin) -> None:
    await create(admin)
    targets: list[dict[str, object]] = [
        {"type": "catalog"},
        {"type": "namespace", "path": ["ns"]},
        {"type": "table-like", "path": ["ns", "t"]},
    ]
    for target in targets:
        await attach(admin, target)
    now_ms = admin.lake.clock.now_ms()
    assert sorted(await admin.pages(f"{POLICY}/targets", "targets"), key=str) == sorted(
        (
            {"target": target, "attached-to": words, "parameters": {}, "attached-at-ms": now_ms}
            for target, words in zip(targets, ("catalog", "namespace ns", "table ns.t"), strict=True)
        ),
        key=str,
    )


async def test_effect_has_the_policies_before_and_after_and_the_reason(admin: Admin) -> None:
    await create(admin)
    await create(admin, "q")
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
    detached = (await admin.call("GET", "/policies/lake/ns/q/effect?change=detach")).document
    [change] = detached["affected"][0]["changes"]
    assert (change["from"]["name"], change["to"]) == ("q", None)
    assert change["why"] == f"no other policy of {COMPACTION} is attached to it or its parents"


async def test_effects_are_paged(admin: Admin) -> None:
    for name in ("u", "v", "w"):
        await admin.lake.table(name)
    await create(admin)
    affected = await admin.pages(f"{POLICY}/effect", "affected", size=1)
    assert sorted(one["name"] for one in affected) == ["t", "u", "v", "w"]
    token = (await admin.call("GET", f"{POLICY}/effect?page-size=1")).document["next-page-token"]
    foreign = await admin.call("GET", f"{POLICY}/effect?page-token={token}&namespace=ns")
    assert foreign.error == (400, "BadRequestException")


async def test_tables_without_a_policy_are_listed(admin: Admin) -> None:
    await admin.lake.table("u")
    await create(admin)
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
async def test_invalid_requests_are_refused(admin: Admin, path: str, error: tuple[int, str]) -> None:
    await create(admin)
    assert (await admin.call("GET", path)).error == error


async def test_policies_require_permissions(admin: Admin) -> None:
    await create(admin)
    unprivileged = await admin.lake.user("unprivileged", allow("s3tables:GetTable"))
    reader = await admin.lake.user("reader", allow("lakebed:ReadPolicy", "s3tables:Get*", "s3tables:List*"))
    for path in (f"{POLICY}/targets", f"{POLICY}/effect", "/tables/without-policy?warehouse=lake"):
        assert (await admin.call("GET", path, keys=unprivileged)).error == (403, "ForbiddenException")
        assert (await admin.call("GET", path, keys=None)).error == (401, "NotAuthorizedException")
        assert (await admin.call("GET", path, keys=reader)).status == 200
