"""The maintenance API: paths, documents and errors, as clients of table buckets expect them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lakebed.catalog.maintenance.jobs.model import JobStatus
from tests.wire.iceberg.lake import Answer, Lake, allow, opened_lake

TABLE = "/lake/namespaces/ns/tables/t"
BUCKET = "/buckets/lake/maintenance/config"
CONFIG: dict[str, Any] = {
    "version": 1,
    "retain-recent-metadata-files": 1,
    "delete-enabled": False,
    "background-enabled": True,
}
JOB_FIELDS = {
    "job-id",
    "job_id",
    "table_bucket",
    "namespace",
    "table",
    "table_id",
    "operation",
    "status",
    "failure_reason",
    "recommended-actions",
    "config_source",
    "scheduler-id",
    "scheduler-lease-id",
    "scheduled-at",
    "worker_id",
    "lease_id",
    "attempt",
    "max-retry-attempts",
    "next-retry-after",
    "quarantine-enabled",
    "quarantine-retention-seconds",
    "heartbeat_at",
    "started_at",
    "finished_at",
    "current_metadata_location",
    "current_generation",
    "retain_recent_metadata_files",
    "safety_window_seconds",
    "cleanup_watermark_unix_seconds",
    "planned_metadata_file_count",
    "retained_metadata_file_count",
    "deletable_metadata_file_count",
    "deleted_metadata_file_count",
    "cleanup_candidate_count",
    "planned_object_file_count",
    "cleanup_candidate_object_count",
    "deletable_object_count",
    "deleted_object_count",
    "quarantined_object_count",
}
REPORT_FIELDS = {
    "job",
    "current_metadata_location",
    "retained_metadata_locations",
    "cleanup_candidate_locations",
    "deletable_metadata_locations",
    "cleanup-object-candidate-locations",
    "deletable-object-locations",
    "object_reports",
    "object-cleanup-reports",
    "referenced_object_reports",
    "reachability-graph",
    "snapshot-expiration",
    "compaction",
    "audit-events",
}
EVENT_FIELDS = {
    "timestamp",
    "actor",
    "action",
    "reason",
    "before-status",
    "after-status",
    "before-quarantined-object-count",
    "after-quarantined-object-count",
    "recommended-actions",
}
SCHEDULER_FIELDS = {
    "table_bucket",
    "namespace",
    "table",
    "table_id",
    "status",
    "config_source",
    "background_enabled",
    "worker_paused",
    "delete_enabled",
    "worker_lease_timeout_seconds",
    "max_retry_attempts",
    "retry_initial_backoff_seconds",
    "retry_max_backoff_seconds",
    "recommended_actions",
    "current_job",
    "quarantine",
    "audit_timeline",
}


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[Lake]:
    async with opened_lake(tmp_path) as lake:
        await lake.table()
        yield lake


async def call_ok(lake: Lake, method: str, path: str, document: object = None) -> Any:
    """Send a request that must succeed, and return the response document."""
    answer = await lake.call(method, f"{TABLE}/maintenance{path}", document)
    assert answer.status == 200, answer.body
    return answer.document


async def add_orphan(lake: Lake, name: str = "orphan.parquet") -> str:
    """Put an unreferenced file into the table's directory, old enough to be removed."""
    location = (await lake.call("GET", TABLE)).document["metadata"]["location"]
    key = f"{location.removeprefix('s3://lake/')}/data/{name}"
    assert (await lake.send("PUT", f"/lake/{key}", b"PAR1")).status == 200
    lake.clock.advance(901)
    return key


def assert_refused(answer: Answer, status: int, kind: str) -> None:
    assert answer.error == (status, kind), answer.body


# -- configuration --------------------------------------------------------------------------------------------------


async def test_configuration_of_a_table_is_put_read_and_removed(lake: Lake) -> None:
    first = await call_ok(lake, "GET", "/config")
    assert first == {
        "version": 1,
        "retain-recent-metadata-files": 0,
        "delete-enabled": False,
        "background-enabled": False,
        "worker-paused": False,
        "worker-lease-timeout-seconds": 900,
        "max-retry-attempts": 0,
        "retry-initial-backoff-seconds": 5,
        "retry-max-backoff-seconds": 300,
        "quarantine-enabled": False,
        "quarantine-retention-seconds": 0,
        "source": "DEFAULT",
    }
    put = await call_ok(lake, "PUT", "/config", CONFIG)
    assert put["source"] == "TABLE_OVERRIDE"
    assert (put["retry-initial-backoff-seconds"], put["retry-max-backoff-seconds"]) == (0, 0)
    assert await call_ok(lake, "GET", "/config") == put
    # The response of a GET can be put.
    assert await call_ok(lake, "PUT", "/config", put) == put
    assert (await lake.call("DELETE", f"{TABLE}/maintenance/config")).status == 204
    assert await call_ok(lake, "GET", "/config") == first


