from __future__ import annotations

from typing import Any

import pytest

from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.handlers.tables_with_data import message
from tests.wire.iceberg.lake import allow


async def test_submitted_task_is_returned_until_it_is_done(admin: Admin) -> None:
    submitted = await admin.submit(checksums="true")
    task: dict[str, Any] = submitted.document
    assert submitted.status == 201
    assert (task["kind"], task["state"], task["attempts"]) == ("verify-table", "ready", 0)
    assert task["order"]["options"] == {"checksums": True}
    assert task["order"]["requested-by"] == "root"
    assert "token" not in task
    assert (await admin.submit()).status == 200
    assert (await admin.call("GET", f"/tasks/{task['id']}")).document == task
    (leased,) = (await admin.lease("verify-table")).document["tasks"]
    assert (leased["id"], leased["worker"], leased["token"]) == (task["id"], "w", 1)
    report = {"read": {"files": 1}, "skipped": [{"what": "a", "reason": "b"}]}
    ended = await admin.call("POST", f"/tasks/{task['id']}/complete", {"token": 1, "report": report})
    assert (ended.status, ended.body) == (204, b"")
    done = (await admin.call("GET", f"/tasks/{task['id']}")).document
    assert (done["state"], done["report"]) == ("done", report)
    assert "token" not in done


async def test_tasks_are_filtered_by_state_and_kind_and_paged(admin: Admin) -> None:
    ids = [(await admin.submit(job)).document["id"] for job in ("verify-table", "compact-table", "rewrite-layout")]
    first = (await admin.call("GET", "/tasks?page-size=2")).document
    assert [task["id"] for task in first["tasks"]] == ids[:2]
    rest = (await admin.call("GET", f"/tasks?page-size=2&page-token={first['next-page-token']}")).document
    assert [task["id"] for task in rest["tasks"]] == ids[2:]
    assert "next-page-token" not in rest
    await admin.lease("compact-table")
    for query, expected in (("state=claimed", ids[1:2]), ("kind=rewrite-layout", ids[2:]), ("state=dead", [])):
        found = (await admin.call("GET", f"/tasks?{query}")).document["tasks"]
        assert [task["id"] for task in found] == expected
    mixed = await admin.call("GET", f"/tasks?state=ready&page-token={first['next-page-token']}")
    assert mixed.status == 400
    assert "belongs to a different listing" in message(mixed)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=sleeping", "state must be one of ready, claimed, done, dead"),
        ("kind=bake-bread", "kind must be one of compact-table"),
        ("page-size=0", "page-size must be a whole number from 1 to 1000"),
        ("page-size=x", "page-size must be a whole number"),
        ("page-token=nonsense", "invalid page token"),
        ("stat=dead", "unknown parameter: stat. expected=state, kind, page-token, page-size"),
        ("state=dead&state=done", "state is given more than once"),
    ],
)
async def test_invalid_queries_are_refused(admin: Admin, query: str, expected: str) -> None:
    refused = await admin.call("GET", f"/tasks?{query}")
    assert refused.error == (400, "BadRequestException")
    assert expected in message(refused)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"job": "verify-table"}, "namespace"),
        ({"job": "bake-bread", "table": "t"}, "$.job"),
        ({"job": "verify-table", "tabel": "t"}, "tabel"),
        ({"job": "verify-table", "options": {"checksums": "perhaps"}}, "checksums must be true or false"),
        ({"job": "verify-table", "options": {"speed": 1}}, "no option 'speed'"),
        ({"job": "verify-table", "entry": "x", "cost": {}}, "$.cost"),
        ({"job": "verify-table", "requested-by": "x"}, "must be left out: requested-by"),
        ([], "Expected `object`"),
        ("nul \0", "nul"),
    ],
)
async def test_invalid_tasks_are_refused_with_the_field(admin: Admin, spec: object, expected: str) -> None:
    document = spec
    if isinstance(spec, dict) and len(spec) > 1:
        document = {"warehouse": "lake", "namespace": ["ns"], "table": "t", **spec}
    refused = await admin.call("POST", "/tasks", document)
    assert refused.status == 400
    assert expected in message(refused)


async def test_unknown_tasks_tables_and_paths_are_not_found(admin: Admin) -> None:
    for path in ("/tasks/999", "/tasks/0", "/tasks/x", "/tasks/99999999999999999999"):
        assert (await admin.call("GET", path)).error == (404, "NoSuchResourceException")
    assert (await admin.call("POST", "/tasks/999/redrive")).status == 404
    assert (await admin.submit(table="none")).error == (404, "NoSuchTableException")
    ready = (await admin.submit()).document["id"]
    assert (await admin.call("POST", f"/tasks/{ready}/redrive")).status == 404
    assert (await admin.call("GET", "/nothing")).status == 404
    assert (await admin.call("DELETE", f"/tasks/{ready}")).status == 405


