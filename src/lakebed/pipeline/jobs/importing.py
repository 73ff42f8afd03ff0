"""Imports: a folder of Parquet files, or a table of another catalog, becomes a table here.

In place, files stay where they are: a folder becomes the table's location, and another catalog's table keeps its
metadata and history under a name here. Copied, rows are written anew, and the source is not touched.

An import makes a table. What it came from is on record in the table's properties, so that the same import, run again,
finds it done, or goes on where it was interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakebed.core.errors import AlreadyExists, InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import ListOption, Options, TextOption
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

from ..files.add_files import ParquetFolder, create_over_files, inspect_folder, temporary_table
from ..files.folder_access import open_folder, warehouse_location
from ..files.listing import is_inside
from ..files.source_tables import SourceTable, attach_source, create_alike, load_source, metadata_of, register
from ..files.table_shape import current_snapshot, measure, properties_of
from ..spark.procedures import literal, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE: Final = "lakebed.import-source"
STATE: Final = "lakebed.import-state"
STARTED, DONE = "started", "done"
IN_PLACE, COPY = "in-place", "copy"

OPTIONS: Final = (
    TextOption("source", "the folder of Parquet files, s3://BUCKET/FOLDER; to copy, also any that Spark reads"),
    TextOption("source-table", "namespace.table of another catalog"),
    TextOption("source-catalog", "that catalog, as Spark's configuration names it (pipeline.spark)"),
    TextOption(
        "source-uri", "or its address, if it is an Iceberg REST catalog that asks for no key, or this server's own"
    ),
    TextOption("source-warehouse", "the warehouse there"),
    TextOption("mode", "whether files stay where they are; by default in-place", choices=(IN_PLACE, COPY)),
    ListOption(
        "partition-columns", "columns that the folder is divided by, with a type each if they should have another"
    ),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Import into a table that is not there yet."""
    draft = ReportBuilder(JobKind.IMPORT, table, dry_run=dry_run)
    folder, asked = options.text("source"), options.text("source-table")
    if (folder is None) == (asked is None):
        raise InvalidInput("name either source, a folder, or source-table, a table of a catalog", argument="source")
    mode = options.text("mode") or IN_PLACE
    if folder is not None:
        _import_folder(spark, table, folder, mode, options, draft, progress)
    else:
        _import_table(spark, table, _source(spark, table, asked or "", options), mode, draft, progress)
    if not dry_run and spark.catalog.tableExists(table.sql):
        progress.stage("measuring")
        draft.after = measure(spark, table)
    return draft.end()


# -- folders -------------------------------------------------------------------------------------------------------


def _import_folder(
    spark: SparkSession,
    table: CatalogTable,
    location: str,
    mode: str,
    options: Options,
    draft: ReportBuilder,
    progress: Progress,
) -> None:
    stated = options.names("partition-columns") or []
    if _is_done(spark, table, location, draft):
        return
    if not location.startswith("s3://"):
        _import_by_spark(spark, table, location, mode, draft, progress)
        return
    if mode == IN_PLACE and not is_inside(location, warehouse_location(table)):
        raise InvalidInput(
            f"a table's files are in its own table bucket: copy the folder, or move it there. source={location}"
            f" table-bucket={table.ref.warehouse}",
            argument="mode",
        )
    progress.stage("looking through the folder")
    folder = inspect_folder(open_folder(spark, table, location), location, stated)
    _tell_of_folder(folder, draft)
    if draft.dry_run:
        return
    if mode == IN_PLACE:
        progress.stage("adding files")
        snapshot = create_over_files(spark, table, folder, {SOURCE: location, STATE: DONE}, {SOURCE: location})
        draft.snapshots = [snapshot]
        draft.wrote = FileTotals(rows=_rows(spark, table))
    else:
        with temporary_table(spark, folder) as name:
            _create_from(spark, table, spark.table(name), folder.layout.columns, location, draft, progress)
    draft.changed = True


def _import_by_spark(
    spark: SparkSession, table: CatalogTable, location: str, mode: str, draft: ReportBuilder, progress: Progress
) -> None:
    """Copy a folder that Spark reads by a file system of its own."""
    if mode == IN_PLACE:
        raise InvalidInput(
            f"only a folder of the table bucket can be a table in place: copy this one. source={location}",
            argument="mode",
        )
    progress.stage("looking through the folder")
    found = spark.read.parquet(location)
    if draft.dry_run:
        draft.read = FileTotals(len(found.inputFiles()))
        return
    draft.read = FileTotals(len(found.inputFiles()))
    columns = _divided_by(found)
    _create_from(spark, table, found, columns, location, draft, progress)
    draft.changed = True


def _divided_by(found: DataFrame) -> tuple[str, ...]:
    """The columns that only folders tell of, in the order of the folders."""
    first = next(iter(found.inputFiles()), "")
    return tuple(part.partition("=")[0] for part in first.split("/")[:-1] if "=" in part and not part.startswith("_"))


def _create_from(
    spark: SparkSession,
    table: CatalogTable,
    found: DataFrame,
    columns: tuple[str, ...],
    source: str,
    draft: ReportBuilder,
    progress: Progress,
) -> None:
    """Make a table of rows, in one commit."""
    from pyspark.sql.functions import col

    progress.stage("copying rows")
    writer = found.writeTo(table.sql).using("iceberg").tableProperty(SOURCE, source).tableProperty(STATE, DONE)
    if columns:
        first, *rest = (col(quoted_name(name)) for name in columns)
        writer = writer.partitionedBy(first, *rest)
    writer.create()
    draft.snapshots = [one for one in [current_snapshot(spark, table)] if one is not None]
    _tell_of_copy(spark, table, draft)