async def test_configuration_of_a_table_bucket_is_put_read_and_removed(lake: Lake) -> None:
    assert (await lake.call("GET", BUCKET)).document["source"] == "DEFAULT"
    put = await lake.call("PUT", BUCKET, CONFIG)
    assert (put.status, put.document["source"]) == (200, "TABLE_BUCKET_DEFAULT")
    assert (await lake.call("GET", BUCKET)).document == put.document
    assert await call_ok(lake, "GET", "/config") == put.document
    assert (await lake.call("DELETE", BUCKET)).status == 204
    assert (await call_ok(lake, "GET", "/config"))["source"] == "DEFAULT"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"delete-enabled": 1},
        {"background-enabled": None},
        {"max-retry-attempts": 11},
        {"max-retry-attempts": 1},
        {"quarantine-enabled": True},
        {"worker-lease-timeout-seconds": 0},
        {"unknown": 1},
        {"delete_enabled": True},
    ],
)
@pytest.mark.parametrize("path", [f"{TABLE}/maintenance/config", BUCKET])
async def test_invalid_configurations_are_refused(lake: Lake, path: str, change: dict[str, Any]) -> None:
    document = {name: value for name, value in {**CONFIG, **change}.items() if value is not None}
    assert_refused(await lake.call("PUT", path, document), 400, "BadRequestException")
    assert (await lake.call("GET", path)).document["source"] == "DEFAULT"


# -- plans ----------------------------------------------------------------------------------------------------------


async def test_report_has_the_fields_of_clients(lake: Lake) -> None:
    key = await add_orphan(lake)
    report = await call_ok(lake, "POST", "/metadata", {"retain-recent-metadata-files": 1, "delete": False})
    assert set(report) >= REPORT_FIELDS
    job = report["job"]
    assert set(job) >= JOB_FIELDS
    assert job["job-id"] == job["job_id"]
    assert (job["status"], job["operation"], job["table_bucket"]) == ("SUCCESSFUL", "DRY_RUN", "lake")
    assert (job["namespace"], job["table"], job["safety_window_seconds"]) == ("ns", "t", 900)
    assert job["recommended-actions"] == ["ENABLE_DELETE"]
    location = f"s3://lake/{key}"
    assert report["cleanup-object-candidate-locations"] == report["deletable-object-locations"] == [location]
    (found,) = report["object-cleanup-reports"]
    assert (found["location"], found["object_kind"], found["state"]) == (location, "DATA_FILE", "DELETABLE")
    assert found["reasons"] == ["NO_CURRENT_REACHABILITY", "SAFETY_WINDOW_SATISFIED"]
    (current,) = report["object_reports"]
    assert current["location"] == report["current_metadata_location"] == report["retained_metadata_locations"][0]
    assert current["reasons"] == ["CURRENT_METADATA", "RECENT_METADATA"]
    assert report["reachability-graph"]["status"] == "COMPLETE"
    assert (report["snapshot-expiration"], report["compaction"]) == (None, None)
    (event,) = report["audit-events"]
    assert set(event) == EVENT_FIELDS
    assert (event["actor"], event["action"], event["after-status"]) == ("OPERATOR", "PLANNED", "SUCCESSFUL")
    assert datetime.fromisoformat(event["timestamp"]).timestamp() * 1000 == lake.clock.now_ms()
    assert await call_ok(lake, "GET", f"/jobs/{job['job-id']}") == report
    assert await call_ok(lake, "GET", "/jobs/latest") == report


async def test_both_base_paths_accept_an_empty_document(lake: Lake) -> None:
    for base in ("/iceberg/v1", "/_iceberg/v1"):
        answer = await lake.send("POST", f"{base}{TABLE}/maintenance/metadata", b"{}")
        assert answer.status == 200, answer.body


