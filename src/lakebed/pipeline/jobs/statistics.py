"""Statistics for query planners: distinct values per column, and partition statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakebed.core.jobs import JobKind
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.files.table_shape import measure
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import BooleanOption, ListOption, Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.iceberg_jvm import each, load_table
from lakebed.pipeline.spark.procedures import call
from lakebed.pipeline.spark.session import has_java
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS: Final = (
    ListOption("columns", "columns whose distinct values are counted; by default all supported"),
    BooleanOption("partition-statistics", "compute partition statistics; by default for partitioned tables"),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Compute a table's statistics."""
    report = ReportBuilder(JobKind.COMPUTE_STATISTICS, table, dry_run=dry_run)
    progress.stage("measuring")
    report.before = report.after = before = measure(spark, table)
    if before.snapshot is None:
        report.skip("table", "the table is empty")
        return report.end()
    columns = options.names("columns")
    has_columns, has_partitions, is_partitioned = _known(spark, table, before.snapshot, columns)
    wants_partitions = options.switch("partition-statistics", is_partitioned)
    if has_columns:
        report.skip("column statistics", f"snapshot {before.snapshot} has them")
    if not wants_partitions or not is_partitioned:
        report.skip("partition statistics", "not requested" if is_partitioned else "the table is not partitioned")
    elif has_partitions:
        report.skip("partition statistics", f"snapshot {before.snapshot} has them")
    does_columns, does_partitions = not has_columns, wants_partitions and is_partitioned and not has_partitions
    if does_columns:
        report.read = FileTotals(before.data_files, before.data_bytes, before.rows)
    if dry_run:
        report.wrote = FileTotals(does_columns + does_partitions)
        return report.end()
    if does_columns:
        progress.stage("counting distinct values")
        done = retry_on_conflict(
            spark, table, progress, lambda: call(spark, table, "compute_table_stats", columns=columns or None)
        )
        _report_file(report, "statistics-file", done)
    if does_partitions:
        progress.stage("computing partition statistics")
        done = retry_on_conflict(spark, table, progress, lambda: call(spark, table, "compute_partition_stats"))
        _report_file(report, "partition-statistics-file", done)
    report.changed = report.wrote.files > 0
    return report.end()


def _report_file(report: ReportBuilder, name: str, done: list[dict[str, Any]]) -> None:  # Any: rows
    written = next((row[name.replace("-", "_")] for row in done), None)
    if written:
        report.details[name] = written
        report.wrote += FileTotals(1)


def _known(
    spark: SparkSession, table: CatalogTable, snapshot: int, columns: list[str] | None
) -> tuple[bool, bool, bool]:
    """Whether the snapshot has column statistics and partition statistics, and whether the table is partitioned.

    Statistics are not visible over Spark Connect, where they are computed again.
    """
    if not has_java(spark):
        return False, False, "partition" in spark.table(table.inside("partitions")).columns
    loaded = load_table(spark, table, "reading statistics")
    schema = loaded.schema()
    counted: set[str] = set()
    has_any = False
    for file in each(loaded.statisticsFiles()):
        if file.snapshotId() == snapshot:
            has_any = True
            for blob in each(file.blobMetadata()):
                counted |= {str(schema.findColumnName(field)) for field in each(blob.fields())}
    has_columns = has_any and (columns is None or set(columns) <= counted)
    has_partitions = any(file.snapshotId() == snapshot for file in each(loaded.partitionStatisticsFiles()))
    return has_columns, has_partitions, bool(loaded.spec().isPartitioned())


JOB: Final = JobDefinition(JobKind.COMPUTE_STATISTICS, "Computes statistics for query planners", OPTIONS, run)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
