"""The evidence record of a run against a server: fields and validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SCHEMA: Final = "lakebed-tables-live-conformance-evidence"
SCHEMA_VERSION: Final = 1
PASS: Final = "pass"  # noqa: S105 (an outcome)
FAIL: Final = "fail"

FIELDS: Final[Mapping[str, str]] = {
    "schema": f"always {SCHEMA}",
    "schema_version": f"always {SCHEMA_VERSION}",
    "client_name": "pyiceberg, spark, trino, duckdb, databend, starrocks or snowflake",
    "client_version": "version that the client reports",
    "scenario": "profile or script of the run",
    "lakebed_build": "build of the server",
    "git_sha": "commit of the build",
    "catalog_backing": "metadata store of the catalog",
    "endpoint": "endpoint of the server",
    "warehouse": "warehouse parameter",
    "rest_path": "path of the catalog",
    "namespace": "namespace of the table",
    "table": "name of the table",
    "metadata_location": "metadata file of the table after the last write",
    "run_timestamp_utc": "time of the run",
    "operator": "operator of the run",
    "expected_status": f"always {PASS}",
    "observed_status": f"{PASS} or {FAIL}",
    "row_count": "number of rows read back",
    "cleanup_result": "dropped, failed or not-requested",
    "claim": "one of the claims of the client",
    "command": "command line, without secrets",
}

CLAIMS: Final[Mapping[str, tuple[str, ...]]] = {
    "pyiceberg": ("catalog-smoke", "compatibility-smoke", "credential-smoke"),
    "spark": ("sql-write-read",),
    "trino": ("sql-read", "sql-write-read"),
    "duckdb": ("sql-read", "sql-write-read"),
    "databend": ("stage-read", "sql-read"),
    "starrocks": ("sql-read",),
    "snowflake": ("sql-read",),
}
"""The claims that a run of each client supports."""

_COUNTED: Final = frozenset({"pyiceberg", "spark", "trino", "duckdb"})
_ROWS: Final = 2
_RECORDED: Final = ("lakebed_build", "git_sha", "catalog_backing", "client_version")
_UNRECORDED: Final = frozenset({"", "unknown", "unrecorded"})


def problems(record: Mapping[str, object]) -> list[str]:
    """Problems that invalidate a record."""
    found = [f"{name} is missing" for name in FIELDS if name not in record]
    if found:
        return found
    if (record["schema"], record["schema_version"]) != (SCHEMA, SCHEMA_VERSION):
        found.append(f"schema is {SCHEMA} version {SCHEMA_VERSION}")
    found += [f"{name} is not recorded" for name in _RECORDED if str(record[name]).strip().lower() in _UNRECORDED]
    if record["expected_status"] != PASS:
        found.append(f"expected_status is {PASS}")
    if record["observed_status"] != record["expected_status"]:
        found.append(f"observed_status is {record['observed_status']}")
    client = str(record["client_name"])
    if record["claim"] not in CLAIMS.get(client, ()):
        found.append(f"{client} does not show {record['claim']}")
    if client in _COUNTED and record["row_count"] != _ROWS:
        found.append(f"row_count is {_ROWS}. found={record['row_count']}")
    return found


def evidence_document(record: Mapping[str, object]) -> dict[str, Any]:  # Any: JSON
    """The document of a record and its validation."""
    found = problems(record)
    return {"live_conformance_evidence": dict(record), "validation": {"is_valid": not found, "problems": found}}


def evidence_schema() -> dict[str, Any]:  # Any: JSON
    """The schema, for records of other clients."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "fields": dict(FIELDS),
        "claims": {client: list(claims) for client, claims in CLAIMS.items()},
        "rejected_if": [
            "a field is missing",
            f"one of {', '.join(_RECORDED)} is not recorded",
            f"expected_status is not {PASS}",
            "observed_status is not expected_status",
            "the claim is not one of the client's",
            f"row_count is not {_ROWS} for {', '.join(sorted(_COUNTED))}",
        ],
    }
