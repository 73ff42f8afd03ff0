"""Orphan file removal: removes old files in a table's directories that its metadata does not refer to.

Files must be older than any write takes from its first file to its commit, because uncommitted files look like orphans.
The minimum age is therefore a day, unless `allow-young` states that the table has no writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakebed.core.clock import Clock, SystemClock
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.core.sizes import format_seconds
from lakebed.iceberg.snapshot_expiry import GC_ENABLED, is_gc_enabled
from lakebed.pipeline.files.listing import directories_of, is_inside, list_files
from lakebed.pipeline.files.table_shape import measure, properties_of
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import BooleanOption, IntegerOption, ListOption, Options, OptionUnit, TextOption
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.iceberg_jvm import consumer_of, each, java_of, load_table
from lakebed.pipeline.spark.procedures import TimestampArgument, call
from lakebed.pipeline.spark.session import has_java
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS: Final = 86_400_000
DEFAULT_AGE_MS: Final = 3 * DAY_MS

_NAMED: Final = 100
"""Maximum number of files named in a report."""

OPTIONS: Final = (
    IntegerOption("older-than-ms", "minimum age of files; by default 3d", 0, OptionUnit.MILLISECONDS),
    BooleanOption("allow-young", "allow older-than-ms below a day; only for tables without writers"),
    ListOption("locations", "directories of the table; by default all"),
    TextOption(
        "prefix-mismatch-mode",
        "handling of files whose scheme or authority differs from the metadata; by default error",
        choices=("error", "ignore", "delete"),
    ),
    IntegerOption("max-delete", "remove nothing if there are more orphans than this", 1),
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
    """Remove the orphans of a table."""
    age_ms = window(options)
    report = ReportBuilder(JobKind.REMOVE_ORPHANS, table, dry_run=dry_run)
    progress.stage("measuring")
    report.before = report.after = measure(spark, table)
    if not is_gc_enabled(properties_of(spark, table)):
        report.skip("table", f"property {GC_ENABLED} is false")
        return report.end()
    # Taken before the listing: files written during the job are too young in any case.
    older_than_ms = (clock or SystemClock()).now_ms() - age_ms
    locations = _locations(spark, table, options)
    sizes: dict[str, int] = {}
    if has_java(spark):
        progress.stage("listing files")
        sizes = {file.path: file.bytes for location in locations for file in list_files(spark, table, location)}
        report.read = FileTotals(len(sizes), sum(sizes.values()))
    limit = options.number("max-delete")
    if dry_run or limit is not None:
        progress.stage("searching for orphans")
        found = _call(spark, table, options, locations, older_than_ms, dry_run=True)
        if limit is not None and len(found) > limit:
            report.skip(f"{len(found)} orphans", f"more than max-delete={limit}; review them with a dry run")
        if dry_run or (limit is not None and len(found) > limit):
            _report_orphans(report, found, sizes)
            report.removed = report.removed if dry_run else FileTotals()
            return report.end()
    progress.stage("removing orphans")
    found = _call(spark, table, options, locations, older_than_ms, dry_run=False)
    _report_orphans(report, found, sizes)
    report.saved = report.removed
    report.changed = bool(found)
    if not found:
        report.skip("files", f"all are referred to, or younger than {format_seconds(age_ms / 1000)}")
    return report.end()


def window(options: Options) -> int:
    """The minimum age of files. Raises InvalidInput for less than a day without `allow-young`."""
    age_ms = options.number("older-than-ms")
    if age_ms is None:
        return DEFAULT_AGE_MS
    if age_ms < DAY_MS and not options.switch("allow-young"):
        raise InvalidInput(
            "files younger than a day may belong to a pending commit; use 24h or more, or allow-young for a table"
            f" without writers. older-than-ms={age_ms}",
            argument="older-than-ms",
        )
    return age_ms


def _locations(spark: SparkSession, table: CatalogTable, options: Options) -> list[str]:
    own = directories_of(spark, table)
    requested = options.names("locations")
    if requested is None:
        return own
    for location in requested:
        if not any(is_inside(location, directory) for directory in own):
            # Outside of them may be other tables, whose files would all count as orphans.
            raise InvalidInput(
                f"not a directory of the table. location={location} directories={','.join(own)}", argument="locations"
            )
    return requested


def _call(
    spark: SparkSession,
    table: CatalogTable,
    options: Options,
    locations: Sequence[str],
    older_than_ms: int,
    *,
    dry_run: bool,
) -> list[str]:
    mode = options.text("prefix-mismatch-mode")
    found: set[str] = set()
    for location in locations:
        if options.switch("allow-young"):
            found |= set(_act(spark, table, location, older_than_ms, mode, dry_run=dry_run))
        else:
            found |= {
                row["orphan_file_location"]
                for row in call(
                    spark,
                    table,
                    "remove_orphan_files",
                    older_than=TimestampArgument(older_than_ms),
                    location=location,
                    dry_run=dry_run,
                    prefix_mismatch_mode=mode,
                    # Listed with the table's vended credentials, which Hadoop's listing lacks.
                    prefix_listing=True,
                )
            }
    return sorted(found)


def _act(
    spark: SparkSession, table: CatalogTable, location: str, older_than_ms: int, mode: str | None, *, dry_run: bool
) -> list[str]:
    """Call Iceberg's action directly: the procedure refuses an age below a day."""
    purpose = "removing orphans younger than a day"
    java = java_of(spark, purpose)
    action = (
        java.org.apache.iceberg.spark.actions.SparkActions.get()
        .deleteOrphanFiles(load_table(spark, table, purpose))
        .location(location)
        .olderThan(older_than_ms)
        .usePrefixListing(True)
    )
    if mode is not None:
        modes = java.org.apache.iceberg.actions.DeleteOrphanFiles.PrefixMismatchMode
        action = action.prefixMismatchMode(modes.fromString(mode))
    if dry_run:
        action = action.deleteWith(consumer_of(spark, _keep))
    return [str(path) for path in each(action.execute().orphanFileLocations())]


def _keep(_: object) -> None:
    """The delete function of a dry run."""


def _report_orphans(report: ReportBuilder, found: Sequence[str], sizes: dict[str, int]) -> None:
    report.removed = FileTotals(len(found), sum(sizes.get(path, 0) for path in found))
    report.details["orphans"] = list(found[:_NAMED])


JOB: Final = JobDefinition(
    JobKind.REMOVE_ORPHANS, "Removes files that the table's metadata does not refer to", OPTIONS, run
)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
