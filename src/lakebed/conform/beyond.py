"""Features that other table stores do not claim, with their status here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .claims import ClaimStatus, FeatureClaim, judge
from .evidence import EvidenceSummary

_CLIENTS: Final = "tests/clients/iceberg"
_VENDED: Final = "tests/clients/test_pyiceberg_vended_credentials.py"
_TABLES: Final = "tests/catalog"
_WIRE: Final = "tests/wire/iceberg"
_SPARK_MAINTENANCE: Final = f"{_CLIENTS}/test_spark_maintenance.py"
_COMPACTION: Final = "tests/pipeline/jobs/test_compaction.py"

_NOT_RUN: Final = "untested"
_NOT_SPOKEN: Final = "not implemented"
_BY_SPARK: Final = "by Spark, as a maintenance job or procedure"


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the list, with its features."""

    number: int
    claims: tuple[FeatureClaim, ...]


ITEMS: Final = (
    Item(
        1,
        (
            FeatureClaim(
                "bootstrap without long-term data credentials",
                (
                    f"{_VENDED}::test_tables_are_created_written_and_read_with_vended_credentials",
                    f"{_VENDED}::test_staged_table_is_written_before_it_is_committed",
                    f"{_CLIENTS}/test_spark_access.py::test_tables_are_written_and_read_without_s3_permissions",
                ),
                "a create, staged or not, returns vended credentials",
            ),
        ),
    ),
    Item(
        2,
        (
            FeatureClaim(
                "continuous in-process maintenance scheduling",
                (
                    f"{_TABLES}/maintenance/jobs/test_background.py",
                    "tests/server/test_catalog_jobs.py::test_due_maintenance_runs",
                    f"{_CLIENTS}/test_pyiceberg_maintenance.py::test_periodic_job_removes_orphans",
                ),
                "by table or table bucket, with background-enabled",
            ),
        ),
    ),
    Item(
        3,
        (
            FeatureClaim(
                "sort compaction",
                (
                    f"{_COMPACTION}::test_small_files_become_one_per_partition",
                    f"{_SPARK_MAINTENANCE}::test_compaction_leaves_one_file_per_partition",
                ),
                f"{_BY_SPARK}; sort and Z-order",
            ),
            FeatureClaim(
                "row-level compaction",
                (
                    f"{_COMPACTION}::test_position_deletes_are_applied_and_remaining_ones_compacted",
                    f"{_COMPACTION}::test_equality_deletes_are_applied_and_removed",
                    f"{_COMPACTION}::test_deletion_vectors_are_applied_and_row_ids_kept",
                    f"{_SPARK_MAINTENANCE}::test_compaction_applies_deletion_vectors",
                ),
                f"{_BY_SPARK}; applies position deletes, equality deletes and deletion vectors",
            ),
            FeatureClaim(
                "delete-file rewrite",
                (
                    f"{_COMPACTION}::test_position_deletes_are_applied_and_remaining_ones_compacted",
                    f"{_SPARK_MAINTENANCE}::test_position_deletes_are_rewritten_and_compacted",
                ),
                _BY_SPARK,
            ),
        ),
    ),
    Item(
        4,
        (
            FeatureClaim(
                "background snapshot expiration",
                (
                    "tests/pipeline/test_worker_live.py::test_policies_and_commits_lead_to_tasks_that_a_worker_runs",
                    "tests/pipeline/jobs/test_expiry.py",
                ),
                "by policy: the server plans, a Spark worker expires",
            ),
            FeatureClaim(
                "manifest and data cleanup tied to expiration",
                (
                    f"{_CLIENTS}/test_pyiceberg_maintenance.py::test_expiration_commits_before_it_deletes_files",
                    f"{_TABLES}/maintenance/jobs/test_background.py::test_data_of_expired_snapshots_is_removed_in_the_background",
                    f"{_TABLES}/maintenance/jobs/test_removal.py"
                    "::test_data_of_expired_snapshots_is_removed_after_the_window_and_tagged_data_never",
                ),
            ),
        ),
    ),
    Item(
        5,
        (
            FeatureClaim(
                "end-to-end SQL row-level DML: Spark",
                (
                    f"{_CLIENTS}/test_spark_writes.py::test_rows_are_deleted_updated_and_merged",
                    f"{_CLIENTS}/test_spark_concurrency.py::test_one_of_two_updates_of_the_same_rows_gets_a_conflict",
                ),
                "DELETE, UPDATE and MERGE, copy-on-write and merge-on-read",
            ),
            FeatureClaim(
                "end-to-end SQL row-level DML: Trino",
                (f"{_CLIENTS}/test_trino_writes.py::test_rows_are_deleted_updated_and_merged",),
                "DELETE, UPDATE and MERGE, merge-on-read",
            ),
            FeatureClaim(
                "end-to-end SQL row-level DML: other engines",
                (
                    f"{_CLIENTS}/test_duckdb.py::test_rows_are_updated_deleted_and_merged",
                    f"{_CLIENTS}/test_duckdb.py::test_changed_rows_of_format_version_3_keep_their_ids",
                ),
                "DuckDB",
            ),
        ),
    ),
    Item(
        6,
        (
            FeatureClaim(
                "live polling of external catalogs",
                (
                    f"{_TABLES}/external/bridges/test_polling.py",
                    f"{_WIRE}/test_running_extensions.py::test_bridge_follows_another_server_until_both_commit",
                ),
                "Iceberg REST catalogs and folders of metadata files",
            ),
            FeatureClaim("mirroring of external policies", (), "a bridge mirrors tables, not their permissions"),
        ),
    ),
    Item(
        7,
        (
            FeatureClaim(
                "multi-table transactions",
                (
                    f"{_TABLES}/commits/test_service.py::test_transaction_changes_all_tables_or_none",
                    f"{_TABLES}/commits/test_service.py::test_transaction_is_retried_after_a_concurrent_commit",
                    f"{_CLIENTS}/test_duckdb.py::test_tables_are_changed_in_one_transaction",
                    "tests/faults/catalog/test_kill.py",
                ),
            ),
        ),
    ),
    Item(8, (FeatureClaim("active-active multi-region writes", (), "database and object store are in one region"),)),
    Item(
        9,
        (
            FeatureClaim("automated Spark", (f"{_CLIENTS}/test_spark*.py",)),
            FeatureClaim("Trino write", (f"{_CLIENTS}/test_trino_writes.py", f"{_CLIENTS}/test_trino_tables.py")),
            FeatureClaim(
                "DuckDB write and commit",
                (
                    f"{_CLIENTS}/test_duckdb.py::test_rows_are_inserted_and_read",
                    f"{_CLIENTS}/test_duckdb_beside_pyiceberg.py::test_both_engines_write_concurrently",
                ),
            ),
            FeatureClaim("StarRocks write", (), _NOT_RUN),
            FeatureClaim("Databend as an Iceberg REST client", (), _NOT_RUN),
            FeatureClaim("Snowflake live", (), _NOT_RUN),
        ),
    ),
    Item(
        10,
        (
            FeatureClaim(
                "AWS S3 Tables control-plane parity", (), "the Iceberg REST catalog with extensions, not that API"
            ),
            FeatureClaim("Lake Formation", (), _NOT_SPOKEN),
            FeatureClaim("Glue", (), _NOT_SPOKEN),
            FeatureClaim("CloudTrail", (), _NOT_SPOKEN),
            FeatureClaim("AIStor private extensions", (), _NOT_SPOKEN),
            FeatureClaim("R2 interoperability", (), "a profile only; untested"),
            FeatureClaim("OSS interoperability", (), "a profile only; untested"),
            FeatureClaim("provider error codes", (), "errors of S3 and of the Iceberg REST specification"),
        ),
    ),
    Item(
        11,
        (
            FeatureClaim(
                "built-in SQL",
                (
                    "tests/clients/select/test_boto3.py",
                    "tests/clients/select/test_minio_py.py",
                    "tests/cli/select/test_command.py",
                ),
                "S3 Select over objects; `lakebed select` over tables and streams",
            ),
            FeatureClaim("Delta", (), "tables are Iceberg tables"),
            FeatureClaim("Hudi", (), "tables are Iceberg tables"),
        ),
    ),
    Item(
        12,
        (
            FeatureClaim(
                "Idempotency-Key header",
                (f"{_TABLES}/test_idempotency.py", f"{_WIRE}/test_replays.py"),
                "on every mutation",
            ),
            FeatureClaim(
                "advertised lifetime of idempotency keys",
                (
                    f"{_WIRE}/handlers/test_configuration.py::test_idempotency_lifetime_is_the_advertised_one",
                    f"{_TABLES}/test_idempotency.py::test_response_is_stored_for_a_day",
                ),
            ),
        ),
    ),
    Item(
        13,
        (
            FeatureClaim(
                "stage-create",
                (
                    f"{_CLIENTS}/test_pyiceberg_creating.py::test_staged_table_is_created_by_its_first_commit",
                    f"{_CLIENTS}/test_spark_tables.py::test_failed_create_table_as_select_leaves_no_table",
                ),
            ),
            FeatureClaim(
                "register overwrite",
                (f"{_CLIENTS}/test_pyiceberg_tables.py::test_register_with_overwrite_reverts_a_table",),
            ),
            FeatureClaim(
                "purge",
                (
                    f"{_CLIENTS}/test_pyiceberg_tables.py::test_purged_table_has_no_files",
                    f"{_CLIENTS}/test_pyiceberg_maintenance.py::test_purge_of_a_dropped_table_runs_in_the_background",
                    f"{_CLIENTS}/test_spark_tables.py"
                    "::test_dropped_table_leaves_its_files_and_purged_table_leaves_none",
                ),
            ),
            FeatureClaim(
                "format v3",
                (
                    f"{_CLIENTS}/test_pyiceberg_v3.py",
                    f"{_CLIENTS}/test_spark_smoke.py::test_deletion_vectors_keep_row_ids",
                    f"{_CLIENTS}/test_duckdb.py::test_changed_rows_of_format_version_3_keep_their_ids",
                ),
            ),
            FeatureClaim(
                "encryption keys",
                (
                    "tests/iceberg/commits/test_builder.py::test_encryption_keys_are_added_once_and_removed",
                    f"{_TABLES}/validation/test_commit.py::*encrypted*",
                ),
                "stored in metadata for writers that encrypt; encrypted files are not validated",
            ),
            FeatureClaim(
                "rename",
                (
                    f"{_CLIENTS}/test_pyiceberg_tables.py::test_renamed_table_keeps_rows_files_and_identity",
                    f"{_CLIENTS}/test_spark_tables.py::test_renamed_table_keeps_its_rows_and_frees_its_name",
                ),
            ),
            FeatureClaim(
                "namespace properties",
                (f"{_CLIENTS}/test_pyiceberg_namespaces.py::test_properties_are_set_removed_and_reported",),
            ),
        ),
    ),
)


def beyond(evidence: EvidenceSummary) -> list[dict[str, Any]]:  # Any: JSON
    """Features, with item number, status and tests."""
    return [
        {"item": item.number, "unclaimed_by_others": claim.name, **judge(claim, evidence).described()}
        for item in ITEMS
        for claim in item.claims
    ]


def beyond_summary(evidence: EvidenceSummary) -> dict[str, list[str]]:
    """Names of features by status."""
    names: dict[str, list[str]] = {standing.value: [] for standing in ClaimStatus}
    for item in ITEMS:
        for claim in item.claims:
            names[judge(claim, evidence).standing.value].append(claim.name)
    return names
