"""Verification: checks a table against its metadata, without changing it.

Every referenced file exists with its size. With `rows`, each data file has the row count of its manifest entry. With
`checksums`, every value is read, and the report has a checksum of the rows that does not depend on their files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakebed.core.jobs import JobKind
from lakebed.pipeline.errors import explanation, is_spark_error
from lakebed.pipeline.files.listing import directories_of, key_of, list_files
from lakebed.pipeline.files.staged_scans import file_tasks, unreadable
from lakebed.pipeline.files.table_shape import measure
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import BooleanOption, Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.iceberg_jvm import each, load_table
from lakebed.pipeline.spark.procedures import rows
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

PURPOSE: Final = "verifying a table"

MISSING, SIZE, ROWS, UNREADABLE = "missing", "size", "rows", "unreadable"

OPTIONS: Final = (
    BooleanOption("rows", "count the rows of every data file; by default true"),
    BooleanOption("checksums", "read every value, and compute a checksum of the rows"),
    BooleanOption("all-snapshots", "check the files of all snapshots, not only of the current one"),
)

_KINDS: Final = {0: "data file", 1: "position delete file", 2: "equality delete file"}


@dataclass(frozen=True, slots=True)
class ReferencedFile:
    """A file that the metadata refers to."""

    path: str
    bytes: int | None
    """None if the metadata does not record it."""
    kind: str


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Verify a table, with or without `dry_run`. Raises NotSupported."""
    report = ReportBuilder(JobKind.VERIFY, table, dry_run=dry_run)
    loaded = load_table(spark, table, PURPOSE)
    current = loaded.currentSnapshot()
    snapshot = int(current.snapshotId()) if current is not None else None
    progress.stage("checking files")
    is_complete = _check_files(spark, table, loaded, snapshot, options, report)
    reads_values = options.switch("checksums")
    if not is_complete:
        report.skip("rows", "files are missing or truncated; restore them and verify again")
        return report.end()
    progress.stage("measuring")
    report.before = report.after = measure(spark, table)
    if snapshot is None:
        report.skip("rows", "the table is empty")
    elif not options.switch("rows", True) and not reads_values:
        report.skip("rows", "not requested")
    elif _check_deletes(spark, table, snapshot, report, progress):
        _check_rows(spark, table, loaded, snapshot, report, progress, reads_values=reads_values)
    return report.end()


# -- files ---------------------------------------------------------------------------------------------------------


class _FileCheck:
    """Compares files with a listing made once. Files that it lacks are looked up one by one: they may be newer, or
    outside of the table's directories.
    """

    def __init__(self, loaded: Any, listed: Mapping[str, int], report: ReportBuilder) -> None:  # Any: Iceberg's table
        self._loaded = loaded
        self._listed = listed
        self._draft = report

    def check(self, referred: Iterable[ReferencedFile]) -> bool:
        """Report missing files and files of another size; True if there are none."""
        is_complete = True
        for file in referred:
            found = self._listed.get(key_of(file.path))
            if found is None:
                found = self._size_of(file.path)
            self._draft.read += FileTotals(1, found or 0)
            if found is None:
                self._draft.find(file.path, MISSING, f"{file.kind} is missing")
                is_complete = False
            elif file.bytes not in (None, found):
                self._draft.find(file.path, SIZE, f"{file.kind} has {found} bytes; the metadata says {file.bytes}")
                is_complete = False
        return is_complete

    def _size_of(self, path: str) -> int | None:
        file = self._loaded.io().newInputFile(path)
        return int(file.getLength()) if file.exists() else None


def _check_files(
    spark: SparkSession,
    table: CatalogTable,
    loaded: Any,  # Any: likewise
    snapshot: int | None,
    options: Options,
    report: ReportBuilder,
) -> bool:
    """Check referenced files from the top: the entries of a missing file are unknown."""
    directories = directories_of(spark, table)
    listed = {
        key_of(file.path): file.bytes for directory in directories for file in list_files(spark, table, directory)
    }
    check = _FileCheck(loaded, listed, report).check
    all_snapshots = options.switch("all-snapshots")
    if not check(_of_metadata(loaded, snapshot, all_snapshots=all_snapshots)):
        return False
    if snapshot is None:
        return True
    if all_snapshots:
        manifests, files = table.inside("all_manifests"), table.inside("all_files")
    else:
        manifests, files = (f"{table.inside(name)} VERSION AS OF {snapshot}" for name in ("manifests", "files"))
    try:
        return check(_manifests(spark, manifests)) and check(_files(spark, files))
    except Exception as error:
        if not is_spark_error(error):
            raise
        report.find(str(table), UNREADABLE, f"manifests: {explanation(error)}")
        return False


