"""Optional capabilities of a catalog, and production readiness, by test results."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from .claims import ClaimStatus, FeatureClaim, judge
from .evidence import EvidenceSummary

_CLIENTS: Final = "tests/clients/iceberg"
_MAINTENANCE: Final = "tests/catalog/maintenance"
_PIPELINE: Final = "tests/pipeline"
_TABLES: Final = "tests/catalog"


@dataclass(frozen=True, slots=True)
class Capability:
    """An optional capability, and its status once its tests pass."""

    claim: FeatureClaim
    when_shown: str
    area: str
    behaviour: str
    endpoint: str = ""
    """Its route, as in the catalog's configuration."""


CAPABILITIES: Final = (
    Capability(
        FeatureClaim(
            "credential-vending",
            (
                "tests/clients/test_pyiceberg_vended_credentials.py",
                f"{_CLIENTS}/test_pyiceberg_access.py::test_files_are_accessible_with_vended_credentials",
            ),
        ),
        "automated-from-the-first-create",
        "governance",
        "create and load return credentials for the table's directories; the endpoint returns new ones",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    ),
    Capability(
        FeatureClaim(
            "automatic-maintenance-scheduling",
            (
                f"{_MAINTENANCE}/jobs/test_background.py",
                "tests/server/test_catalog_jobs.py::test_due_maintenance_runs",
                f"{_CLIENTS}/test_pyiceberg_maintenance.py::test_periodic_job_removes_orphans",
            ),
        ),
        "supported",
        "maintenance",
        "with background-enabled the server maintains the table, on a timer and after commits",
        "PUT /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/config",
    ),
    Capability(
        FeatureClaim(
            "background-maintenance-worker",
            (
                f"{_MAINTENANCE}/jobs/test_scheduling.py",
                f"{_MAINTENANCE}/jobs/test_lifecycle.py",
                "tests/wire/iceberg/handlers/test_maintenance.py",
            ),
        ),
        "supported",
        "maintenance",
        "jobs are queued, leased, retried and audited in the server; each route runs one step",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/worker/run",
    ),
    Capability(
        FeatureClaim(
            "manifest-data-reachability-cleanup",
            (
                f"{_MAINTENANCE}/reachability/test_removal_plan.py",
                f"{_MAINTENANCE}/jobs/test_removal.py",
                f"{_MAINTENANCE}/jobs/test_quarantine.py",
                f"{_CLIENTS}/test_pyiceberg_maintenance.py::test_garbage_collection_keeps_all_files_of_a_table",
            ),
        ),
        "supported",
        "maintenance",
        "files unreachable from retained metadata are deleted or quarantined after a safety window; unreadable metadata"
        " stops it",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/metadata",
    ),
    Capability(
        FeatureClaim(
            "snapshot-expiration",
            (
                f"{_MAINTENANCE}/rules/test_expiration.py",
                f"{_MAINTENANCE}/jobs/test_requests.py::test_snapshots_are_planned_and_then_expired",
                f"{_CLIENTS}/test_pyiceberg_maintenance.py::test_expiration_commits_before_it_deletes_files",
                f"{_PIPELINE}/jobs/test_expiry.py",
                f"{_PIPELINE}/test_worker_live.py::test_policies_and_commits_lead_to_tasks_that_a_worker_runs",
            ),
        ),
        "supported-on-request-and-by-policy",
        "maintenance",
        "old snapshots expire on request or by policy; references and the newest snapshots are kept",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/metadata",
    ),
    Capability(
        FeatureClaim(
            "compaction-planning",
            (
                f"{_MAINTENANCE}/rules/test_compaction.py",
                f"{_CLIENTS}/test_pyiceberg_maintenance.py::test_compaction_is_queued_for_a_worker",
            ),
        ),
        "supported",
        "maintenance",
        "files to compact are found and queued as a task; the server itself rewrites none",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/metadata",
    ),
    Capability(
        FeatureClaim(
            "compaction-rewrite",
            (
                f"{_PIPELINE}/jobs/test_compaction.py",
                f"{_PIPELINE}/test_worker_live.py::test_policies_and_commits_lead_to_tasks_that_a_worker_runs",
                f"{_CLIENTS}/test_spark_concurrency.py::test_compaction_and_concurrent_appends_both_succeed",
            ),
        ),
        "supported-by-policy",
        "pipeline",
        "Spark jobs rewrite data files; the server validates their commits like any other",
    ),
    Capability(
        FeatureClaim(
            "row-level-delete-update-merge",
            (
                f"{_TABLES}/validation/test_commit.py",
                f"{_TABLES}/validation/test_real_writers.py",
                f"{_CLIENTS}/test_pyiceberg_writing.py",
                f"{_CLIENTS}/test_spark_writes.py::test_rows_are_deleted_updated_and_merged",
                f"{_CLIENTS}/test_trino_writes.py::test_rows_are_deleted_updated_and_merged",
                f"{_CLIENTS}/test_duckdb.py::test_rows_are_updated_deleted_and_merged",
            ),
        ),
        "supported-end-to-end",
        "commits",
        "row-level changes of engines are committed; conflicting ones are rejected",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    ),
    Capability(
        FeatureClaim(
            "external-catalog-bridge",
            (
                f"{_TABLES}/external/bridges/test_*.py",
                "tests/wire/iceberg/test_running_extensions.py::test_bridge_follows_another_server_until_both_commit",
            ),
        ),
        "supported-with-polling",
        "bridges",
        "tables of another catalog, or of a folder of metadata files, are registered and mirrored",
        "PUT /v1/{prefix}/namespaces/{namespace}/tables/{table}/catalog/external",
    ),
    Capability(
        FeatureClaim(
            "multi-table-transactions",
            (
                f"{_TABLES}/commits/test_service.py::test_transaction_changes_all_tables_or_none",
                f"{_TABLES}/commits/test_service.py::test_transaction_is_retried_after_a_concurrent_commit",
            ),
        ),
        "supported",
        "commits",
        "changes of several tables are committed atomically",
        "POST /v1/{prefix}/transactions/commit",
    ),
    Capability(
        FeatureClaim(
            "server-side-scan-planning",
            (
                f"{_TABLES}/scans/test_*.py",
                "tests/wire/iceberg/handlers/test_plans.py",
                f"{_CLIENTS}/test_spark_planning.py",
            ),
        ),
        "supported",
        "planning",
        "the server finds the files of a scan",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    ),
)

