"""Compaction: small files become files of the size that was aimed at, and rows that were deleted are left out of them.

Binpack keeps the rows in the order in which they come, sort and zorder bring together what is read together. Which
files are rewritten is the same with all three: those that are too small, too large, or have too many deletes. So a
table that was compacted has nothing more to do, however it is ordered; `rewrite-all` takes all files.

Deletes that are known of one data file alone, as deletion vectors are, count for that file. Position deletes of a whole
partition and equality deletes do not tell how much of a file they delete: where the deletes of the table as a whole
reach `delete-ratio-threshold`, every file that has any is rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
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
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

from ..commit_conflicts import retry_on_conflict
from ..files.table_shape import TableShape, measure, snapshot_ids
from ..spark.iceberg_jvm import closing_each, java_map, java_of, load_table
from ..spark.procedures import Row, call, rows
from ..spark.session import has_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELETE_RATIO: Final = 0.1
"""A tenth of the rows deleted is worth a rewrite."""

BINPACK, SORT, ZORDER = "binpack", "sort", "zorder"

OPTIONS: Final = (
    TextOption("strategy", "how rows are arranged in the new files", choices=(BINPACK, SORT, ZORDER)),
    TextOption("sort-order", "what to sort by, such as `a ASC NULLS FIRST, b DESC`; the table's own order if left out"),
    ListOption("zorder-columns", "what to bring together by zorder"),
    IntegerOption("target-file-size-bytes", "the size aimed at; the table's own if left out", 1, OptionUnit.BYTES),
    IntegerOption(
        "min-file-size-bytes", "files below are rewritten; by default 75 % of the target", 0, OptionUnit.BYTES
    ),
    IntegerOption(
        "max-file-size-bytes", "files above are rewritten; by default 180 % of the target", 1, OptionUnit.BYTES
    ),
    IntegerOption("min-input-files", "how many such files of a partition are worth it; by default 5", 1),
    IntegerOption("max-file-group-size-bytes", "how much is rewritten at once; by default 100GiB", 1, OptionUnit.BYTES),
    IntegerOption("max-concurrent-file-group-rewrites", "how many groups at once; by default 5", 1),
    IntegerOption("delete-file-threshold", "files with so many delete files are rewritten, whatever their size", 1),
    RatioOption("delete-ratio-threshold", "files with so many of their rows deleted are rewritten; by default 0.1"),
    BooleanOption("rewrite-deletes", "compact position delete files that stay, too"),
    BooleanOption("rewrite-all", "rewrite files that are well sized, too"),
    BooleanOption("partial-progress", "commit groups as they are ready, so that a conflict costs one group"),
    IntegerOption("partial-progress-max-commits", "how many commits at most; by default 10", 1),
    TextOption("where", "only files that may have rows for which this holds"),
)

_PASSED_ON: Final[Mapping[str, str]] = {
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
"""Our words, and those of Iceberg's action."""

