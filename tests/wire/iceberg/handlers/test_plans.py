from __future__ import annotations

import pytest

from tests.wire.iceberg.lake import Lake

from .tables_with_data import TABLE, table_with_data

PLAN = TABLE + "/plan"


async def test_small_plan_completes_at_once_and_can_be_fetched(lake: Lake) -> None:
    await table_with_data(lake)
    planned = await lake.call("POST", PLAN, {})
    assert planned.status == 200
    assert planned.document["status"] == "completed"
    files = planned.document["file-scan-tasks"]
    assert len(files) >= 1
    assert all(task["data-file"]["file-path"].startswith("s3://lake/") for task in files)
    fetched = await lake.call("GET", f"{PLAN}/{planned.document['plan-id']}")
    assert fetched.document == planned.document


async def test_filter_without_matches_plans_no_files(lake: Lake) -> None:
    await table_with_data(lake)
    nothing = await lake.call("POST", PLAN, {"filter": False})
    assert nothing.document["file-scan-tasks"] == []


async def test_cancelled_plan_is_reported_as_cancelled(lake: Lake) -> None:
    await table_with_data(lake)
    plan_id = (await lake.call("POST", PLAN, {})).document["plan-id"]
    assert (await lake.call("DELETE", f"{PLAN}/{plan_id}")).status == 204
    assert (await lake.call("GET", f"{PLAN}/{plan_id}")).document["status"] == "cancelled"


async def test_missing_plans_and_tasks_are_not_found(lake: Lake) -> None:
    await table_with_data(lake)
    assert (await lake.call("GET", PLAN + "/unknown")).error == (404, "NoSuchPlanIdException")
    assert (await lake.call("DELETE", PLAN + "/unknown")).error == (404, "NoSuchPlanIdException")
    unknown = await lake.call("POST", TABLE + "/tasks", {"plan-task": "unknown"})
    assert unknown.error == (404, "NoSuchPlanTaskException")


@pytest.mark.parametrize(
    "document",
    [
        {"filter": {"type": "eq", "term": "nowhere", "value": 1}},
        {"snapshot-id": 1, "start-snapshot-id": 2, "end-snapshot-id": 3},
        {"snapshot-id": "one"},
        {"case-sensitive": 3},
    ],
)
async def test_invalid_requests_are_refused(lake: Lake, document: dict[str, object]) -> None:
    await table_with_data(lake)
    assert (await lake.call("POST", PLAN, document)).error == (400, "BadRequestException")
