"""Verification: a table is what its metadata says. It changes nothing.

Every file that the metadata refers to is there with its size; with `rows`, each data file has the rows that its
manifest counts; with `checksums`, every value of every row can be read, and the rows come to a sum that two tables with
the same rows have in common, whatever files they are in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakebed.core.jobs import JobKind
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import BooleanOption, Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

from ..errors import explanation, is_spark_error
from ..files.listing import directories_of, key_of, list_files
from ..files.staged_scans import file_tasks, unreadable
from ..files.table_shape import measure
from ..spark.iceberg_jvm import each, load_table
from ..spark.procedures import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

PURPOSE: Final = "verifying a table"

MISSING, SIZE, ROWS, UNREADABLE = "missing", "size", "rows", "unreadable"

OPTIONS: Final = (
    BooleanOption("rows", "count the rows of every data file; by default true"),
    BooleanOption("checksums", "read every value, and sum the rows up"),
    BooleanOption("all-snapshots", "look for the files of every snapshot, not of the current one alone"),
)

_KINDS: Final = {0: "data file", 1: "position delete file", 2: "equality delete file"}


@dataclass(frozen=True, slots=True)
class ReferencedFile:
    """A file that the metadata refers to."""

    path: str
    bytes: int | None
    """None if the metadata does not say."""
    kind: str


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Verify a table. A dry run does the same: nothing is changed in any case. Raises NotSupported."""
    draft = ReportBuilder(JobKind.VERIFY, table, dry_run=dry_run)
    loaded = load_table(spark, table, PURPOSE)
    current = loaded.currentSnapshot()
    snapshot = int(current.snapshotId()) if current is not None else None
    progress.stage("looking for files")
    all_files_are_there = _look_for_files(spark, table, loaded, snapshot, options, draft)
    reads_values = options.switch("checksums")
    if not all_files_are_there:
        draft.skip("rows", "files are missing or cut off: bring them back, then the rest can be read")
        return draft.end()
    progress.stage("measuring")
    draft.before = draft.after = measure(spark, table)
    if snapshot is None:
        draft.skip("rows", "nothing was written to the table yet")
    elif not options.switch("rows", True) and not reads_values:
        draft.skip("rows", "not asked for")
    elif _deletes_are_well(spark, table, snapshot, draft, progress):
        _check_rows(spark, table, loaded, snapshot, draft, progress, reads_values=reads_values)
    return draft.end()


# -- files ---------------------------------------------------------------------------------------------------------


class _Search:
    """Looks for files. What is there was listed once; a file that was not listed is asked for by itself, because it may
    have been written since, or be outside the table's directories.
    """

    def __init__(self, loaded: Any, there: Mapping[str, int], draft: ReportBuilder) -> None:  # Any: Iceberg's table
        self._loaded = loaded
        self._there = there
        self._draft = draft

    def finds_all(self, referred: Iterable[ReferencedFile]) -> bool:
        """Tell of files that are not there or have another size; whether there are none."""
        is_well = True
        for file in referred:
            found = self._there.get(key_of(file.path))
            if found is None:
                found = self._size_of(file.path)
            self._draft.read += FileTotals(1, found or 0)
            if found is None:
                self._draft.find(file.path, MISSING, f"{file.kind} is not there")
                is_well = False
            elif file.bytes not in (None, found):
                self._draft.find(file.path, SIZE, f"{file.kind} has {found} bytes; the metadata says {file.bytes}")
                is_well = False
        return is_well

    def _size_of(self, path: str) -> int | None:
        file = self._loaded.io().newInputFile(path)
        return int(file.getLength()) if file.exists() else None


def _look_for_files(
    spark: SparkSession,
    table: CatalogTable,
    loaded: Any,  # Any: likewise
    snapshot: int | None,
    options: Options,
    draft: ReportBuilder,
) -> bool:
    """Look for what the metadata refers to, from the top: what a file that is missing lists cannot be known."""
    directories = directories_of(spark, table)
    there = {key_of(file.path): file.bytes for directory in directories for file in list_files(spark, table, directory)}
    search = _Search(loaded, there, draft)
    all_snapshots = options.switch("all-snapshots")
    if not search.finds_all(_of_metadata(loaded, snapshot, all_snapshots=all_snapshots)):
        return False
    if snapshot is None:
        return True
    if all_snapshots:
        manifests, files = table.inside("all_manifests"), table.inside("all_files")
    else:
        manifests, files = (f"{table.inside(name)} VERSION AS OF {snapshot}" for name in ("manifests", "files"))
    try:
        return search.finds_all(_manifests(spark, manifests)) and search.finds_all(_files(spark, files))
    except Exception as error:
        if not is_spark_error(error):
            raise
        draft.find(str(table), UNREADABLE, f"manifests: {explanation(error)}")
        return False


def _of_metadata(
    loaded: Any, snapshot: int | None, *, all_snapshots: bool
) -> Iterator[ReferencedFile]:  # Any: likewise
    """The files that the table's metadata names itself."""
    yield ReferencedFile(str(loaded.operations().current().metadataFileLocation()), None, "current metadata")
    for statistics in (loaded.statisticsFiles(), loaded.partitionStatisticsFiles()):
        for file in each(statistics):
            if all_snapshots or file.snapshotId() == snapshot:
                yield ReferencedFile(str(file.path()), int(file.fileSizeInBytes()), "statistics file")
    for one in each(loaded.snapshots()):
        if all_snapshots or one.snapshotId() == snapshot:
            yield ReferencedFile(str(one.manifestListLocation()), None, "manifest list")


