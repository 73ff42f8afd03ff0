from __future__ import annotations

from typing import Any

import pytest

from tests.wire.admin.conftest import Admin
from tests.wire.iceberg.handlers.grown import message
from tests.wire.iceberg.lake import allow


async def test_what_is_asked_for_is_shown_until_it_is_done(admin: Admin) -> None:
    made = await admin.submit(checksums="true")
    task: dict[str, Any] = made.document
    assert made.status == 201
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


async def test_lists_are_of_one_state_and_kind_and_go_on_by_token(admin: Admin) -> None:
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
        ("state=sleeping", "state is one of ready, claimed, done, dead"),
        ("kind=bake-bread", "kind is one of compact-table"),
        ("page-size=0", "page-size is a whole number from 1 to 1000"),
        ("page-size=x", "page-size is a whole number"),
        ("page-token=nonsense", "invalid page token"),
        ("stat=dead", "no such parameter: stat. known=state, kind, page-token, page-size"),
        ("state=dead&state=done", "state is given more than once"),
    ],
)
async def test_a_question_that_means_nothing_is_told_so(admin: Admin, query: str, expected: str) -> None:
    refused = await admin.call("GET", f"/tasks?{query}")
    assert refused.error == (400, "BadRequestException")
    assert expected in message(refused)


@pytest.mark.parametrize(
    ("order", "expected"),
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
async def test_an_order_that_means_nothing_is_told_where_it_is_wrong(
    admin: Admin, order: object, expected: str
) -> None:
    document = order
    if isinstance(order, dict) and len(order) > 1:
        document = {"warehouse": "lake", "namespace": ["ns"], "table": "t", **order}
    refused = await admin.call("POST", "/tasks", document)
    assert refused.status == 400
    assert expected in message(refused)


async def test_what_is_not_there_is_not_found(admin: Admin) -> None:
    for path in ("/tasks/999", "/tasks/0", "/tasks/x", "/tasks/99999999999999999999"):
        assert (await admin.call("GET", path)).error == (404, "NoSuchResourceException")
    assert (await admin.call("POST", "/tasks/999/redrive")).status == 404
    assert (await admin.submit(table="none")).error == (404, "NoSuchTableException")
    alive = (await admin.submit()).document["id"]
    assert (await admin.call("POST", f"/tasks/{alive}/redrive")).status == 404
    assert (await admin.call("GET", "/nothing")).status == 404
    assert (await admin.call("DELETE", f"/tasks/{alive}")).status == 405


async def test_what_is_done_to_dropped_tables_is_not_among_the_pipelines_tasks(admin: Admin) -> None:
    dropped = await admin.lake.call("DELETE", "/lake/namespaces/ns/tables/t?purgeRequested=true")
    assert dropped.status == 204
    assert await admin.lake.store.object_context.meta.row("SELECT id FROM tasks") is not None
    assert (await admin.call("GET", "/tasks")).document["tasks"] == []


async def test_a_dead_task_is_given_its_attempts_again(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    await admin.lease("verify-table")
    failed = await admin.call("POST", f"/tasks/{task}/fail", {"token": 1, "reason": "no java", "retry": False})
    assert failed.document == {"state": "dead"}
    dead = (await admin.call("GET", f"/tasks/{task}")).document
    assert (dead["state"], dead["failure"]) == ("dead", "no java")
    again = await admin.call("POST", f"/tasks/{task}/redrive")
    assert (again.status, again.document["state"], again.document["attempts"]) == (200, "ready", 0)


async def test_nobody_gets_in_unsigned_or_without_the_right(admin: Admin) -> None:
    task = (await admin.submit()).document["id"]
    order = {"job": "verify-table", "warehouse": "lake", "namespace": ["ns"], "table": "t"}
    lease = {"worker": "w", "lease-seconds": 60}
    requests = [
        ("GET", "/tasks", None, "lakebed:ListTasks"),
        ("GET", f"/tasks/{task}", None, "lakebed:ListTasks"),
        ("POST", "/tasks", order, "lakebed:SubmitTask"),
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
    nobody = await admin.lake.user("nobody")
    for method, path, document, action in requests:
        unsigned = await admin.call(method, path, document, keys=None)
        assert unsigned.error == (401, "NotAuthorizedException"), path
        denied = await admin.call(method, path, document, keys=nobody)
        assert denied.error == (403, "ForbiddenException"), path
        assert action in message(denied)
    other_rights = sorted({action for *_, action in requests})
    for method, path, document, action in requests:
        most = await admin.lake.user(
            f"but-{method}-{path}".replace("/", "-").replace("?", "-").replace("=", "-"),
            allow(*(other for other in other_rights if other != action)),
        )
        assert (await admin.call(method, path, document, keys=most)).status == 403, path


async def test_asking_for_work_takes_the_right_to_maintain_the_table_too(admin: Admin) -> None:
    order = {"job": "verify-table", "warehouse": "lake", "namespace": ["ns"], "table": "t"}
    asker = await admin.lake.user("asker", allow("lakebed:SubmitTask"))
    refused = await admin.call("POST", "/tasks", order, keys=asker)
    assert refused.status == 403
    assert "s3tables:RunTableMaintenance" in message(refused)
    owner = await admin.lake.user("owner", allow("lakebed:SubmitTask", "s3tables:RunTableMaintenance"))
    made = await admin.call("POST", "/tasks", order, keys=owner)
    assert (made.status, made.document["order"]["requested-by"]) == (201, "owner")
