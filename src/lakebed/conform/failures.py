"""Failure cases of a catalog: their tests, probe requests, and rehearsals for operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from .claims import FeatureClaim, judge
from .evidence import EvidenceSummary
from .options import ConformOption
from .profiles import ResolvedProfile

LOADS: Final = (
    ConformOption("writer_count", "concurrent writers of the scale rehearsal", (), "8"),
    ConformOption("maintenance_worker_count", "maintenance workers of the scale rehearsal", (), "2"),
    ConformOption("iteration_count", "commits per writer of the scale rehearsal", (), "50"),
)
"""Options of the rehearsals."""

_TABLES: Final = "tests/catalog"


@dataclass(frozen=True, slots=True)
class Case:
    """A failure case, and the required behavior."""

    claim: FeatureClaim
    must_hold: str


CASES: Final = (
    Case(
        FeatureClaim(
            "commit-cas-conflict",
            (
                f"{_TABLES}/commits/test_service.py::test_commit_with_outdated_requirements_is_a_conflict",
                f"{_TABLES}/commits/test_service.py::test_one_of_concurrent_conflicting_writers_succeeds",
                "tests/clients/iceberg/test_pyiceberg_concurrency.py::test_one_of_two_concurrent_schema_changes_succeeds",
            ),
        ),
        "409, and nothing was committed",
    ),
    Case(
        FeatureClaim(
            "post-cas-finalization-gap",
            (
                f"{_TABLES}/commits/test_service.py::test_undecided_outcome_keeps_the_metadata_file",
                f"{_TABLES}/commits/test_service.py::test_repeated_commit_gets_the_same_response",
                "tests/faults/catalog/test_kill.py",
                "tests/faults/catalog/test_steps.py",
            ),
        ),
        "pointer, log and response are committed in one transaction; a repeated request gets the response",
    ),
    Case(
        FeatureClaim(
            "missing-referenced-object",
            (
                f"{_TABLES}/validation/test_commit.py::*test_missing_*",
                f"{_TABLES}/diagnostics/test_table_diagnostics.py"
                "::test_missing_metadata_file_is_found_despite_the_cache",
            ),
        ),
        "400, and nothing was committed; diagnostics report files that are deleted later",
    ),
    Case(
        FeatureClaim(
            "concurrent-writer-stress",
            (
                "tests/clients/iceberg/test_pyiceberg_concurrency.py",
                "tests/clients/iceberg/test_spark_concurrency.py",
                "tests/faults/catalog/test_writers.py",
            ),
        ),
        "the table has exactly the rows of successful commits",
    ),
    Case(
        FeatureClaim(
            "permission-negative",
            (
                "tests/clients/iceberg/test_pyiceberg_access.py::test_vended_credentials_of_a_reader_are_read_only",
                "tests/clients/iceberg/test_spark_access.py::test_reader_reads_and_does_not_write",
                f"{_TABLES}/commits/test_service.py::test_commit_requires_permission",
            ),
        ),
        "403, and nothing was changed",
    ),
    Case(
        FeatureClaim(
            "maintenance-stale-plan",
            (
                f"{_TABLES}/maintenance/jobs/test_scheduling.py::test_changed_configuration_makes_the_plan_stale",
                f"{_TABLES}/maintenance/jobs/test_requests.py::test_plan_with_an_outdated_expectation_is_rejected",
                "tests/wire/iceberg/handlers/test_maintenance.py::test_stale_plan_is_a_conflict",
            ),
        ),
        "409, and nothing was removed",
    ),
    Case(
        FeatureClaim(
            "external-bridge-conflict",
            (
                f"{_TABLES}/external/bridges/test_polling.py::test_commits_made_here_stay_and_the_conflict_is_recorded",
                f"{_TABLES}/external/bridges/test_sync_requests.py::test_stale_expectation_moves_nothing_and_is_recorded",
                "tests/wire/iceberg/handlers/test_bridges.py::test_conflicting_sync_touches_nothing",
            ),
        ),
        "409; pointer, token and generation are unchanged",
    ),
    Case(
        FeatureClaim(
            "backing-migration-blocked",
            (
                f"{_TABLES}/diagnostics/test_catalog_inventory.py::test_migration_problems_are_found",
                "tests/wire/iceberg/handlers/test_diagnostics.py::test_migration_reports_that_nothing_is_to_migrate",
            ),
        ),
        "blocking problems are reported; there is one backing, which is transactional, so nothing is blocked",
    ),
)


def failure_matrix(evidence: EvidenceSummary) -> list[dict[str, Any]]:  # Any: JSON
    """Failure cases, with the required behavior and the tests."""
    return [
        {"case": case.claim.name, "must_hold": case.must_hold, **judge(case.claim, evidence).described()}
        for case in CASES
    ]


def failure_coverage(evidence: EvidenceSummary) -> dict[str, Any]:  # Any: JSON
    """Number of cases, and their names by status."""
    by_status: dict[str, list[str]] = {}
    for case in CASES:
        by_status.setdefault(judge(case.claim, evidence).standing.value, []).append(case.claim.name)
    return {"cases": len(CASES), "by_status": by_status}


def failure_probes(values: Mapping[str, str], profile: ResolvedProfile) -> list[dict[str, Any]]:  # Any: JSON
    """Requests against a written table that must fail. They change nothing."""
    levels = quote(values["namespace"].replace(".", "\x1f"), safe="")
    space = f"{profile.catalog_uri}/v1/{values['bucket']}/namespaces/{levels}"
    table = f"{space}/tables/{quote(values['table'], safe='')}"
    unknown = "00000000-0000-0000-0000-000000000000"
    elsewhere = f"s3://{values['bucket']}/no-such-table/metadata/00001-{unknown}.metadata.json"
    return [
        _probe(
            "commit-cas-conflict",
            "POST",
            table,
            {
                "requirements": [{"type": "assert-table-uuid", "uuid": unknown}],
                "updates": [{"action": "set-properties", "updates": {"probe": "1"}}],
            },
            409,
        ),
        _probe(
            "stale-version-token",
            "PUT",
            f"{table}/metadata-location",
            {"metadata-location": elsewhere, "version-token": "stale"},
            409,
        ),
        _probe(
            "missing-referenced-object",
            "POST",
            f"{space}/register",
            {"name": f"{values['table']}_probe", "metadata-location": elsewhere},
            400,
        ),
        {**_probe("permission-negative", "GET", table, None, 403), "sign_with": "a user without table privileges"},
        _probe(
            "maintenance-stale-plan",
            "POST",
            f"{table}/maintenance/metadata",
            {"delete": False, "expected-metadata-location": elsewhere},
            409,
        ),
        _probe(
            "external-bridge-conflict",
            "POST",
            f"{table}/catalog/external/sync",
            {
                "catalog": "polaris",
                "external-namespace": values["namespace"],
                "external-table": values["table"],
                "metadata-location": elsewhere,
                "expected-version-token": "stale",
                "expected-metadata-location": elsewhere,
            },
            409,
        ),
    ]


def disaster_recovery_rehearsal(values: Mapping[str, str], profile: ResolvedProfile) -> list[dict[str, str]]:
    """Phases of a disaster recovery rehearsal."""
    run = f"lakebed conform --profile {profile.name} --endpoint {values['endpoint']} --bucket {values['bucket']}"
    export = f"{profile.catalog_uri}/v1/{values['bucket']}/namespaces/NAMESPACE/tables/TABLE/catalog"
    return [
        {"phase": "baseline", "do": run, "see": "PASS; note the table's metadata-location"},
        {
            "phase": "backup",
            "do": "copy the metadata store and the object store while writers commit",
            "see": "both copies",
        },
        {
            "phase": "loss",
            "do": "kill -9 the whole server during commits",
            "see": "clients get no response, never a 409",
        },
        {"phase": "restore", "do": "start a server on the copies", "see": f"GET {export}/diagnostics is HEALTHY"},
        {"phase": "verification", "do": f"{run} --replace", "see": "PASS; all rows of acknowledged commits exist"},
    ]


def scale_fault_rehearsal(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Phases of a rehearsal with many writers and faults."""
    writers, workers = values["writer_count"], values["maintenance_worker_count"]
    iterations = values["iteration_count"]
    return [
        {"phase": "warm-up", "do": "one writer, 10 commits", "see": "10 snapshots"},
        {
            "phase": "contention",
            "do": f"{writers} writers of one table, {iterations} commits each",
            "see": "exactly the rows of successful commits; the others got 409",
        },
        {
            "phase": "maintenance",
            "do": f"the same with {workers} maintenance workers",
            "see": "no file of a retained snapshot is deleted; each job has one owner",
        },
        {
            "phase": "fault",
            "do": "the same, killing one of two servers on one database midway",
            "see": "no acknowledged commit is lost",
        },
        {"phase": "drain", "do": "stop the writers, expire and clean up", "see": "diagnostics HEALTHY, rows unchanged"},
    ]


def _probe(case: str, method: str, url: str, body: object, expected: int) -> dict[str, Any]:  # Any: JSON
    return {"probe": case, "method": method, "url": url, "body": body, "expected_status": expected}