_OF_THE_PLAN: Final = frozenset(
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
    """How rows are arranged, as the procedure takes it."""

    strategy: str
    sort_order: str | None


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """What a rewrite would take."""

    groups: int
    read: FileTotals
    wrote: FileTotals


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Compact a table."""
    arrangement = read_arrangement(options)
    draft = ReportBuilder(JobKind.COMPACT, table, dry_run=dry_run)
    progress.stage("measuring")
    draft.before = draft.after = before = measure(spark, table)
    if before.snapshot is None:
        draft.skip("table", "nothing was written to it yet")
        return draft.end()
    action = action_options(options, before)
    if has_java(spark) or dry_run:
        progress.stage("planning")
        plan = plan_rewrite(spark, table, action, options.text("where"))
        draft.details["planned-groups"] = plan.groups
        if not plan.groups:
            draft.skip("data files", _why_not(before, action))
        if dry_run:
            draft.read, draft.wrote = plan.read, plan.wrote
            return draft.end()
        if not plan.groups and not before.delete_files:
            return draft.end()
    known = snapshot_ids(spark, table)
    progress.stage("rewriting data files")
    _rewrite(spark, table, arrangement, action, options, draft, progress)
    # Deletes of files that are gone by now stay with an unpartitioned table until somebody looks through them.
    if options.switch("rewrite-deletes") or (draft.read.files and before.position_deletes):
        _rewrite_deletes(spark, table, options, draft, progress)
    progress.stage("measuring")
    _conclude(spark, table, draft, known)
    return draft.end()


def read_arrangement(options: Options) -> RowOrder:
    """The strategy and what it needs. Raises InvalidInput for what does not go together."""
    order, columns = options.text("sort-order"), options.names("zorder-columns")
    strategy = options.text("strategy") or (SORT if order else ZORDER if columns else BINPACK)
    if order is not None and strategy != SORT:
        raise InvalidInput(f"sort-order goes with the strategy sort. strategy={strategy}", argument="sort-order")
    if columns is not None and strategy != ZORDER:
        raise InvalidInput(f"zorder-columns goes with the strategy zorder. strategy={strategy}", argument="strategy")
    if strategy == ZORDER:
        if not columns:
            raise InvalidInput("the strategy zorder needs zorder-columns", argument="zorder-columns")
        return RowOrder(SORT, f"zorder({', '.join(quoted_name(column) for column in columns)})")
    return RowOrder(strategy, order)


def action_options(options: Options, shape: TableShape) -> dict[str, str]:
    """What Iceberg's action is told, for a table of that shape."""
    ratio = options.ratio("delete-ratio-threshold", DELETE_RATIO)
    chosen = {theirs: text for ours, theirs in _PASSED_ON.items() if (text := options.as_text(ours)) is not None}
    chosen |= {"delete-ratio-threshold": str(ratio), "remove-dangling-deletes": "true"}
    if "delete-file-threshold" not in options and shape.delete_ratio >= ratio:
        chosen["delete-file-threshold"] = "1"
    return chosen


def plan_rewrite(spark: SparkSession, table: CatalogTable, action: Mapping[str, str], where: str | None) -> RewritePlan:
    """What would be rewritten now, by Iceberg's own planner. Raises NotSupported on Spark Connect."""
    java = java_of(spark, "planning a compaction without doing it")
    loaded = load_table(spark, table, "planning a compaction without doing it")
    planner = java.org.apache.iceberg.actions.BinPackRewriteFilePlanner(loaded, _filter(spark, java, table, where))
    planner.init(java_map(spark, {name: value for name, value in action.items() if name in _OF_THE_PLAN}))
    plan = RewritePlan(0, FileTotals(), FileTotals())
    for group in closing_each(planner.plan().groups()):
        taken = FileTotals(group.inputFileNum(), group.inputFilesSizeInBytes())
        plan = RewritePlan(plan.groups + 1, plan.read + taken, plan.wrote + FileTotals(group.expectedOutputFiles()))
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
    draft: ReportBuilder,
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
    draft.read += FileTotals(done["rewritten_data_files_count"], done["rewritten_bytes_count"])
    draft.wrote += FileTotals(done["added_data_files_count"])
    draft.removed += FileTotals(done["removed_delete_files_count"])
    if failed := done["failed_data_files_count"]:
        draft.skip(f"{failed} data files", "their rewrite failed, and the rest was committed: run it again")


def _rewrite_deletes(
    spark: SparkSession, table: CatalogTable, options: Options, draft: ReportBuilder, progress: Progress
) -> None:
    shape = measure(spark, table)
    if shape.position_deletes < 2:
        draft.skip(
            "position delete files",
            f"there are {shape.position_deletes} of them; deletion vectors are one a data file already",
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
    draft.read += FileTotals(done["rewritten_delete_files_count"], done["rewritten_bytes_count"])
    draft.wrote += FileTotals(done["added_delete_files_count"])


def _conclude(spark: SparkSession, table: CatalogTable, draft: ReportBuilder, known: set[int]) -> None:
    """What the snapshots say that are new and rewrote something: those are the job's."""
    draft.after = measure(spark, table)
    made = [
        row
        for row in rows(spark, f"SELECT snapshot_id, operation, summary FROM {table.inside('snapshots')}")
        if row["snapshot_id"] not in known and row["operation"] == "replace"
    ]
    draft.snapshots = [row["snapshot_id"] for row in made]
    draft.changed = bool(made)
    written = sum(int(row["summary"].get("added-files-size", 0)) for row in made)
    freed = sum(int(row["summary"].get("removed-files-size", 0)) for row in made)
    written_rows = sum(int(row["summary"].get("added-records", 0)) for row in made)
    draft.wrote = FileTotals(draft.wrote.files, written, written_rows)
    draft.saved = FileTotals(
        draft.read.files + draft.removed.files - draft.wrote.files, max(freed - written, 0), draft.saved.rows
    )


def _why_not(shape: TableShape, action: Mapping[str, str]) -> str:
    return (
        f"none of {shape.data_files} files needs it: fewer than {action.get('min-input-files', '5')} of a partition are"
        f" too small or too large, and {shape.delete_ratio:.0%} of the rows are deleted"
    )


JOB: Final = JobDefinition(JobKind.COMPACT, "Rewrites small files, and files with many deleted rows", OPTIONS, run)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
