"""Imports: create a table from a folder of Parquet files, or from a table of another catalog.

In place, files are not copied: the folder becomes the table's location, or the other table's metadata is registered
with its history. With `copy`, rows are written to new files, and the source is not changed.

The import's source is a table property. A repeated import finds the table complete, or continues an interrupted one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakebed.core.errors import AlreadyExists, InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.files.add_files import ParquetFolder, create_over_files, inspect_folder, temporary_table
from lakebed.pipeline.files.folder_access import open_folder, warehouse_location
from lakebed.pipeline.files.listing import is_inside
from lakebed.pipeline.files.source_tables import (
    SourceTable,
    attach_source,
    create_alike,
    load_source,
    metadata_of,
    register,
)
from lakebed.pipeline.files.table_shape import current_snapshot, measure, properties_of
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import ListOption, Options, TextOption
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.procedures import literal, rows
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE: Final = "lakebed.import-source"
STATE: Final = "lakebed.import-state"
STARTED, DONE = "started", "done"
IN_PLACE, COPY = "in-place", "copy"

OPTIONS: Final = (
    TextOption("source", "folder of Parquet files, s3://BUCKET/FOLDER; with mode copy any URL that Spark reads"),
    TextOption("source-table", "table of another catalog, NAMESPACE.TABLE"),
    TextOption("source-catalog", "name of that catalog in pipeline.spark"),
    TextOption("source-uri", "or its URI, if it is an Iceberg REST catalog without authentication, or this server"),
    TextOption("source-warehouse", "warehouse of that catalog"),
    TextOption("mode", "use the files in place, or copy their rows; by default in-place", choices=(IN_PLACE, COPY)),
    ListOption("partition-columns", "partition columns of the folder, each with an optional type"),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Import into a new table."""
    report = ReportBuilder(JobKind.IMPORT, table, dry_run=dry_run)
    folder, source_table = options.text("source"), options.text("source-table")
    if (folder is None) == (source_table is None):
        raise InvalidInput(
            "expected either source (a folder) or source-table (a table of a catalog)", argument="source"
        )
    mode = options.text("mode") or IN_PLACE
    if folder is not None:
        _import_folder(spark, table, folder, mode, options, report, progress)
    else:
        _import_table(spark, table, _source(spark, table, source_table or "", options), mode, report, progress)
    if not dry_run and spark.catalog.tableExists(table.sql):
        progress.stage("measuring")
        report.after = measure(spark, table)
    return report.end()


# -- folders -------------------------------------------------------------------------------------------------------


def _import_folder(
    spark: SparkSession,
    table: CatalogTable,
    location: str,
    mode: str,
    options: Options,
    report: ReportBuilder,
    progress: Progress,
) -> None:
    stated = options.names("partition-columns") or []
    if _is_done(spark, table, location, report):
        return
    if not location.startswith("s3://"):
        _import_by_spark(spark, table, location, mode, report, progress)
        return
    if mode == IN_PLACE and not is_inside(location, warehouse_location(table)):
        raise InvalidInput(
            f"folder is outside of the table bucket; use mode copy, or move it there. source={location}"
            f" table-bucket={table.ref.warehouse}",
            argument="mode",
        )
    progress.stage("inspecting the folder")
    folder = inspect_folder(open_folder(spark, table, location), location, stated)
    _report_folder(folder, report)
    if report.dry_run:
        return
    if mode == IN_PLACE:
        progress.stage("adding files")
        snapshot = create_over_files(spark, table, folder, {SOURCE: location, STATE: DONE}, {SOURCE: location})
        report.snapshots = [snapshot]
        report.wrote = FileTotals(rows=_rows(spark, table))
    else:
        with temporary_table(spark, folder) as name:
            _create_from(spark, table, spark.table(name), folder.layout.columns, location, report, progress)
    report.changed = True


def _import_by_spark(
    spark: SparkSession, table: CatalogTable, location: str, mode: str, report: ReportBuilder, progress: Progress
) -> None:
    """Copy a folder that only Spark can read."""
    if mode == IN_PLACE:
        raise InvalidInput(
            f"mode in-place requires a folder of the table bucket; use mode copy. source={location}",
            argument="mode",
        )
    progress.stage("inspecting the folder")
    found = spark.read.parquet(location)
    if report.dry_run:
        report.read = FileTotals(len(found.inputFiles()))
        return
    report.read = FileTotals(len(found.inputFiles()))
    columns = _partition_columns(found)
    _create_from(spark, table, found, columns, location, report, progress)
    report.changed = True


def _partition_columns(found: DataFrame) -> tuple[str, ...]:
    """The partition columns of a Hive layout, in order."""
    first = next(iter(found.inputFiles()), "")
    return tuple(part.partition("=")[0] for part in first.split("/")[:-1] if "=" in part and not part.startswith("_"))


def _create_from(
    spark: SparkSession,
    table: CatalogTable,
    found: DataFrame,
    columns: tuple[str, ...],
    source: str,
    report: ReportBuilder,
    progress: Progress,
) -> None:
    """Create a table of rows, in one commit."""
    from pyspark.sql.functions import col

    progress.stage("copying rows")
    writer = found.writeTo(table.sql).using("iceberg").tableProperty(SOURCE, source).tableProperty(STATE, DONE)
    if columns:
        first, *rest = (col(quoted_name(name)) for name in columns)
        writer = writer.partitionedBy(first, *rest)
    writer.create()
    report.snapshots = [one for one in [current_snapshot(spark, table)] if one is not None]
    _report_copy(spark, table, report)


