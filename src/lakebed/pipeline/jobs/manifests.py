"""Manifest rewrite: fewer manifests of the target size, clustered by partition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakebed.core.jobs import JobKind
from lakebed.core.sizes import MIB, format_bytes
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.files.table_shape import measure, properties_of, snapshot_ids
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import IntegerOption, Options, OptionUnit
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.procedures import Row, call, rows
from lakebed.pipeline.spark.versions import ICEBERG_VERSION
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_SIZE_PROPERTY: Final = "commit.manifest.target-size-bytes"
DEFAULT_TARGET_BYTES: Final = 8 * MIB

_LOSES_ROW_IDS: Final = frozenset({"1.10.0", "1.10.1", "1.11.0"})
"""Versions whose manifest rewrite changes row ids (apache/iceberg#16699), which the catalog refuses."""

OPTIONS: Final = (
    IntegerOption("spec-id", "partition spec of the manifests to rewrite; by default all"),
    IntegerOption(
        "target-manifest-size-bytes",
        f"target size; the table property {TARGET_SIZE_PROPERTY} is set to it",
        1024,
        OptionUnit.BYTES,
    ),
)


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """The manifests of a partition spec and content, data or deletes."""

    spec_id: int
    count: int
    bytes: int

    def wanted(self, target_bytes: int) -> int:
        """Number of manifests after a rewrite."""
        return max(math.ceil(self.bytes / target_bytes), 1)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Rewrite the manifests of a table."""
    report = ReportBuilder(JobKind.REWRITE_MANIFESTS, table, dry_run=dry_run)
    progress.stage("measuring")
    report.before = report.after = measure(spark, table)
    if report.before.snapshot is None:
        report.skip("table", "the table is empty")
        return report.end()
    properties = properties_of(spark, table)
    if int(properties.get("format-version", "2")) >= 3 and ICEBERG_VERSION in _LOSES_ROW_IDS:
        report.skip("manifests", f"Iceberg {ICEBERG_VERSION} changes row ids of tables of format version 3")
        return report.end()
    requested = options.number("target-manifest-size-bytes")
    stated = int(properties.get(TARGET_SIZE_PROPERTY, DEFAULT_TARGET_BYTES))
    target = requested or stated
    worth = _worth_rewriting(_listed(spark, table), options.number("spec-id"), target, report)
    if dry_run or not worth:
        report.read = FileTotals(sum(one.count for one in worth), sum(one.bytes for one in worth))
        report.wrote = FileTotals(sum(one.wanted(target) for one in worth))
        return report.end()
    if target != stated:
        spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{TARGET_SIZE_PROPERTY}' = '{target}')")
    known = snapshot_ids(spark, table)
    for spec_id in sorted({one.spec_id for one in worth}):
        progress.stage(f"rewriting manifests of partition spec {spec_id}")
        _rewrite(spark, table, spec_id, report, progress)
    report.after = measure(spark, table)
    report.saved = FileTotals(report.read.files - report.wrote.files)
    report.snapshots = [
        row["snapshot_id"]
        for row in rows(spark, f"SELECT snapshot_id, operation FROM {table.inside('snapshots')}")
        if row["snapshot_id"] not in known and row["operation"] == "replace"
    ]
    report.changed = bool(report.snapshots)
    return report.end()


def _worth_rewriting(
    listed: Sequence[ManifestGroup], spec_id: int | None, target_bytes: int, report: ReportBuilder
) -> list[ManifestGroup]:
    """The groups of partition specs for which a rewrite reduces the number of manifests."""
    candidates = [one for one in listed if spec_id in (None, one.spec_id)]
    if not candidates:
        report.skip("manifests", f"no manifests of partition spec {spec_id}")
    worth: list[ManifestGroup] = []
    for spec in sorted({one.spec_id for one in candidates}):
        kinds = [one for one in candidates if one.spec_id == spec]
        if any(one.count > one.wanted(target_bytes) for one in kinds):
            worth += kinds
        else:
            report.skip(
                f"manifests of partition spec {spec}",
                f"a rewrite to {format_bytes(target_bytes)} would not reduce their number",
            )
    return worth


def _rewrite(spark: SparkSession, table: CatalogTable, spec_id: int, report: ReportBuilder, progress: Progress) -> None:
    def attempt() -> Row:
        (done,) = call(spark, table, "rewrite_manifests", spec_id=spec_id)
        return done

    done = retry_on_conflict(spark, table, progress, attempt)
    report.read += FileTotals(done["rewritten_manifests_count"])
    report.wrote += FileTotals(done["added_manifests_count"])


def _listed(spark: SparkSession, table: CatalogTable) -> list[ManifestGroup]:
    found = rows(
        spark,
        "SELECT partition_spec_id AS spec_id, count(*) AS files, sum(length) AS bytes"
        f" FROM {table.inside('manifests')} GROUP BY partition_spec_id, content",
    )
    return [ManifestGroup(row["spec_id"], row["files"], row["bytes"]) for row in found]


JOB: Final = JobDefinition(JobKind.REWRITE_MANIFESTS, "Rewrites manifests to the target size", OPTIONS, run)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