async def test_removal_that_is_not_enabled_is_a_failed_job(lake: Lake) -> None:
    key = await add_orphan(lake)
    report = await call_ok(lake, "POST", "/metadata", {"delete": True})
    assert report["job"]["status"] == "FAILED"
    assert report["job"]["recommended-actions"] == ["ENABLE_DELETE"]
    assert "delete-enabled" in report["job"]["failure_reason"]
    assert (await lake.send("HEAD", f"/lake/{key}")).status == 200
    await call_ok(lake, "PUT", "/config", {**CONFIG, "delete-enabled": True})
    report = await call_ok(lake, "POST", "/metadata", {"delete": True})
    assert (report["job"]["status"], report["job"]["deleted_object_count"]) == ("SUCCESSFUL", 1)
    assert [one["state"] for one in report["object-cleanup-reports"]] == ["DELETED"]
    assert (await lake.send("HEAD", f"/lake/{key}")).status == 404


@pytest.mark.parametrize(
    "document",
    [
        {"unknown": 1},
        {"delete": "yes"},
        {"retain-recent-metadata-files": -1},
        {"delete": True, "commit-compaction": True},
        {"delete": True, "dry-run": True},
        {"commit-snapshot-expiration": True},
        {"snapshot-expiration": {"min-snapshots-to-keep": 0, "max-snapshot-age-ms": 0}},
        {"snapshot-expiration": {"min-snapshots-to-keep": 1}},
        {"snapshot-expiration": {"min-snapshots-to-keep": 1, "max-snapshot-age-ms": 0, "unknown": 1}},
        {"compaction": {"target-file-size-bytes": 10}},
        {
            "commit-compaction": True,
            "compaction": {
                "target-file-size-bytes": 10,
                "small-file-threshold-bytes": 1,
                "min-input-files": 2,
                "max-rewrite-bytes-per-job": 10,
            },
        },
        [],
    ],
)
async def test_invalid_requests_are_refused(lake: Lake, document: object) -> None:
    assert_refused(await lake.call("POST", f"{TABLE}/maintenance/metadata", document), 400, "BadRequestException")


async def test_request_for_a_stale_metadata_location_is_a_conflict(lake: Lake) -> None:
    document = {"dry-run": True, "expected-metadata-location": "s3://lake/t/metadata/00009-x.metadata.json"}
    assert_refused(await lake.call("POST", f"{TABLE}/maintenance/metadata", document), 409, "CommitFailedException")


async def test_expiry_and_compaction_are_reported(lake: Lake) -> None:
    report = await call_ok(
        lake,
        "POST",
        "/metadata",
        {
            "snapshot-expiration": {"min-snapshots-to-keep": 1, "max-snapshot-age-ms": 0},
            "commit-snapshot-expiration": True,
            "compaction": {
                "target-file-size-bytes": 10,
                "small-file-threshold-bytes": 1,
                "min-input-files": 2,
                "max-rewrite-bytes-per-job": 10,
            },
        },
    )
    expiration = report["snapshot-expiration"]
    assert (expiration["status"], expiration["expired_snapshot_ids"]) == ("NO_CANDIDATES", [])
    assert expiration["committed_metadata_location"] is None
    compaction = report["compaction"]
    assert (compaction["status"], compaction["rewrite-groups"], compaction["task-id"]) == ("NO_CANDIDATES", [], None)
    assert compaction["row-level-planning"] == {
        "status": "NO_DELETE_FILES",
        "delete-file-count": 0,
        "position-delete-file-count": 0,
        "equality-delete-file-count": 0,
        "deletion-vector-count": 0,
        "manual-review-count": 0,
        "reasons": [],
        "delete-files": [],
    }


# -- the scheduler and the worker -----------------------------------------------------------------------------------


