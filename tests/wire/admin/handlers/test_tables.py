from __future__ import annotations

import json

import pytest

from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.handlers.tables_with_data import append, message
from tests.wire.iceberg.lake import allow

POLICIES = "/polaris/v1/lake/namespaces/ns/policies"


async def attach(admin: Admin, name: str, target: dict[str, object], **content: object) -> None:
    """Create a compaction policy and attach it to a target."""
    document = {
        "name": name,
        "type": "system.data-compaction",
        "content": json.dumps({"enable": True, **content}),
    }
    created = await admin.lake.send("POST", POLICIES, json.dumps(document).encode())
    assert created.status == 200, created.body
    attached = await admin.lake.send("PUT", f"{POLICIES}/{name}/mappings", json.dumps({"target": target}).encode())
    assert attached.status == 204, attached.body


async def test_health_is_measured_by_manifests_or_summaries(admin: Admin) -> None:
    for _ in range(3):
        await append(admin.lake)
    health = (await admin.call("GET", "/tables/lake/ns/t/health")).document
    assert (health["warehouse"], health["namespace"], health["table"]) == ("lake", ["ns"], "t")
    assert (health["snapshots"], health["data-files"], health["measured"]) == (3, 3, "manifests")
    listed = (await admin.call("GET", "/tables/health?warehouse=lake&namespace=ns")).document
    assert [(one["table"], one["measured"]) for one in listed["tables"]] == [("t", "summary")]


async def test_health_list_is_paged(admin: Admin) -> None:
    for name in ("u", "v"):
        await admin.lake.table(name)
    tables = await admin.pages("/tables/health?warehouse=lake", "tables")
    assert sorted(table["table"] for table in tables) == ["t", "u", "v"]


async def test_only_permitted_tables_are_listed(admin: Admin) -> None:
    await admin.lake.table("u")
    tables = (await admin.call("GET", "/tables/health?warehouse=lake")).document["tables"]
    (permitted,) = [one for one in tables if one["table"] == "u"]
    one = await admin.lake.user(
        "one",
        allow("s3tables:ListTables"),
        allow(
            "s3tables:GetTableMaintenanceConfiguration",
            resource=f"arn:aws:s3tables:*:*:bucket/lake/table/{permitted['entry']}",
        ),
    )
    listed = (await admin.call("GET", "/tables/health?warehouse=lake", keys=one)).document["tables"]
    assert [table["table"] for table in listed] == ["u"]


async def test_plan_previews_tasks_and_submits_them_on_request(admin: Admin) -> None:
    for _ in range(6):
        await append(admin.lake)
    assert (await admin.call("GET", "/tables/lake/ns/t/plan")).document == {
        "planned": [],
        "revised": [],
        "withdrawn": [],
        "quiet": [],
    }
    await attach(admin, "compact", {"type": "namespace", "path": ["ns"]})
    plan = (await admin.call("GET", "/tables/lake/ns/t/plan")).document
    (planned,) = plan["planned"]
    assert (planned["job"], planned["table"], planned["requested-by"]) == ("compact-table", "t", "scheduler")
    assert planned["policy"]["attached-to"] == "namespace ns"
    assert planned["policy"]["inherited"] is True
    assert "policy ns.compact v0, inherited from namespace ns" in planned["reason"]
    assert (await admin.call("GET", "/tasks")).document["tasks"] == []

    enacted = await admin.call("POST", "/tables/lake/ns/t/plan")
    assert enacted.status == 200
    (task,) = (await admin.call("GET", "/tasks")).document["tasks"]
    assert enacted.document["planned"] == plan["planned"]
    assert [(one["id"], one["order"]["job"]) for one in enacted.document["tasks"]] == [(task["id"], "compact-table")]
    repeated = (await admin.call("POST", "/tables/lake/ns/t/plan")).document
    assert repeated["planned"] == []
    assert "a task for it is open" in repeated["quiet"][0]["reason"]
    assert [one["id"] for one in repeated["tasks"]] == [task["id"]]


async def test_submitting_a_plan_requires_permission_to_maintain(admin: Admin) -> None:
    reader = await admin.lake.user("reader", allow("s3tables:GetTableMaintenanceConfiguration", "lakebed:SubmitTask"))
    assert (await admin.call("GET", "/tables/lake/ns/t/plan", keys=reader)).status == 200
    refused = await admin.call("POST", "/tables/lake/ns/t/plan", keys=reader)
    assert (refused.status, "s3tables:RunTableMaintenance" in message(refused)) == (403, True)


async def test_policies_of_a_table_have_the_reason(admin: Admin) -> None:
    await attach(admin, "far", {"type": "catalog"})
    await attach(admin, "near", {"type": "namespace", "path": ["ns"]})
    reader = await admin.lake.user("reader", allow("s3tables:GetTableMaintenanceConfiguration"))
    (applied,) = (await admin.call("GET", "/tables/lake/ns/t/policies", keys=reader)).document["policies"]
    assert (applied["name"], applied["policy-type"], applied["inherited"]) == ("near", "system.data-compaction", True)
    assert applied["attached-to"] == "namespace ns"
    assert [(one["name"], one["attached-to"]) for one in applied["overrides"]] == [("far", "catalog")]
    assert "inherited from namespace ns" in applied["reason"]


@pytest.mark.parametrize("resource", ["health", "plan", "policies"])
async def test_missing_table_namespace_or_catalog_is_not_found(admin: Admin, resource: str) -> None:
    for path, kind in (
        ("lake/ns/none", "NoSuchTableException"),
        ("lake/none/t", "NoSuchTableException"),
        ("none/ns/t", "NoSuchWarehouseException"),
    ):
        refused = await admin.call("GET", f"/tables/{path}/{resource}")
        if (resource, path) == ("policies", "lake/none/t"):
            kind = "NoSuchNamespaceException"
        assert refused.error == (404, kind), path
    assert (await admin.call("GET", f"/tables/lake/a%2Fb/t/{resource}")).status == 400
    assert (await admin.call("GET", f"/tables/lake/ns/t/{resource}?detail=1")).status == 400


@pytest.mark.parametrize(
    ("query", "status", "expected"),
    [
        ("", 400, "warehouse is required"),
        ("namespace=ns", 400, "warehouse is required"),
        ("warehouse=none", 404, "none"),
        ("warehouse=lake&namespace=none", 404, "none"),
        ("warehouse=lake&namespace=a%2Fb", 400, "slash"),
        ("warehouse=lake&page-size=9999", 400, "page-size"),
        ("warehouse=lake&page-token=x", 400, "page token"),
    ],
)
async def test_invalid_queries_are_refused(admin: Admin, query: str, status: int, expected: str) -> None:
    refused = await admin.call("GET", f"/tables/health?{query}")
    assert refused.status == status
    assert expected in message(refused)