def _of_metadata(
    loaded: Any, snapshot: int | None, *, all_snapshots: bool
) -> Iterator[ReferencedFile]:  # Any: likewise
    """The files that the metadata file refers to directly."""
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


def _check_deletes(
    spark: SparkSession, table: CatalogTable, snapshot: int, report: ReportBuilder, progress: Progress
) -> bool:
    """Compare the deletes in position delete files and deletion vectors with the manifests; True if equal."""
    files = rows(
        spark,
        "SELECT content, file_path, sum(record_count) AS records"
        f" FROM {table.inside('delete_files')} VERSION AS OF {snapshot} GROUP BY content, file_path",
    )
    listed = {row["file_path"]: row["records"] for row in files if row["content"] == 1}
    if len(files) > len(listed):
        report.skip(f"counts of {len(files) - len(listed)} equality delete files", "read with their data files")
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
        report.find(str(table), UNREADABLE, f"position deletes: {explanation(error)}")
        return False
    wrong = {path for path, records in listed.items() if counted.get(path, 0) != records}
    for path in sorted(wrong):
        report.find(path, ROWS, f"holds {counted.get(path, 0)} deletes; manifest count is {listed[path]}")
    return not wrong


def _check_rows(
    spark: SparkSession,
    table: CatalogTable,
    loaded: Any,  # Any: likewise
    snapshot: int,
    report: ReportBuilder,
    progress: Progress,
    *,
    reads_values: bool,
) -> None:
    """Compare the rows of each data file with its manifest entry; with `reads_values`, compute the checksum."""
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
        _report_unreadable(spark, loaded, snapshot, report, progress, explanation(error))
        return
    files = rows(spark, f"SELECT file_path, record_count FROM {table.inside('data_files')} VERSION AS OF {snapshot}")
    for row in files:
        counted = found[row["file_path"]]["records"] if row["file_path"] in found else 0
        if counted != row["record_count"]:
            report.find(row["file_path"], ROWS, f"has {counted} rows; manifest count is {row['record_count']}")
    report.read += FileTotals(rows=sum(row["records"] for row in found.values()))
    report.details["live-rows"] = sum(row["records"] - row["deleted"] for row in found.values())
    if reads_values:
        report.details["checksum"] = f"{sum(int(row['total']) for row in found.values()) % 2**64:016x}"


def _report_unreadable(
    spark: SparkSession,
    loaded: Any,  # Any: likewise
    snapshot: int,
    report: ReportBuilder,
    progress: Progress,
    reason: str,
) -> None:
    """Report the unreadable files. A file that is readable on retry was hit by a transient failure."""
    progress.stage("searching for unreadable files")
    found = False
    for path, reason_of_file in unreadable(spark, loaded, file_tasks(loaded, snapshot)):
        report.find(path, UNREADABLE, reason_of_file)
        found = True
    if not found:
        report.find(str(report.table), UNREADABLE, f"reading failed, but each file is readable: {reason}")


def row_hash(schema: StructType) -> str:
    """A 64-bit hash of a row as an SQL expression. Sums of it do not depend on the order of rows or on files."""
    terms = [
        f"to_json(struct({quoted_name(field.name)}))" if _has_no_hash(field.dataType) else quoted_name(field.name)
        for field in schema.fields
    ]
    return f"xxhash64({', '.join(terms)})"


def _has_no_hash(kind: DataType) -> bool:
    """Whether Spark's hash refuses a type: maps, whose order is not defined, and types that may contain one."""
    words = kind.simpleString()
    return any(word in words for word in ("map<", "variant", "geometry", "geography"))


JOB: Final = JobDefinition(JobKind.VERIFY, "Checks that every file exists and has the recorded rows", OPTIONS, run)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
