"""Compaction: rewrites small files to the target size, and applies deletes.

Binpack keeps the order of rows; sort and zorder cluster them. All three strategies choose the same files: those too
small, too large, or with too many deletes. A compacted table therefore needs no further work, whatever its order;
`rewrite-all` takes all files.

Deletes of a single data file, such as deletion vectors, count for that file. Position deletes of a partition and
equality deletes do not say how many rows of a file they delete: where the table's deletes reach
`delete-ratio-threshold`, every file with deletes is rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.files.table_shape import TableShape, measure, snapshot_ids
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import (
    BooleanOption,
    IntegerOption,
    ListOption,
    Options,
    OptionUnit,
    RatioOption,
    TextOption,
)
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.iceberg_jvm import closing_each, java_map, java_of, load_table
from lakebed.pipeline.spark.procedures import Row, call, rows
from lakebed.pipeline.spark.session import has_java
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELETE_RATIO: Final = 0.1
"""Share of deleted rows from which a rewrite pays off."""

BINPACK, SORT, ZORDER = "binpack", "sort", "zorder"

OPTIONS: Final = (
    TextOption("strategy", "order of rows in the new files", choices=(BINPACK, SORT, ZORDER)),
    TextOption("sort-order", "sort order such as `a ASC NULLS FIRST, b DESC`; by default the table's"),
    ListOption("zorder-columns", "columns to cluster by zorder"),
    IntegerOption("target-file-size-bytes", "target file size; by default the table's", 1, OptionUnit.BYTES),
    IntegerOption(
        "min-file-size-bytes", "files below this size are rewritten; by default 75 % of the target", 0, OptionUnit.BYTES
    ),
    IntegerOption(
        "max-file-size-bytes",
        "files above this size are rewritten; by default 180 % of the target",
        1,
        OptionUnit.BYTES,
    ),
    IntegerOption("min-input-files", "minimum number of such files in a partition; by default 5", 1),
    IntegerOption("max-file-group-size-bytes", "maximum size of a file group; by default 100GiB", 1, OptionUnit.BYTES),
    IntegerOption("max-concurrent-file-group-rewrites", "maximum number of groups at a time; by default 5", 1),
    IntegerOption("delete-file-threshold", "files with this many delete files are rewritten, whatever their size", 1),
    RatioOption("delete-ratio-threshold", "files with this share of deleted rows are rewritten; by default 0.1"),
    BooleanOption("rewrite-deletes", "also compact the remaining position delete files"),
    BooleanOption("rewrite-all", "also rewrite files of the right size"),
    BooleanOption("partial-progress", "commit each group when it is ready: a conflict costs one group"),
    IntegerOption("partial-progress-max-commits", "maximum number of commits; by default 10", 1),
    TextOption("where", "only files that may have rows matching this condition"),
)

_ACTION_OPTIONS: Final[Mapping[str, str]] = {
    **{
        name: name
        for name in (
            "target-file-size-bytes",
            "min-file-size-bytes",
            "max-file-size-bytes",
            "min-input-files",
            "max-file-group-size-bytes",
            "max-concurrent-file-group-rewrites",
            "delete-file-threshold",
            "rewrite-all",
        )
    },
    "partial-progress": "partial-progress.enabled",
    "partial-progress-max-commits": "partial-progress.max-commits",
}
"""Options of the job and of Iceberg's action."""

_PLANNER_OPTIONS: Final = frozenset(
    {
        "target-file-size-bytes",
        "min-file-size-bytes",
        "max-file-size-bytes",
        "min-input-files",
        "max-file-group-size-bytes",
        "delete-file-threshold",
        "delete-ratio-threshold",
        "rewrite-all",
    }
)


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Strategy and sort order in the form of Iceberg's procedure."""

    strategy: str
    sort_order: str | None


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """Expected input and output of a rewrite."""

    groups: int
    read: FileTotals
    wrote: FileTotals


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Compact a table."""
    arrangement = read_arrangement(options)
    report = ReportBuilder(JobKind.COMPACT, table, dry_run=dry_run)
    progress.stage("measuring")
    report.before = report.after = before = measure(spark, table)
    if before.snapshot is None:
        report.skip("table", "the table is empty")
        return report.end()
    action = action_options(options, before)
    if has_java(spark) or dry_run:
        progress.stage("planning")
        plan = plan_rewrite(spark, table, action, options.text("where"))
        report.details["planned-groups"] = plan.groups
        if not plan.groups:
            report.skip("data files", _skip_reason(before, action))
        if dry_run:
            report.read, report.wrote = plan.read, plan.wrote
            return report.end()
        if not plan.groups and not before.delete_files:
            return report.end()
    known = snapshot_ids(spark, table)
    progress.stage("rewriting data files")
    _rewrite(spark, table, arrangement, action, options, report, progress)
    # An unpartitioned table keeps the deletes of removed files until its delete files are rewritten.
    if options.switch("rewrite-deletes") or (report.read.files and before.position_deletes):
        _rewrite_deletes(spark, table, options, report, progress)
    progress.stage("measuring")
    _conclude(spark, table, report, known)
    return report.end()


def read_arrangement(options: Options) -> RowOrder:
    """The strategy with its parameters. Raises InvalidInput for contradicting options."""
    order, columns = options.text("sort-order"), options.names("zorder-columns")
    strategy = options.text("strategy") or (SORT if order else ZORDER if columns else BINPACK)
    if order is not None and strategy != SORT:
        raise InvalidInput(f"sort-order requires strategy sort. strategy={strategy}", argument="sort-order")
    if columns is not None and strategy != ZORDER:
        raise InvalidInput(f"zorder-columns requires strategy zorder. strategy={strategy}", argument="strategy")
    if strategy == ZORDER:
        if not columns:
            raise InvalidInput("strategy zorder requires zorder-columns", argument="zorder-columns")
        return RowOrder(SORT, f"zorder({', '.join(quoted_name(column) for column in columns)})")
    return RowOrder(strategy, order)


def action_options(options: Options, shape: TableShape) -> dict[str, str]:
    """Options of Iceberg's action for a table of this shape."""
    ratio = options.ratio("delete-ratio-threshold", DELETE_RATIO)
    chosen = {action: text for job, action in _ACTION_OPTIONS.items() if (text := options.as_text(job)) is not None}
    chosen |= {"delete-ratio-threshold": str(ratio), "remove-dangling-deletes": "true"}
    if "delete-file-threshold" not in options and shape.delete_ratio >= ratio:
        chosen["delete-file-threshold"] = "1"
    return chosen


