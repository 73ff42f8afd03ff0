"""What a table catalog may leave out or make more of: how far this build is shown to go, and its readiness."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from .claims import Claim, Standing, judge
from .evidence import Evidence

_CLIENTS: Final = "tests/clients/iceberg"
_TABLES: Final = "tests/tables"


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a catalog may do, and how far it goes once its tests pass."""

    claim: Claim
    when_shown: str
    area: str
    behaviour: str
    endpoint: str = ""
    """Its route, as the configuration would spell it."""


CAPABILITIES: Final = (
    Capability(
        Claim(
            "credential-vending",
            (
                "tests/clients/test_pyiceberg_vended_keys.py",
                f"{_CLIENTS}/test_pyiceberg_access.py::test_files_are_reached_with_keys_of_the_catalog",
            ),
        ),
        "automated-from-the-first-create",
        "governance",
        "keys for one table's directories come with create and load, and fresh ones from the endpoint",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    ),
    Capability(
        Claim("background-maintenance-worker", (f"{_TABLES}/maintenance/test_scheduling.py",)),
        "supported",
        "maintenance",
        "jobs are queued and run in the server; the routes run one turn each",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/worker/run",
    ),
    Capability(
        Claim("manifest-data-reachability-cleanup", (f"{_TABLES}/maintenance/test_removal.py",)),
        "supported",
        "maintenance",
        "what no retained metadata reaches is removed after a safety window; anything unreadable stops it",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/metadata",
    ),
    Capability(
        Claim("snapshot-expiration", (f"{_TABLES}/maintenance/test_expiration.py",)),
        "supported",
        "maintenance",
        "snapshots past their age go; references and the newest stay",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/metadata",
    ),
    Capability(
        Claim("compaction-planning", (f"{_TABLES}/maintenance/test_compaction.py",)),
        "supported",
        "maintenance",
        "files worth rewriting together are found; the server rewrites none",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/maintenance/metadata",
    ),
    Capability(
        Claim("compaction-rewrite", ("tests/pipeline/*compact*",)),
        "supported",
        "pipeline",
        "the server never rewrites data files; that is a Spark job's",
    ),
    Capability(
        Claim(
            "row-level-delete-update-merge",
            (
                f"{_TABLES}/validation/test_commit.py",
                f"{_TABLES}/validation/test_real_writers.py",
                f"{_CLIENTS}/test_pyiceberg_writing.py",
            ),
        ),
        "catalog-conflict-validation-supported",
        "commits",
        "row-level changes are committed, and refused where they would undo what another has done",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    ),
    Capability(
        Claim("external-catalog-bridge", (f"{_TABLES}/bridges/test_*.py",)),
        "supported",
        "bridges",
        "tables of another catalog are registered and followed",
        "PUT /v1/{prefix}/namespaces/{namespace}/tables/{table}/catalog/external",
    ),
    Capability(
        Claim(
            "multi-table-transactions",
            (
                f"{_TABLES}/test_committing.py::test_tables_change_all_or_none",
                f"{_TABLES}/test_committing.py::test_transaction_is_tried_again_when_one_of_its_tables_moved",
            ),
        ),
        "supported",
        "commits",
        "changes of several tables are committed in one transaction or not at all",
        "POST /v1/{prefix}/transactions/commit",
    ),
    Capability(
        Claim("server-side-scan-planning", ("tests/*/iceberg/test_*planning*.py", f"{_TABLES}/planning/test_*.py")),
        "supported",
        "planning",
        "the files of a scan are found by the server",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    ),
)

READINESS: Final = (
    (
        Claim(
            "strong-catalog-backing",
            (
                f"{_TABLES}/test_committing.py",
                f"{_CLIENTS}/test_pyiceberg_postgres.py",
                "tests/faults/test_kill.py",
            ),
        ),
        "transactional",
    ),
    (
        Claim(
            "several-active-servers",
            (
                f"{_TABLES}/test_committing.py::test_writers_of_several_servers_at_once_all_succeed",
                "tests/server/test_several_servers.py",
            ),
        ),
        "supported-on-one-database",
    ),
    (
        Claim("concurrent-writers", (f"{_CLIENTS}/test_pyiceberg_concurrency.py",)),
        "automated",
    ),
    (Claim("multi-region-active-active"), "supported"),
)
"""What running it in earnest asks for, and how it is called once its tests pass."""


def unsupported_inventory(evidence: Evidence, served: Collection[str]) -> list[dict[str, Any]]:  # Any: JSON
    """Each capability: how far it is shown to go, and whether its route is served at all."""
    entries = []
    for capability in CAPABILITIES:
        verdict = judge(capability.claim, evidence)
        shown = verdict.standing is Standing.SHOWN
        entry: dict[str, Any] = {  # Any: JSON
            "capability": capability.claim.name,
            "status": capability.when_shown if shown else verdict.standing.value,
            "roadmap_area": capability.area,
            "expected_behavior": capability.behaviour,
            "tests": list(verdict.tests),
        }
        if capability.endpoint:
            entry["catalog_endpoint"] = capability.endpoint
            entry["is_served"] = capability.endpoint in served
            if not entry["is_served"]:
                entry["status"] = Standing.NOT_CLAIMED.value
                entry["expected_behavior"] = "404: the route is not served by this build"
        entries.append(entry)
    return entries


def production_readiness(evidence: Evidence) -> list[dict[str, Any]]:  # Any: JSON
    """Each capability and the tests that validate it."""
    entries = []
    for claim, when_shown in READINESS:
        verdict = judge(claim, evidence)
        status = when_shown if verdict.standing is Standing.SHOWN else verdict.standing.value
        entries.append({"capability": claim.name, "status": status, "validation": list(verdict.tests)})
    return entries
