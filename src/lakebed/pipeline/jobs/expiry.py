"""Snapshot expiration: removes old snapshots, and the files that only they refer to.

Retention follows from the options, the limits of branches and tags, and the table's properties, which are minimums:
an option never shortens them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from lakebed.client.connection import ServerConnection
from lakebed.client.names import path
from lakebed.core.clock import Clock, SystemClock
from lakebed.core.errors import CommitConflict, InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.core.sizes import format_seconds
from lakebed.iceberg.snapshot_expiry import (
    GC_ENABLED,
    ExpirySnapshot,
    RetentionLimits,
    SnapshotExpiry,
    SnapshotRef,
    expire_snapshots,
    is_gc_enabled,
    retention_limits,
)
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.files.table_shape import measure, properties_of
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import IntegerOption, Options, OptionUnit
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.procedures import Row, TimestampArgument, call, rows
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS: Final = (
    IntegerOption("min-snapshots-to-keep", "minimum number of snapshots kept per branch; by default 1", 1),
    IntegerOption("retain-last", "alias of min-snapshots-to-keep", 1),
    IntegerOption("max-snapshot-age-ms", "maximum age of snapshots; by default 5d", 0, OptionUnit.MILLISECONDS),
    IntegerOption(
        "max-ref-age-ms", "maximum age of branches and tags; by default unlimited", 1, OptionUnit.MILLISECONDS
    ),
)

_COUNTS: Final = (
    "deleted_data_files_count",
    "deleted_position_delete_files_count",
    "deleted_equality_delete_files_count",
    "deleted_manifest_files_count",
    "deleted_manifest_lists_count",
    "deleted_statistics_files_count",
)


def run(
    spark: SparkSession,
    table: CatalogTable,
    options: Options,
    *,
    dry_run: bool,
    progress: Progress,
    clock: Clock | None = None,
) -> JobReport:
    """Expire snapshots of a table."""
    now_ms = (clock or SystemClock()).now_ms()
    report = ReportBuilder(JobKind.EXPIRE_SNAPSHOTS, table, dry_run=dry_run)
    progress.stage("measuring")
    report.before = report.after = measure(spark, table)
    properties = properties_of(spark, table)
    if not is_gc_enabled(properties):
        report.skip("table", f"property {GC_ENABLED} is false")
        return report.end()
    limits = _limits(table, options, properties)
    found = _expired(spark, table, limits, now_ms)
    if not found.snapshots and not found.refs:
        report.skip(
            f"{report.before.snapshots} snapshots",
            f"none has expired: all are younger than {format_seconds(limits.max_age_ms / 1000)}, one of the last"
            f" {limits.min_snapshots} of a branch, or referenced by a branch or tag",
        )
        return report.end()
    report.details["expired-snapshots"] = [str(one) for one in found.snapshots]
    report.details["expired-refs"] = [one.name for one in found.refs]
    if dry_run:
        report.skip("files", "counted only when they are removed")
        return report.end()
    stored = _stored(spark, table)
    if found.refs:
        progress.stage("removing branches and tags")
        _drop_references(table, found.refs, report)
    progress.stage("expiring snapshots")

    def attempt() -> Row:
        (done,) = call(
            spark,
            table,
            "expire_snapshots",
            older_than=TimestampArgument(now_ms - limits.max_age_ms),
            retain_last=limits.min_snapshots,
            stream_results=True,
        )
        return done

    done = retry_on_conflict(spark, table, progress, attempt)
    progress.stage("measuring")
    report.after = measure(spark, table)
    left = _stored(spark, table)
    # The procedure returns numbers of files and no sizes: removed bytes are the difference of the listings.
    report.removed = FileTotals(sum(done[name] or 0 for name in _COUNTS), max(stored - left, 0))
    report.saved = report.removed
    report.details |= {name.replace("_", "-"): int(done[name] or 0) for name in _COUNTS}
    report.changed = report.after.snapshots < report.before.snapshots or bool(found.refs)
    return report.end()


def _limits(table: CatalogTable, options: Options, properties: dict[str, str]) -> RetentionLimits:
    kept = [one for one in (options.number("min-snapshots-to-keep"), options.number("retain-last")) if one is not None]
    limits, unreadable = retention_limits(
        properties,
        min_snapshots=max(kept) if kept else None,
        max_age_ms=options.number("max-snapshot-age-ms"),
        max_ref_age_ms=options.number("max-ref-age-ms"),
    )
    if unreadable:
        raise InvalidInput(
            f"table properties must be whole numbers: {', '.join(unreadable)}; nothing was expired. table={table}"
        )
    return limits


def _expired(spark: SparkSession, table: CatalogTable, limits: RetentionLimits, now_ms: int) -> SnapshotExpiry:
    snapshots = rows(
        spark,
        "SELECT snapshot_id AS id, parent_id AS parent, unix_millis(committed_at) AS committed_ms"
        f" FROM {table.inside('snapshots')} ORDER BY committed_at",
    )
    references = rows(spark, f"SELECT * FROM {table.inside('refs')}")
    return expire_snapshots(
        [ExpirySnapshot(**row) for row in snapshots],
        [
            SnapshotRef(
                row["name"],
                row["type"] == "BRANCH",
                row["snapshot_id"],
                row["min_snapshots_to_keep"],
                row["max_snapshot_age_in_ms"],
                row["max_reference_age_in_ms"],
            )
            for row in references
        ],
        limits,
        now_ms,
    )


def _drop_references(table: CatalogTable, references: Sequence[SnapshotRef], report: ReportBuilder) -> None:
    """Remove branches and tags, each only if it did not move meanwhile.

    By the REST catalog, which checks `assert-ref-snapshot-id`: SQL drops a branch wherever it points to.
    """
    ref = table.ref
    at = "/iceberg/v1" + path(ref.warehouse, "namespaces", ref.namespace, "tables", ref.table)
    with closing(ServerConnection(table.access)) as connection:
        for one in references:
            document = {
                "requirements": [{"type": "assert-ref-snapshot-id", "ref": one.name, "snapshot-id": one.snapshot}],
                "updates": [{"action": "remove-snapshot-ref", "ref-name": one.name}],
            }
            try:
                connection.call("POST", at, document=document)
            except CommitConflict:
                report.skip(f"reference {one.name}", "it was moved concurrently")


def _stored(spark: SparkSession, table: CatalogTable) -> int:
    """Total size of the files that snapshots refer to."""
    (found,) = rows(
        spark,
        "SELECT coalesce(sum(bytes), 0) AS bytes FROM ("
        f"SELECT file_path AS path, max(file_size_in_bytes) AS bytes FROM {table.inside('all_files')} GROUP BY 1"
        f" UNION ALL SELECT path, max(length) AS bytes FROM {table.inside('all_manifests')} GROUP BY 1)",
    )
    return int(found["bytes"])


JOB: Final = JobDefinition(
    JobKind.EXPIRE_SNAPSHOTS, "Expires old snapshots, and removes the files that only they refer to", OPTIONS, run
)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