READINESS: Final = (
    (
        FeatureClaim(
            "strong-catalog-backing",
            (
                f"{_TABLES}/commits/test_service.py",
                f"{_CLIENTS}/test_pyiceberg_postgres.py",
                "tests/faults/catalog/test_kill.py",
                "tests/faults/catalog/test_steps.py",
            ),
            "pointer, files, log, response and events are one transaction of SQLite or PostgreSQL",
        ),
        "transactional",
    ),
    (
        FeatureClaim(
            "single-active-writer-ha",
            (
                f"{_TABLES}/commits/test_service.py::test_concurrent_writers_of_several_servers_all_succeed",
                "tests/server/test_several_servers.py",
            ),
            "all servers on one database accept writes",
        ),
        "several-active-writers-on-one-database",
    ),
    (
        FeatureClaim(
            "scale-validation-matrix",
            (
                f"{_CLIENTS}/test_pyiceberg_concurrency.py",
                f"{_CLIENTS}/test_spark_concurrency.py",
                "tests/faults/catalog/test_writers.py",
            ),
            "concurrent writers lose no commits; benchmarks measure throughput",
        ),
        "automated",
    ),
    (FeatureClaim("multi-region-active-active", (), "database and object store are in one region"), "supported"),
)
"""Requirements of production, with their status once the tests pass."""


def unsupported_inventory(evidence: EvidenceSummary, served: Collection[str]) -> list[dict[str, Any]]:  # Any: JSON
    """Capabilities, with their status and whether the route exists."""
    entries = []
    for capability in CAPABILITIES:
        verdict = judge(capability.claim, evidence)
        entry: dict[str, Any] = {  # Any: JSON
            "capability": capability.claim.name,
            **verdict.described(),
            "roadmap_area": capability.area,
            "expected_behavior": capability.behaviour,
        }
        if verdict.is_claimed:
            entry["status"] = capability.when_shown
        if capability.endpoint:
            entry["catalog_endpoint"] = capability.endpoint
            entry["is_served"] = capability.endpoint in served
            if not entry["is_served"]:
                entry["status"] = ClaimStatus.NOT_CLAIMED.value
                entry["expected_behavior"] = "404: this build has no such route"
        entries.append(entry)
    return entries


def production_readiness(evidence: EvidenceSummary) -> list[dict[str, Any]]:  # Any: JSON
    """Capabilities, with the tests that validate them."""
    entries = []
    for claim, when_shown in READINESS:
        verdict = judge(claim, evidence)
        entry = {"capability": claim.name, **verdict.described()}
        entry["validation"] = entry.pop("tests")
        if verdict.is_claimed:
            entry["status"] = when_shown
        entries.append(entry)
    return entries
