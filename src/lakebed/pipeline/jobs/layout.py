"""Layout rewrite: rewrites files of older partition specs to the current spec and sort order.

Files of the current spec are not touched. Groups of files are rewritten and committed one after the other: a conflict
costs one group, and earlier commits stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakebed.core.jobs import JobKind
from lakebed.core.sizes import GIB
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.files.rewriting import rewrite_files
from lakebed.pipeline.files.staged_scans import file_tasks
from lakebed.pipeline.files.table_shape import measure
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import IntegerOption, Options, OptionUnit
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.iceberg_jvm import load_table
from lakebed.pipeline.spark.procedures import rows
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PURPOSE: Final = "rewriting a table's layout"
DEFAULT_GROUP_BYTES: Final = 10 * GIB
TARGET_SIZE_PROPERTY: Final = "write.target-file-size-bytes"
DEFAULT_TARGET_BYTES: Final = 512 * 1024 * 1024

OPTIONS: Final = (
    IntegerOption("target-file-size-bytes", "target file size; by default the table's", 1, OptionUnit.BYTES),
    IntegerOption("max-file-group-size-bytes", "maximum size of a commit; by default 10GiB", 1, OptionUnit.BYTES),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Rewrite files of older partition specs."""
    report = ReportBuilder(JobKind.REWRITE_LAYOUT, table, dry_run=dry_run)
    loaded = load_table(spark, table, PURPOSE)
    progress.stage("measuring")
    report.before = report.after = before = measure(spark, table)
    spec_id = int(loaded.spec().specId())
    (old,) = rows(
        spark,
        "SELECT count(*) AS files, coalesce(sum(file_size_in_bytes), 0) AS bytes, coalesce(sum(record_count), 0) AS n"
        f" FROM {table.inside('data_files')} WHERE spec_id <> {spec_id}",
    )
    if not old["files"]:
        report.skip(f"{before.data_files} data files", f"all have the current partition spec {spec_id}")
        return report.end()
    if dry_run:
        report.read = FileTotals(old["files"], old["bytes"], old["n"])
        return report.end()
    group_bytes = options.number("max-file-group-size-bytes") or DEFAULT_GROUP_BYTES
    target_bytes = options.number("target-file-size-bytes")
    made: list[int] = []
    rewritten: set[str] = set()
    while True:
        progress.stage(f"rewriting files of older partition specs ({len(rewritten)} of {old['files']})")
        done = retry_on_conflict(
            spark, table, progress, lambda: _rewrite_group(spark, table, group_bytes, target_bytes, report)
        )
        if done is None:
            break
        snapshot, paths = done
        made.append(snapshot)
        rewritten |= paths
    report.after = measure(spark, table)
    report.snapshots = made
    report.changed = bool(made)
    report.saved = FileTotals(report.read.files - report.wrote.files, max(report.read.bytes - report.wrote.bytes, 0))
    return report.end()


def _rewrite_group(
    spark: SparkSession, table: CatalogTable, group_bytes: int, target_bytes: int | None, report: ReportBuilder
) -> tuple[int, set[str]] | None:
    """Rewrite the next group; its snapshot and files. None if no file is left."""
    loaded = load_table(spark, table, PURPOSE)
    current = loaded.currentSnapshot()
    if current is None:
        return None
    group = _next_group(loaded, int(current.snapshotId()), group_bytes)
    if not group:
        return None
    outcome = rewrite_files(spark, loaded, group, target_bytes or _target_bytes(loaded))
    report.read += outcome.read
    report.wrote += outcome.wrote
    return outcome.snapshot, outcome.paths


def _next_group(loaded: Any, snapshot: int, group_bytes: int) -> list[Any]:  # Any: Iceberg's objects
    spec_id = loaded.spec().specId()
    group: list[Any] = []
    size = 0
    for task in file_tasks(loaded, snapshot):
        file = task.file()
        if file.specId() != spec_id:
            if group and size + file.fileSizeInBytes() > group_bytes:
                break
            group.append(task)
            size += file.fileSizeInBytes()
    return group


def _target_bytes(loaded: Any) -> int:  # Any: likewise
    return int(loaded.properties().getOrDefault(TARGET_SIZE_PROPERTY, str(DEFAULT_TARGET_BYTES)))


JOB: Final = JobDefinition(
    JobKind.REWRITE_LAYOUT, "Rewrites files of older partition specs to the current one", OPTIONS, run
)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