def _manifests(spark: SparkSession, source: str) -> Iterator[ReferencedFile]:
    for row in rows(spark, f"SELECT DISTINCT path, length FROM {source}"):
        yield ReferencedFile(row["path"], row["length"], "manifest")


def _files(spark: SparkSession, source: str) -> Iterator[ReferencedFile]:
    for row in spark.sql(f"SELECT DISTINCT content, file_path, file_size_in_bytes FROM {source}").toLocalIterator():
        yield ReferencedFile(row["file_path"], row["file_size_in_bytes"], _KINDS[row["content"]])


# -- rows ----------------------------------------------------------------------------------------------------------


def _deletes_are_well(
    spark: SparkSession, table: CatalogTable, snapshot: int, draft: ReportBuilder, progress: Progress
) -> bool:
    """Count what position delete files and deletion vectors hold; whether it is what the manifests say."""
    files = rows(
        spark,
        "SELECT content, file_path, sum(record_count) AS records"
        f" FROM {table.inside('delete_files')} VERSION AS OF {snapshot} GROUP BY content, file_path",
    )
    listed = {row["file_path"]: row["records"] for row in files if row["content"] == 1}
    if len(files) > len(listed):
        draft.skip(
            f"counts of {len(files) - len(listed)} equality delete files", "they are read with the files they are for"
        )
    if not listed:
        return True
    progress.stage("counting deletes")
    query = (
        "SELECT delete_file_path AS path, count(*) AS records"
        f" FROM {table.inside('position_deletes')} VERSION AS OF {snapshot} GROUP BY delete_file_path"
    )
    try:
        counted = {row["path"]: row["records"] for row in rows(spark, query)}
    except Exception as error:
        if not is_spark_error(error):
            raise
        draft.find(str(table), UNREADABLE, f"position deletes: {explanation(error)}")
        return False
    wrong = {path for path, records in listed.items() if counted.get(path, 0) != records}
    for path in sorted(wrong):
        draft.find(path, ROWS, f"holds {counted.get(path, 0)} deletes; its manifest says {listed[path]}")
    return not wrong


def _check_rows(
    spark: SparkSession,
    table: CatalogTable,
    loaded: Any,  # Any: likewise
    snapshot: int,
    draft: ReportBuilder,
    progress: Progress,
    *,
    reads_values: bool,
) -> None:
    """Count the rows of each data file, also those that are deleted; with `reads_values`, sum up those that are not."""
    progress.stage("reading rows" if reads_values else "counting rows")
    value = row_hash(spark.table(table.sql).schema) if reads_values else "0L"
    query = (
        "SELECT file, count(*) AS records, count_if(deleted) AS deleted,"
        " coalesce(sum(CAST(if(deleted, 0L, value) AS DECIMAL(38, 0))), 0) AS total"
        f" FROM (SELECT _file AS file, _deleted AS deleted, {value} AS value"
        f" FROM {table.sql} VERSION AS OF {snapshot}) GROUP BY file"
    )
    try:
        found = {row["file"]: row for row in rows(spark, query)}
    except Exception as error:
        if not is_spark_error(error):
            raise
        _tell_unreadable(spark, loaded, snapshot, draft, progress, explanation(error))
        return
    files = rows(spark, f"SELECT file_path, record_count FROM {table.inside('data_files')} VERSION AS OF {snapshot}")
    for row in files:
        counted = found[row["file_path"]]["records"] if row["file_path"] in found else 0
        if counted != row["record_count"]:
            draft.find(row["file_path"], ROWS, f"has {counted} rows; its manifest says {row['record_count']}")
    draft.read += FileTotals(rows=sum(row["records"] for row in found.values()))
    draft.details["live-rows"] = sum(row["records"] - row["deleted"] for row in found.values())
    if reads_values:
        draft.details["checksum"] = f"{sum(int(row['total']) for row in found.values()) % 2**64:016x}"


def _tell_unreadable(
    spark: SparkSession,
    loaded: Any,  # Any: likewise
    snapshot: int,
    draft: ReportBuilder,
    progress: Progress,
    reason: str,
) -> None:
    """Tell which files cannot be read. One that can on its second try was a fault of the way there, not of the file."""
    progress.stage("looking for files that cannot be read")
    found = False
    for path, why in unreadable(spark, loaded, file_tasks(loaded, snapshot)):
        draft.find(path, UNREADABLE, why)
        found = True
    if not found:
        draft.find(str(draft.table), UNREADABLE, f"it failed as a whole, and each file for itself did not: {reason}")


def row_hash(schema: StructType) -> str:
    """An SQL expression: 64 bits of a row, of all its columns."""
    terms = [
        f"to_json(struct({quoted_name(field.name)}))" if _has_no_hash(field.dataType) else quoted_name(field.name)
        for field in schema.fields
    ]
    return f"xxhash64({', '.join(terms)})"


def _has_no_hash(kind: DataType) -> bool:
    """Whether Spark's hash refuses a type: maps, whose order it takes for chance, and what may hold one."""
    words = kind.simpleString()
    return any(word in words for word in ("map<", "variant", "geometry", "geography"))


JOB: Final = JobDefinition(
    JobKind.VERIFY, "Checks that every file is there, and has the rows it should have", OPTIONS, run
)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