async def test_purge_of_a_dropped_table_is_not_a_maintenance_task(admin: Admin) -> None:
    dropped = await admin.lake.call("DELETE", "/lake/namespaces/ns/tables/t?purgeRequested=true")
    assert dropped.status == 204
    assert await admin.lake.store.object_context.meta.row("SELECT id FROM tasks") is not None
    assert (await admin.call("GET", "/tasks")).document["tasks"] == []


async def test_redrive_resets_the_attempts_of_a_dead_task(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    await admin.lease("verify-table")
    failed = await admin.call("POST", f"/tasks/{task}/fail", {"token": 1, "reason": "no java", "retry": False})
    assert failed.document == {"state": "dead"}
    dead = (await admin.call("GET", f"/tasks/{task}")).document
    assert (dead["state"], dead["failure"]) == ("dead", "no java")
    redriven = await admin.call("POST", f"/tasks/{task}/redrive")
    assert (redriven.status, redriven.document["state"], redriven.document["attempts"]) == (200, "ready", 0)


async def test_every_route_requires_a_signature_and_its_permission(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    spec = {"job": "verify-table", "warehouse": "lake", "namespace": ["ns"], "table": "t"}
    lease = {"worker": "w", "lease-seconds": 60}
    requests = [
        ("GET", "/tasks", None, "lakebed:ListTasks"),
        ("GET", f"/tasks/{task}", None, "lakebed:ListTasks"),
        ("POST", "/tasks", spec, "lakebed:SubmitTask"),
        ("POST", f"/tasks/{task}/redrive", None, "lakebed:SubmitTask"),
        ("POST", "/tasks/claim", lease, "lakebed:RunTasks"),
        ("POST", f"/tasks/{task}/heartbeat", {"token": 1, "lease-seconds": 9}, "lakebed:RunTasks"),
        ("POST", f"/tasks/{task}/complete", {"token": 1, "report": {}}, "lakebed:RunTasks"),
        ("POST", f"/tasks/{task}/fail", {"token": 1, "reason": ""}, "lakebed:RunTasks"),
        ("GET", "/events", None, "lakebed:ReadEvents"),
        ("GET", "/audit", None, "lakebed:ReadAudit"),
        ("GET", "/tables/health?warehouse=lake", None, "s3tables:ListTables"),
        ("GET", "/tables/lake/ns/t/health", None, "s3tables:GetTableMaintenanceConfiguration"),
        ("GET", "/tables/lake/ns/t/plan", None, "s3tables:GetTableMaintenanceConfiguration"),
        ("POST", "/tables/lake/ns/t/plan", None, "lakebed:SubmitTask"),
        ("GET", "/tables/lake/ns/t/policies", None, "s3tables:GetTableMaintenanceConfiguration"),
    ]
    unprivileged = await admin.lake.user("unprivileged")
    for method, path, document, action in requests:
        unsigned = await admin.call(method, path, document, keys=None)
        assert unsigned.error == (401, "NotAuthorizedException"), path
        denied = await admin.call(method, path, document, keys=unprivileged)
        assert denied.error == (403, "ForbiddenException"), path
        assert action in message(denied)
    actions = sorted({action for *_, action in requests})
    for method, path, document, action in requests:
        most = await admin.lake.user(
            f"but-{method}-{path}".replace("/", "-").replace("?", "-").replace("=", "-"),
            allow(*(other for other in actions if other != action)),
        )
        assert (await admin.call(method, path, document, keys=most)).status == 403, path


async def test_submitting_a_task_requires_permission_to_maintain_the_table(admin: Admin) -> None:
    spec = {"job": "verify-table", "warehouse": "lake", "namespace": ["ns"], "table": "t"}
    submitter = await admin.lake.user("submitter", allow("lakebed:SubmitTask"))
    refused = await admin.call("POST", "/tasks", spec, keys=submitter)
    assert refused.status == 403
    assert "s3tables:RunTableMaintenance" in message(refused)
    owner = await admin.lake.user("owner", allow("lakebed:SubmitTask", "s3tables:RunTableMaintenance"))
    submitted = await admin.call("POST", "/tasks", spec, keys=owner)
    assert (submitted.status, submitted.document["order"]["requested-by"]) == (201, "owner")
