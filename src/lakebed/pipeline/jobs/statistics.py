"""Statistics for planners: how many distinct values columns have, and what each partition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakebed.core.jobs import JobKind
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import BooleanOption, ListOption, Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

from ..commit_conflicts import retry_on_conflict
from ..files.table_shape import measure
from ..spark.iceberg_jvm import each, load_table
from ..spark.procedures import call
from ..spark.session import has_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS: Final = (
    ListOption("columns", "whose distinct values are counted; by default all that have such"),
    BooleanOption(
        "partition-statistics", "also compute what each partition holds; by default of tables that have partitions"
    ),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Compute a table's statistics."""
    draft = ReportBuilder(JobKind.COMPUTE_STATISTICS, table, dry_run=dry_run)
    progress.stage("measuring")
    draft.before = draft.after = before = measure(spark, table)
    if before.snapshot is None:
        draft.skip("table", "nothing was written to it yet")
        return draft.end()
    columns = options.names("columns")
    has_columns, has_partitions, is_partitioned = _known(spark, table, before.snapshot, columns)
    wants_partitions = options.switch("partition-statistics", is_partitioned)
    if has_columns:
        draft.skip("statistics of columns", f"snapshot {before.snapshot} has them")
    if not wants_partitions or not is_partitioned:
        draft.skip("statistics of partitions", "not asked for" if is_partitioned else "the table has no partitions")
    elif has_partitions:
        draft.skip("statistics of partitions", f"snapshot {before.snapshot} has them")
    does_columns, does_partitions = not has_columns, wants_partitions and is_partitioned and not has_partitions
    if does_columns:
        draft.read = FileTotals(before.data_files, before.data_bytes, before.rows)
    if dry_run:
        draft.wrote = FileTotals(does_columns + does_partitions)
        return draft.end()
    if does_columns:
        progress.stage("counting distinct values")
        done = retry_on_conflict(
            spark, table, progress, lambda: call(spark, table, "compute_table_stats", columns=columns or None)
        )
        _tell(draft, "statistics-file", done)
    if does_partitions:
        progress.stage("computing statistics of partitions")
        done = retry_on_conflict(spark, table, progress, lambda: call(spark, table, "compute_partition_stats"))
        _tell(draft, "partition-statistics-file", done)
    draft.changed = draft.wrote.files > 0
    return draft.end()


def _tell(draft: ReportBuilder, name: str, done: list[dict[str, Any]]) -> None:  # Any: rows
    written = next((row[name.replace("-", "_")] for row in done), None)
    if written:
        draft.details[name] = written
        draft.wrote += FileTotals(1)


def _known(
    spark: SparkSession, table: CatalogTable, snapshot: int, columns: list[str] | None
) -> tuple[bool, bool, bool]:
    """Whether the snapshot has statistics of the columns, of its partitions; whether the table has partitions.

    Over Spark Connect statistics are not to be seen: they are computed again.
    """
    if not has_java(spark):
        return False, False, "partition" in spark.table(table.inside("partitions")).columns
    loaded = load_table(spark, table, "looking for statistics")
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


JOB: Final = JobDefinition(JobKind.COMPUTE_STATISTICS, "Computes statistics for planners", OPTIONS, run)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