async def test_scheduler_and_worker_run_a_job(lake: Lake) -> None:
    assert (await call_ok(lake, "PUT", "/config", {**CONFIG, "background-enabled": False}))["version"] == 1
    planned = await call_ok(lake, "POST", "/metadata", {"retain-recent-metadata-files": 1, "delete": False})
    job = planned["job"]["job-id"]
    inspected = await call_ok(lake, "POST", f"/jobs/{job}/quarantine", {"action": "INSPECT"})
    assert (inspected["action"], inspected["report"]["job"]["job-id"]) == ("INSPECT", job)
    assert inspected["quarantined-objects"] == []
    scheduler = await call_ok(lake, "GET", "/scheduler")
    assert set(scheduler) == SCHEDULER_FIELDS
    assert scheduler["status"] == "DISABLED"
    (line,) = scheduler["audit_timeline"]
    assert (line["job_id"], line["audit-events"][0]["action"]) == (job, "PLANNED")
    await call_ok(lake, "PUT", "/config", CONFIG)
    queued = await call_ok(lake, "POST", "/scheduler/run", {"scheduler-id": "smoke"})
    assert (queued["report"]["job"]["status"], queued["report"]["job"]["scheduler-id"]) == ("QUEUED", "smoke")
    assert queued["scheduler"]["status"] == "QUEUED"
    assert queued["scheduler"]["current_job"]["job_id"] == queued["report"]["job"]["job_id"]
    worked = await call_ok(lake, "POST", "/worker/run", {})
    assert worked["job"]["status"] in {status.value for status in JobStatus}
    assert worked["job"]["job_id"] == queued["report"]["job"]["job_id"]
    assert [event["action"] for event in worked["audit-events"]][-1] == "WORKER_SUCCEEDED"
    assert (await call_ok(lake, "GET", "/jobs/current"))["job"] == worked["job"]


async def test_scheduler_run_needs_no_body_and_worker_run_does(lake: Lake) -> None:
    await call_ok(lake, "PUT", "/config", CONFIG)
    queued = await call_ok(lake, "POST", "/scheduler/run")
    assert queued["report"]["job"]["scheduler-id"] == "lakebed-maintenance-scheduler"
    assert_refused(await lake.call("POST", f"{TABLE}/maintenance/worker/run"), 400, "BadRequestException")
    worked = await call_ok(lake, "POST", "/worker/run", {"worker-id": "mine"})
    assert worked["job"]["worker_id"] == "mine"
    for path in ("scheduler", "worker"):
        refused = await lake.call("POST", f"{TABLE}/maintenance/{path}/run", {"worker-count": 2})
        assert_refused(refused, 400, "BadRequestException")


async def test_stale_plan_is_a_conflict(lake: Lake) -> None:
    await call_ok(lake, "PUT", "/config", CONFIG)
    await call_ok(lake, "POST", "/scheduler/run")
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    assert (await lake.call("POST", TABLE, change)).status == 200
    refused = await lake.call("POST", f"{TABLE}/maintenance/worker/run", {})
    assert_refused(refused, 409, "CommitFailedException")
    assert (await call_ok(lake, "GET", "/jobs/current"))["job"]["status"] == "FAILED"


async def test_heartbeat_without_the_lease_is_a_conflict(lake: Lake) -> None:
    await call_ok(lake, "PUT", "/config", CONFIG)
    job = (await call_ok(lake, "POST", "/worker/run", {}))["job"]
    path = f"{TABLE}/maintenance/jobs/{job['job_id']}/heartbeat"
    sent = {"lease-id": job["lease_id"], "worker-id": job["worker_id"]}
    assert_refused(await lake.call("POST", path, sent), 409, "CommitFailedException")
    assert_refused(await lake.call("POST", path, {"lease-id": "x"}), 400, "BadRequestException")
    absent = f"{TABLE}/maintenance/jobs/absent"
    assert_refused(await lake.call("POST", f"{absent}/heartbeat", sent), 404, "NoSuchResourceException")
    assert_refused(await lake.call("GET", absent), 404, "NoSuchResourceException")


# -- quarantine -----------------------------------------------------------------------------------------------------


