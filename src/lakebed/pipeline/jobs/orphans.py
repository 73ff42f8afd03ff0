"""Files in a table's directories that nothing of the table refers to are removed, when they are old enough.

Old enough means older than any writer takes from its first file to its commit: what was just written looks the same as
what was left behind. Hence a window of a day at least, unless somebody says that nobody writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakebed.core.clock import Clock, SystemClock
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.core.sizes import format_seconds
from lakebed.iceberg.snapshot_expiry import GC_ENABLED, is_gc_enabled
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import BooleanOption, IntegerOption, ListOption, Options, OptionUnit, TextOption
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

from ..files.listing import directories_of, is_inside, list_files
from ..files.table_shape import measure, properties_of
from ..spark.iceberg_jvm import consumer_of, each, java_of, load_table
from ..spark.procedures import TimestampArgument, call
from ..spark.session import has_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS: Final = 86_400_000
DEFAULT_AGE_MS: Final = 3 * DAY_MS

_NAMED: Final = 100
"""How many of the files a report names."""

OPTIONS: Final = (
    IntegerOption("older-than-ms", "how old a file is at least; by default 3d", 0, OptionUnit.MILLISECONDS),
    BooleanOption("allow-young", "let older-than-ms be less than a day: nobody may be writing to the table"),
    ListOption("locations", "directories of the table to look in; by default all of them"),
    TextOption(
        "prefix-mismatch-mode",
        "what to do with files whose scheme or bucket is spelled otherwise than in the metadata; by default error",
        choices=("error", "ignore", "delete"),
    ),
    IntegerOption("max-delete", "leave all of them where there are more than so many", 1),
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
    draft = ReportBuilder(JobKind.REMOVE_ORPHANS, table, dry_run=dry_run)
    progress.stage("measuring")
    draft.before = draft.after = measure(spark, table)
    if not is_gc_enabled(properties_of(spark, table)):
        draft.skip("table", f"its property {GC_ENABLED} is false: nothing of it may be removed")
        return draft.end()
    # Of the moment before the first look: a file that is written while this runs is too young in any case.
    older_than_ms = (clock or SystemClock()).now_ms() - age_ms
    locations = _locations(spark, table, options)
    sizes: dict[str, int] = {}
    if has_java(spark):
        progress.stage("listing files")
        sizes = {file.path: file.bytes for location in locations for file in list_files(spark, table, location)}
        draft.read = FileTotals(len(sizes), sum(sizes.values()))
    limit = options.number("max-delete")
    if dry_run or limit is not None:
        progress.stage("looking for orphans")
        found = _call(spark, table, options, locations, older_than_ms, only_look=True)
        if limit is not None and len(found) > limit:
            draft.skip(f"{len(found)} orphans", f"more than max-delete={limit}: look at them first, in a dry run")
        if dry_run or (limit is not None and len(found) > limit):
            _tell(draft, found, sizes)
            draft.removed = draft.removed if dry_run else FileTotals()
            return draft.end()
    progress.stage("removing orphans")
    found = _call(spark, table, options, locations, older_than_ms, only_look=False)
    _tell(draft, found, sizes)
    draft.saved = draft.removed
    draft.changed = bool(found)
    if not found:
        draft.skip("files", f"each is referred to, or younger than {format_seconds(age_ms / 1000)}")
    return draft.end()


def window(options: Options) -> int:
    """How old files are at least. Raises InvalidInput for less than a day, unless that is allowed."""
    age_ms = options.number("older-than-ms")
    if age_ms is None:
        return DEFAULT_AGE_MS
    if age_ms < DAY_MS and not options.switch("allow-young"):
        raise InvalidInput(
            "files of less than a day may belong to a commit that is still to come: give 24h or more, or allow-young if"
            f" nobody writes to the table. older-than-ms={age_ms}",
            argument="older-than-ms",
        )
    return age_ms


def _locations(spark: SparkSession, table: CatalogTable, options: Options) -> list[str]:
    own = directories_of(spark, table)
    asked = options.names("locations")
    if asked is None:
        return own
    for location in asked:
        if not any(is_inside(location, directory) for directory in own):
            # What lies around them may be another table, every file of which would be taken for an orphan.
            raise InvalidInput(
                f"not a directory of the table. location={location} directories={','.join(own)}", argument="locations"
            )
    return asked


def _call(
    spark: SparkSession,
    table: CatalogTable,
    options: Options,
    locations: Sequence[str],
    older_than_ms: int,
    *,
    only_look: bool,
) -> list[str]:
    mode = options.text("prefix-mismatch-mode")
    found: set[str] = set()
    for location in locations:
        if options.switch("allow-young"):
            found |= set(_act(spark, table, location, older_than_ms, mode, only_look=only_look))
        else:
            found |= {
                row["orphan_file_location"]
                for row in call(
                    spark,
                    table,
                    "remove_orphan_files",
                    older_than=TimestampArgument(older_than_ms),
                    location=location,
                    dry_run=only_look,
                    prefix_mismatch_mode=mode,
                    # By the table's own keys, which Hadoop's listing does not have.
                    prefix_listing=True,
                )
            }
    return sorted(found)


def _act(
    spark: SparkSession, table: CatalogTable, location: str, older_than_ms: int, mode: str | None, *, only_look: bool
) -> list[str]:
    """The same by the action behind the procedure, which itself refuses windows of less than a day."""
    purpose = "removing orphans of less than a day"
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
    if only_look:
        action = action.deleteWith(consumer_of(spark, _leave))
    return [str(path) for path in each(action.execute().orphanFileLocations())]


def _leave(_: object) -> None:
    """What is done with an orphan that is only looked for."""


def _tell(draft: ReportBuilder, found: Sequence[str], sizes: dict[str, int]) -> None:
    draft.removed = FileTotals(len(found), sum(sizes.get(path, 0) for path in found))
    draft.details["orphans"] = list(found[:_NAMED])


JOB: Final = JobDefinition(JobKind.REMOVE_ORPHANS, "Removes files that nothing of the table refers to", OPTIONS, run)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