def _report_folder(folder: ParquetFolder, report: ReportBuilder) -> None:
    report.read = folder.amount
    report.details["columns"] = [f"{field.name} {field.dataType.simpleString()}" for field in folder.schema.fields]
    if folder.layout.columns:
        report.details["partition-columns"] = list(folder.layout.columns)
    if folder.layout.hidden:
        report.skip(f"{folder.layout.hidden} files", "empty, or hidden by `_` or `.` at the start of a name")
    for file in folder.others:
        report.skip(file.path, "not a Parquet file")


# -- tables of other catalogs --------------------------------------------------------------------------------------


def _source(spark: SparkSession, table: CatalogTable, source_table: str, options: Options) -> SourceTable:
    parts = tuple(source_table.split("."))
    if len(parts) < 2 or not all(parts):
        raise InvalidInput(f"expected a table as NAMESPACE.TABLE. found={source_table!r}", argument="source-table")
    catalog, uri = options.text("source-catalog"), options.text("source-uri")
    if (catalog is None) == (uri is None):
        raise InvalidInput("source-table requires source-catalog or source-uri", argument="source-catalog")
    if catalog is None:
        catalog = attach_source(spark, table, uri or "", options.text("source-warehouse") or "")
    return SourceTable(catalog, parts)


def _import_table(
    spark: SparkSession, table: CatalogTable, source: SourceTable, mode: str, report: ReportBuilder, progress: Progress
) -> None:
    progress.stage("loading the source")
    loaded = load_source(spark, source)
    current = loaded.currentSnapshot()
    snapshot = int(current.snapshotId()) if current is not None else None
    if mode == IN_PLACE:
        _register(spark, table, source, report, progress)
        return
    # The table's UUID, because the session's name for its catalog is generated and may be reused.
    mark = f"table {loaded.uuid()} {'.'.join(source.parts)} at {snapshot}"
    if _is_done(spark, table, mark, report):
        return
    if current is not None:
        summary = dict(current.summary())
        report.read = FileTotals(
            *(int(summary.get(name, 0)) for name in ("total-data-files", "total-files-size", "total-records"))
        )
    if report.dry_run:
        return
    if not spark.catalog.tableExists(table.sql):
        progress.stage("creating the table")
        create_alike(spark, table, loaded, {SOURCE: mark, STATE: STARTED})
    if snapshot is not None:
        progress.stage("copying rows")
        rows_of_source = spark.sql(f"SELECT * FROM {source.sql} VERSION AS OF {snapshot}")
        rows_of_source.writeTo(table.sql).option(f"snapshot-property.{SOURCE}", mark).append()
    _finish(spark, table)
    report.snapshots = [one for one in [current_snapshot(spark, table)] if one is not None]
    _report_copy(spark, table, report)
    report.changed = True


def _register(
    spark: SparkSession, table: CatalogTable, source: SourceTable, report: ReportBuilder, progress: Progress
) -> None:
    metadata = metadata_of(spark, source)
    report.details["metadata"] = metadata
    if spark.catalog.tableExists(table.sql):
        known = {row["file"] for row in rows(spark, f"SELECT file FROM {table.inside('metadata_log_entries')}")}
        if metadata not in known:
            raise AlreadyExists(f"another table has this name. table={table}")
        report.skip("table", f"registered already, from {metadata} or later")
        return
    if report.dry_run:
        return
    progress.stage("registering the table")
    snapshot = register(spark, table, metadata)
    report.snapshots = [snapshot] if snapshot is not None else []
    report.skip("data files", "not copied; from now on write to the table only in this catalog")
    report.changed = True


# -- earlier imports -----------------------------------------------------------------------------------------------


def _is_done(spark: SparkSession, table: CatalogTable, source: str, report: ReportBuilder) -> bool:
    """Whether this import is complete. Raises AlreadyExists for a table of another origin."""
    if not spark.catalog.tableExists(table.sql):
        return False
    properties = properties_of(spark, table)
    if properties.get(SOURCE) != source:
        origin = properties.get(SOURCE, "no import")
        raise AlreadyExists(
            f"the table exists already; choose another name, or drop it. table={table} origin={origin!r}"
        )
    if properties.get(STATE) != DONE:
        summaries = rows(spark, f"SELECT summary FROM {table.inside('snapshots')}")
        if not any(row["summary"].get(SOURCE) == source for row in summaries):
            return False
        if not report.dry_run:
            _finish(spark, table)
    report.skip("table", f"imported already, from {source}")
    return True


def _finish(spark: SparkSession, table: CatalogTable) -> None:
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ({literal(STATE)} = {literal(DONE)})")


def _report_copy(spark: SparkSession, table: CatalogTable, report: ReportBuilder) -> None:
    shape = measure(spark, table)
    report.wrote = FileTotals(shape.data_files, shape.data_bytes, shape.rows)


def _rows(spark: SparkSession, table: CatalogTable) -> int:
    return measure(spark, table).rows


JOB: Final = JobDefinition(
    JobKind.IMPORT, "Imports a folder of Parquet files, or a table of another catalog", OPTIONS, run
)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
