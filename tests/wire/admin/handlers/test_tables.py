from __future__ import annotations

import json

import pytest

from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.handlers.grown import append, message
from tests.wire.iceberg.lake import allow

POLICIES = "/polaris/v1/lake/namespaces/ns/policies"


async def attach(admin: Admin, name: str, target: dict[str, object], **content: object) -> None:
    """Make a policy about compaction, and have it hold for a target."""
    document = {
        "name": name,
        "type": "system.data-compaction",
        "content": json.dumps({"enable": True, **content}),
    }
    made = await admin.lake.send("POST", POLICIES, json.dumps(document).encode())
    assert made.status == 200, made.body
    attached = await admin.lake.send("PUT", f"{POLICIES}/{name}/mappings", json.dumps({"target": target}).encode())
    assert attached.status == 204, attached.body


async def test_health_tells_of_a_table_by_its_files(admin: Admin) -> None:
    for _ in range(3):
        await append(admin.lake)
    health = (await admin.call("GET", "/tables/lake/ns/t/health")).document
    assert (health["warehouse"], health["namespace"], health["table"]) == ("lake", ["ns"], "t")
    assert (health["snapshots"], health["data-files"], health["measured"]) == (3, 3, "manifests")
    listed = (await admin.call("GET", "/tables/health?warehouse=lake&namespace=ns")).document
    assert [(one["table"], one["measured"]) for one in listed["tables"]] == [("t", "summary")]


async def test_healths_go_on_by_token(admin: Admin) -> None:
    for name in ("u", "v"):
        await admin.lake.table(name)
    seen: list[str] = []
    token = ""
    while True:
        page = (await admin.call("GET", f"/tables/health?warehouse=lake&page-size=2&page-token={token}")).document
        seen += [table["table"] for table in page["tables"]]
        token = page.get("next-page-token", "")
        if not token:
            break
    assert sorted(seen) == ["t", "u", "v"]


async def test_only_tables_that_the_caller_may_look_at_are_listed(admin: Admin) -> None:
    await admin.lake.table("u")
    everything = (await admin.call("GET", "/tables/health?warehouse=lake")).document["tables"]
    (shown,) = [one for one in everything if one["table"] == "u"]
    one = await admin.lake.user(
        "one",
        allow("s3tables:ListTables"),
        allow(
            "s3tables:GetTableMaintenanceConfiguration",
            resource=f"arn:aws:s3tables:*:*:bucket/lake/table/{shown['entry']}",
        ),
    )
    listed = (await admin.call("GET", "/tables/health?warehouse=lake", keys=one)).document["tables"]
    assert [table["table"] for table in listed] == ["u"]


async def test_a_plan_tells_what_would_be_done_and_does_nothing(admin: Admin) -> None:
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
    again = (await admin.call("POST", "/tables/lake/ns/t/plan")).document
    assert again["planned"] == []
    assert "a task for it is open" in again["quiet"][0]["reason"]
    assert [one["id"] for one in again["tasks"]] == [task["id"]]


async def test_planning_at_once_takes_the_right_to_maintain(admin: Admin) -> None:
    looker = await admin.lake.user("looker", allow("s3tables:GetTableMaintenanceConfiguration", "lakebed:SubmitTask"))
    assert (await admin.call("GET", "/tables/lake/ns/t/plan", keys=looker)).status == 200
    refused = await admin.call("POST", "/tables/lake/ns/t/plan", keys=looker)
    assert (refused.status, "s3tables:RunTableMaintenance" in message(refused)) == (403, True)


async def test_policies_of_a_table_tell_why_they_hold(admin: Admin) -> None:
    await attach(admin, "far", {"type": "catalog"})
    await attach(admin, "near", {"type": "namespace", "path": ["ns"]})
    looker = await admin.lake.user("looker", allow("s3tables:GetTableMaintenanceConfiguration"))
    (held,) = (await admin.call("GET", "/tables/lake/ns/t/policies", keys=looker)).document["policies"]
    assert (held["name"], held["policy-type"], held["inherited"]) == ("near", "system.data-compaction", True)
    assert held["attached-to"] == "namespace ns"
    assert [(one["name"], one["attached-to"]) for one in held["overrides"]] == [("far", "catalog")]
    assert "inherited from namespace ns" in held["reason"]


@pytest.mark.parametrize("word", ["health", "plan", "policies"])
async def test_what_is_not_there_is_named(admin: Admin, word: str) -> None:
    for path, kind in (
        ("lake/ns/none", "NoSuchTableException"),
        ("lake/none/t", "NoSuchTableException"),
        ("none/ns/t", "NoSuchWarehouseException"),
    ):
        refused = await admin.call("GET", f"/tables/{path}/{word}")
        if (word, path) == ("policies", "lake/none/t"):
            kind = "NoSuchNamespaceException"
        assert refused.error == (404, kind), path
    assert (await admin.call("GET", f"/tables/lake/a%2Fb/t/{word}")).status == 400
    assert (await admin.call("GET", f"/tables/lake/ns/t/{word}?detail=1")).status == 400


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
async def test_a_question_about_nothing_is_told_so(admin: Admin, query: str, status: int, expected: str) -> None:
    refused = await admin.call("GET", f"/tables/health?{query}")
    assert refused.status == status
    assert expected in message(refused)
