from __future__ import annotations

from typing import Any

import pytest

from tests.wire.iceberg.lake import allow

from .policy_lake import CATALOG, COMPACTION, EXPIRY, NAMESPACE, OFF, TABLE, VIEW, PolicyLake

MAPPINGS = "/namespaces/ns/policies/p/mappings"
OF_TABLE = "?namespace=ns&target-name=t"
OF_VIEW = "?namespace=ns&target-name=v"


@pytest.mark.parametrize(
    ("target", "query"),
    [
        (CATALOG, ""),
        ({"type": "catalog", "path": []}, ""),
        (NAMESPACE, "?namespace=ns"),
        (TABLE, OF_TABLE),
        (VIEW, OF_VIEW),
    ],
)
async def test_policy_is_attached_and_detached(policies: PolicyLake, target: dict[str, Any], query: str) -> None:
    await policies.create()
    attached = await policies.attach(target, mode="quick")
    assert (attached.status, attached.body) == (204, b"")
    [found] = await policies.applicable(query)
    assert (found["name"], found["inherited"], found["parameters"]) == ("p", False, {"mode": "quick"})
    detached = await policies.call("POST", MAPPINGS, {"target": target})
    assert (detached.status, detached.body) == (204, b"")
    assert await policies.applicable(query) == []
    repeated = await policies.call("POST", MAPPINGS, {"target": target})
    assert repeated.error == (404, "NoSuchMappingException")


async def test_applicable_policies_have_the_reason(policies: PolicyLake) -> None:
    await policies.create(description="for all")
    await policies.create("quiet", content=OFF)
    await policies.create("expire", EXPIRY)
    await policies.attach(CATALOG)
    await policies.attach(NAMESPACE, "quiet", note="on request")
    await policies.attach(TABLE, "expire")
    assert await policies.applicable(OF_TABLE) == [
        {
            "policy-type": COMPACTION,
            "inheritable": True,
            "name": "quiet",
            "content": OFF,
            "version": 0,
            "inherited": True,
            "namespace": ["ns"],
            "attached-to": "namespace ns",
            "target": NAMESPACE,
            "parameters": {"note": "on request"},
            "overrides": [
                {
                    "namespace": ["ns"],
                    "name": "p",
                    "version": 0,
                    "attached-to": "catalog",
                    "target": CATALOG,
                }
            ],
            "reason": "policy ns.quiet v0, inherited from namespace ns, over ns.p v0 of catalog",
        },
        {
            "policy-type": EXPIRY,
            "inheritable": True,
            "name": "expire",
            "content": '{"enable": true}',
            "version": 0,
            "inherited": False,
            "namespace": ["ns"],
            "attached-to": "table ns.t",
            "target": TABLE,
            "parameters": {},
            "overrides": [],
            "reason": "policy ns.expire v0, attached to table ns.t",
        },
    ]
    assert [one["name"] for one in await policies.applicable(OF_VIEW)] == ["quiet"]
    assert [one["name"] for one in await policies.applicable(f"{OF_TABLE}&policyType={EXPIRY}")] == ["expire"]
    assert [one["name"] for one in await policies.applicable()] == ["p"]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("?namespace=none", (404, "NoSuchNamespaceException")),
        ("?namespace=none&target-name=t", (404, "NoSuchNamespaceException")),
        ("?namespace=ns&target-name=none", (404, "NoSuchTableException")),
        ("?target-name=t", (400, "BadRequestException")),
        ("?policyType=system.nothing", (400, "BadRequestException")),
        ("?pageToken=nonsense", (400, "BadRequestException")),
        ("?pageToken=&pageSize=0", (400, "BadRequestException")),
    ],
)
async def test_invalid_queries_are_refused(policies: PolicyLake, query: str, error: tuple[int, str]) -> None:
    assert (await policies.call("GET", f"/applicable-policies{query}")).error == error