async def test_quarantined_files_are_inspected_and_released(lake: Lake) -> None:
    quarantine_config = {
        **CONFIG,
        "delete-enabled": True,
        "quarantine-enabled": True,
        "quarantine-retention-seconds": 60,
    }
    key = await add_orphan(lake)
    await call_ok(lake, "PUT", "/config", quarantine_config)
    report = await call_ok(lake, "POST", "/worker/run", {})
    job = report["job"]
    assert (job["quarantined_object_count"], job["deleted_object_count"]) == (1, 0)
    assert [one["state"] for one in report["object-cleanup-reports"]] == ["QUARANTINED"]
    scheduler = await call_ok(lake, "GET", "/scheduler")
    assert scheduler["status"] == "QUARANTINED"
    assert scheduler["quarantine"] == {
        "enabled": True,
        "active": True,
        "retention_seconds": 60,
        "quarantined_object_count": 1,
        "source_job_id": job["job_id"],
    }
    path = f"/jobs/{job['job_id']}/quarantine"
    inspected = await call_ok(lake, "POST", path, {"action": "INSPECT"})
    (held,) = inspected["quarantined-objects"]
    assert (held["key"], held["object_kind"], held["size"]) == (key, "DATA_FILE", 4)
    moved, purged = (datetime.fromisoformat(held[name]).timestamp() for name in ("moved-at", "purge-at"))
    assert purged - moved == 60
    assert (await lake.send("GET", f"/lake/{held['held-key']}")).status == 403
    released = await call_ok(lake, "POST", path, {"action": "RELEASE", "reason": "needed"})
    assert (released["done-object-count"], released["kept-object-count"]) == (1, 0)
    assert released["report"]["audit-events"][-1]["reason"] == "needed"
    assert released["scheduler"]["status"] == "READY"
    assert (await lake.send("GET", f"/lake/{key}")).body == b"PAR1"
    for action in ("RELEASE", "RETRY", "ABANDON"):
        refused = await lake.call("POST", f"{TABLE}/maintenance{path}", {"action": action})
        assert_refused(refused, 409, "CommitFailedException")
    assert_refused(
        await lake.call("POST", f"{TABLE}/maintenance{path}", {"action": "BURN"}), 400, "BadRequestException"
    )
    absent = f"{TABLE}/maintenance/jobs/absent/quarantine"
    assert_refused(await lake.call("POST", absent, {"action": "INSPECT"}), 404, "NoSuchResourceException")


# -- permissions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "document", "action"),
    [
        ("GET", f"{TABLE}/maintenance/config", None, "s3tables:GetTableMaintenanceConfiguration"),
        ("PUT", f"{TABLE}/maintenance/config", CONFIG, "s3tables:PutTableMaintenanceConfiguration"),
        ("DELETE", f"{TABLE}/maintenance/config", None, "s3tables:PutTableMaintenanceConfiguration"),
        ("GET", BUCKET, None, "s3tables:GetTableMaintenanceConfiguration"),
        ("PUT", BUCKET, CONFIG, "s3tables:PutTableMaintenanceConfiguration"),
        ("DELETE", BUCKET, None, "s3tables:PutTableMaintenanceConfiguration"),
        ("POST", f"{TABLE}/maintenance/metadata", {}, "s3tables:RunTableMaintenance"),
        ("GET", f"{TABLE}/maintenance/jobs/latest", None, "s3tables:GetTableMaintenanceConfiguration"),
        ("GET", f"{TABLE}/maintenance/scheduler", None, "s3tables:GetTableMaintenanceConfiguration"),
        ("POST", f"{TABLE}/maintenance/scheduler/run", None, "s3tables:RunTableMaintenance"),
        ("POST", f"{TABLE}/maintenance/worker/run", {}, "s3tables:RunTableMaintenance"),
        (
            "POST",
            f"{TABLE}/maintenance/jobs/latest/heartbeat",
            {"lease-id": "l", "worker-id": "w"},
            "s3tables:RunTableMaintenance",
        ),
        ("POST", f"{TABLE}/maintenance/jobs/latest/quarantine", {"action": "INSPECT"}, "s3tables:RunTableMaintenance"),
    ],
)
async def test_each_route_requires_its_permission(
    lake: Lake, method: str, path: str, document: object, action: str
) -> None:
    await call_ok(lake, "POST", "/metadata", {})
    permitted = await lake.user("ann", allow(action))
    unprivileged = await lake.user("bob", allow("s3:*", "s3tables:GetTable", "s3tables:UpdateTableMetadataLocation"))
    assert_refused(await lake.call(method, path, document, keys=unprivileged), 403, "ForbiddenException")
    assert (await lake.call(method, path, document, keys=permitted)).status in (200, 204, 409)


async def test_maintenance_of_a_missing_table_is_not_found(lake: Lake) -> None:
    path = "/lake/namespaces/ns/tables/absent/maintenance"
    for method, rest, document in (
        ("GET", "/config", None),
        ("PUT", "/config", CONFIG),
        ("POST", "/metadata", {}),
        ("GET", "/scheduler", None),
        ("GET", "/jobs/current", None),
        ("POST", "/worker/run", {}),
    ):
        assert_refused(await lake.call(method, path + rest, document), 404, "NoSuchTableException")
    absent = await lake.call("GET", "/buckets/absent/maintenance/config")
    assert_refused(absent, 404, "NoSuchWarehouseException")