def _tell_of_folder(folder: ParquetFolder, draft: ReportBuilder) -> None:
    draft.read = folder.amount
    draft.details["columns"] = [f"{field.name} {field.dataType.simpleString()}" for field in folder.schema.fields]
    if folder.layout.columns:
        draft.details["partition-columns"] = list(folder.layout.columns)
    if folder.layout.hidden:
        draft.skip(f"{folder.layout.hidden} files", "hidden, by `_` or `.` before their name or a folder's, or empty")
    for file in folder.strangers:
        draft.skip(file.path, "not a Parquet file")


# -- tables of other catalogs --------------------------------------------------------------------------------------


def _source(spark: SparkSession, table: CatalogTable, asked: str, options: Options) -> SourceTable:
    parts = tuple(asked.split("."))
    if len(parts) < 2 or not all(parts):
        raise InvalidInput(f"a table is named namespace.table. found={asked!r}", argument="source-table")
    catalog, uri = options.text("source-catalog"), options.text("source-uri")
    if (catalog is None) == (uri is None):
        raise InvalidInput("name the catalog of source-table: source-catalog or source-uri", argument="source-catalog")
    if catalog is None:
        catalog = attach_source(spark, table, uri or "", options.text("source-warehouse") or "")
    return SourceTable(catalog, parts)


def _import_table(
    spark: SparkSession, table: CatalogTable, source: SourceTable, mode: str, draft: ReportBuilder, progress: Progress
) -> None:
    progress.stage("loading the source")
    loaded = load_source(spark, source)
    current = loaded.currentSnapshot()
    snapshot = int(current.snapshotId()) if current is not None else None
    if mode == IN_PLACE:
        _take_over(spark, table, source, draft, progress)
        return
    # The table's own id, not its name here: that is made up, and may be another's tomorrow.
    mark = f"table {loaded.uuid()} {'.'.join(source.parts)} at {snapshot}"
    if _is_done(spark, table, mark, draft):
        return
    if current is not None:
        said = dict(current.summary())
        draft.read = FileTotals(
            *(int(said.get(name, 0)) for name in ("total-data-files", "total-files-size", "total-records"))
        )
    if draft.dry_run:
        return
    if not spark.catalog.tableExists(table.sql):
        progress.stage("creating the table")
        create_alike(spark, table, loaded, {SOURCE: mark, STATE: STARTED})
    if snapshot is not None:
        progress.stage("copying rows")
        rows_of_source = spark.sql(f"SELECT * FROM {source.sql} VERSION AS OF {snapshot}")
        rows_of_source.writeTo(table.sql).option(f"snapshot-property.{SOURCE}", mark).append()
    _finish(spark, table)
    draft.snapshots = [one for one in [current_snapshot(spark, table)] if one is not None]
    _tell_of_copy(spark, table, draft)
    draft.changed = True


def _take_over(
    spark: SparkSession, table: CatalogTable, source: SourceTable, draft: ReportBuilder, progress: Progress
) -> None:
    metadata = metadata_of(spark, source)
    draft.details["metadata"] = metadata
    if spark.catalog.tableExists(table.sql):
        known = {row["file"] for row in rows(spark, f"SELECT file FROM {table.inside('metadata_log_entries')}")}
        if metadata not in known:
            raise AlreadyExists(f"there is a table of that name, and it is another. table={table}")
        draft.skip("table", f"it was taken over already, from {metadata} or later")
        return
    if draft.dry_run:
        return
    progress.stage("registering the table")
    snapshot = register(spark, table, metadata)
    draft.snapshots = [snapshot] if snapshot is not None else []
    draft.skip("data files", "they stay where they are; from now on, write to the table here and nowhere else")
    draft.changed = True


# -- what was done before ------------------------------------------------------------------------------------------


def _is_done(spark: SparkSession, table: CatalogTable, source: str, draft: ReportBuilder) -> bool:
    """Whether the table is there with what is to be imported. Raises AlreadyExists for a table of other origin."""
    if not spark.catalog.tableExists(table.sql):
        return False
    properties = properties_of(spark, table)
    if properties.get(SOURCE) != source:
        origin = properties.get(SOURCE, "no import")
        raise AlreadyExists(
            f"an import makes a new table, and there is one: choose another name, or drop it. table={table}"
            f" comes-from={origin!r}"
        )
    if properties.get(STATE) != DONE:
        summaries = rows(spark, f"SELECT summary FROM {table.inside('snapshots')}")
        if not any(row["summary"].get(SOURCE) == source for row in summaries):
            return False
        if not draft.dry_run:
            _finish(spark, table)
    draft.skip("table", f"it was imported already, from {source}")
    return True


def _finish(spark: SparkSession, table: CatalogTable) -> None:
    spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ({literal(STATE)} = {literal(DONE)})")


def _tell_of_copy(spark: SparkSession, table: CatalogTable, draft: ReportBuilder) -> None:
    shape = measure(spark, table)
    draft.wrote = FileTotals(shape.data_files, shape.data_bytes, shape.rows)


def _rows(spark: SparkSession, table: CatalogTable) -> int:
    return measure(spark, table).rows


JOB: Final = JobDefinition(
    JobKind.IMPORT, "Makes a table of a folder of Parquet files, or of another catalog's table", OPTIONS, run
)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