async def test_applicable_policies_are_paged(policies: PolicyLake) -> None:
    note = {"name": "user.note", "schema": {}, "inheritable": False}
    assert (await policies.call("POST", "/policy-types", note)).status == 200
    for name in ("d", "b", "c", "a"):
        await policies.create(name, "user.note", "{}")
        await policies.attach(TABLE, name)
    await policies.create()
    await policies.attach(CATALOG)
    applicable = await policies.pages(f"/applicable-policies{OF_TABLE}", "applicable-policies")
    assert [one["name"] for one in applicable] == ["a", "b", "c", "d", "p"]
    assert len(await policies.applicable(OF_TABLE)) == 5


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({}, (400, "BadRequestException")),
        ({"target": {}}, (400, "BadRequestException")),
        ({"target": {"type": "table", "path": ["ns", "t"]}}, (400, "BadRequestException")),
        ({"target": {"type": "catalog", "path": ["ns"]}}, (400, "BadRequestException")),
        ({"target": {"type": "namespace"}}, (400, "BadRequestException")),
        ({"target": {"type": "namespace", "path": []}}, (400, "BadRequestException")),
        ({"target": {"type": "namespace", "path": [""]}}, (400, "BadRequestException")),
        ({"target": {"type": "table-like", "path": ["t"]}}, (400, "BadRequestException")),
        ({"target": {"type": "table-like", "path": ["ns", ""]}}, (400, "BadRequestException")),
        ({"target": {"type": "table-like", "path": ["ns", 5]}}, (400, "BadRequestException")),
        ({"target": {"type": "namespace", "path": ["none"]}}, (404, "NoSuchTargetException")),
        ({"target": {"type": "table-like", "path": ["ns", "none"]}}, (404, "NoSuchTargetException")),
        ({"target": {"type": "table-like", "path": ["none", "t"]}}, (404, "NoSuchTargetException")),
    ],
)
async def test_invalid_targets_are_refused(policies: PolicyLake, document: Any, error: tuple[int, str]) -> None:
    await policies.create()
    assert (await policies.call("PUT", MAPPINGS, document)).error == error
    assert (await policies.call("POST", MAPPINGS, document)).error == error


async def test_invalid_attachments_are_refused(policies: PolicyLake) -> None:
    assert (await policies.attach(CATALOG)).error == (404, "NoSuchPolicyException")
    assert (await policies.call("POST", MAPPINGS, {"target": CATALOG})).error == (404, "NoSuchPolicyException")
    await policies.create()
    await policies.create("q")
    await policies.attach(CATALOG)
    assert (await policies.attach(CATALOG, "q")).error == (409, "ConflictPolicyAttachmentException")
    bad = {"target": CATALOG, "parameters": {"a": 1}}
    assert (await policies.call("PUT", MAPPINGS, bad)).error == (400, "BadRequestException")
    assert (await policies.call("PUT", MAPPINGS, {"target": CATALOG, "parameters": None})).status == 204
    tables = {"name": "tables-only", "schema": {}, "targets": ["table"]}
    assert (await policies.call("POST", "/policy-types", tables)).status == 200
    await policies.create("t", "tables-only", "{}")
    for target in (CATALOG, NAMESPACE, VIEW):
        assert (await policies.attach(target, "t")).error == (400, "PolicyAttachException")
    assert (await policies.attach(TABLE, "t")).status == 204


async def test_targets_of_a_policy_are_listed(policies: PolicyLake) -> None:
    await policies.create()
    for target in (CATALOG, NAMESPACE, TABLE, VIEW):
        await policies.attach(target, note="n")
    listed = (await policies.call("GET", MAPPINGS)).document
    assert {one["attached-to"] for one in listed["mappings"]} == {"catalog", "namespace ns", "table ns.t", "view ns.v"}
    assert listed["next-page-token"] is None
    for one in listed["mappings"]:
        assert one["parameters"] == {"note": "n"}
        assert one["attached-at-ms"] == policies.lake.clock.now_ms()
        assert (await policies.call("POST", MAPPINGS, {"target": one["target"]})).status == 204
    assert (await policies.call("GET", MAPPINGS)).document["mappings"] == []
    page = await policies.call("GET", f"{MAPPINGS}?pageToken=&pageSize=2")
    assert page.document == {"mappings": [], "next-page-token": None}


async def test_applicable_policies_require_permission_on_the_target(policies: PolicyLake) -> None:
    reader = await policies.lake.user("reader", allow("s3tables:Get*"))
    for query in ("", "?namespace=ns", OF_TABLE, OF_VIEW):
        assert (await policies.call("GET", f"/applicable-policies{query}", keys=reader)).status == 200
    writer = await policies.lake.user("writer", allow("lakebed:*"))
    for query in ("", "?namespace=ns", "?namespace=none", OF_TABLE):
        refused = await policies.call("GET", f"/applicable-policies{query}", keys=writer)
        assert refused.error == (403, "ForbiddenException")