def plan_rewrite(spark: SparkSession, table: CatalogTable, action: Mapping[str, str], where: str | None) -> RewritePlan:
    """Plan with Iceberg's own planner. Raises NotSupported on Spark Connect."""
    java = java_of(spark, "planning a compaction")
    loaded = load_table(spark, table, "planning a compaction")
    planner = java.org.apache.iceberg.actions.BinPackRewriteFilePlanner(loaded, _filter(spark, java, table, where))
    planner.init(java_map(spark, {name: value for name, value in action.items() if name in _PLANNER_OPTIONS}))
    plan = RewritePlan(0, FileTotals(), FileTotals())
    for group in closing_each(planner.plan().groups()):
        group_input = FileTotals(group.inputFileNum(), group.inputFilesSizeInBytes())
        plan = RewritePlan(
            plan.groups + 1, plan.read + group_input, plan.wrote + FileTotals(group.expectedOutputFiles())
        )
    return plan


def _filter(spark: SparkSession, java: Any, table: CatalogTable, where: str | None) -> Any:  # Any: Java's
    if where is None:
        return java.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    converter = java.org.apache.spark.sql.execution.datasources.SparkExpressionConverter
    resolved = converter.collectResolvedSparkExpression(spark._jsparkSession, table.sql, where)
    return converter.convertToIcebergExpression(resolved)


def _rewrite(
    spark: SparkSession,
    table: CatalogTable,
    arrangement: RowOrder,
    action: Mapping[str, str],
    options: Options,
    report: ReportBuilder,
    progress: Progress,
) -> None:
    def attempt() -> Row:
        (done,) = call(
            spark,
            table,
            "rewrite_data_files",
            strategy=arrangement.strategy,
            sort_order=arrangement.sort_order,
            options=action,
            where=options.text("where"),
        )
        return done

    done = retry_on_conflict(spark, table, progress, attempt)
    report.read += FileTotals(done["rewritten_data_files_count"], done["rewritten_bytes_count"])
    report.wrote += FileTotals(done["added_data_files_count"])
    report.removed += FileTotals(done["removed_delete_files_count"])
    if failed := done["failed_data_files_count"]:
        report.skip(f"{failed} data files", "the rewrite failed, and the rest was committed; run the job again")


def _rewrite_deletes(
    spark: SparkSession, table: CatalogTable, options: Options, report: ReportBuilder, progress: Progress
) -> None:
    shape = measure(spark, table)
    if shape.position_deletes < 2:
        report.skip(
            "position delete files",
            f"the table has {shape.position_deletes}; deletion vectors are one per data file already",
        )
        return
    progress.stage("rewriting position delete files")
    limits = {"rewrite-all": "true"}
    if (text := options.as_text("max-concurrent-file-group-rewrites")) is not None:
        limits["max-concurrent-file-group-rewrites"] = text

    def attempt() -> Row:
        (done,) = call(spark, table, "rewrite_position_delete_files", options=limits, where=options.text("where"))
        return done

    done = retry_on_conflict(spark, table, progress, attempt)
    report.read += FileTotals(done["rewritten_delete_files_count"], done["rewritten_bytes_count"])
    report.wrote += FileTotals(done["added_delete_files_count"])


def _conclude(spark: SparkSession, table: CatalogTable, report: ReportBuilder, known: set[int]) -> None:
    """Complete the report from the job's snapshots: new ones with operation `replace`."""
    report.after = measure(spark, table)
    made = [
        row
        for row in rows(spark, f"SELECT snapshot_id, operation, summary FROM {table.inside('snapshots')}")
        if row["snapshot_id"] not in known and row["operation"] == "replace"
    ]
    report.snapshots = [row["snapshot_id"] for row in made]
    report.changed = bool(made)
    written = sum(int(row["summary"].get("added-files-size", 0)) for row in made)
    freed = sum(int(row["summary"].get("removed-files-size", 0)) for row in made)
    written_rows = sum(int(row["summary"].get("added-records", 0)) for row in made)
    report.wrote = FileTotals(report.wrote.files, written, written_rows)
    report.saved = FileTotals(
        report.read.files + report.removed.files - report.wrote.files, max(freed - written, 0), report.saved.rows
    )


def _skip_reason(shape: TableShape, action: Mapping[str, str]) -> str:
    return (
        f"none of {shape.data_files} files qualifies: fewer than {action.get('min-input-files', '5')} per partition"
        f" are too small or too large, and {shape.delete_ratio:.0%} of the rows are deleted"
    )


JOB: Final = JobDefinition(JobKind.COMPACT, "Compacts small files, and files with many deleted rows", OPTIONS, run)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
