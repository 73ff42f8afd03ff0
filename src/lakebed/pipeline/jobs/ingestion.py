"""Auto-ingest: adds incoming files to a table, each exactly once by its event.

Each row has the event of its file (deployment and number) and the number of the commit that added it. A table that was
registered from another deployment may have rows of equal event numbers. Before a batch is added, its events are looked
up in the table, and the commit succeeds only if no later batch was committed since: of two concurrent jobs one gets a
conflict and reads again. The acknowledgement to the server afterwards may be lost without harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lakebed.client import LakebedClient, PendingFile
from lakebed.core.errors import InvalidInput, NotFound, PreconditionFailed
from lakebed.core.jobs import JobKind
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.files.file_parsing import UnreadableFile, arrow_schema_of, fit_columns, read_file
from lakebed.pipeline.files.table_shape import current_snapshot, measure
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import IntegerOption, Options, OptionUnit
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.procedures import rows
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

EVENT: Final = "_event"
"""The number of the event of a row's file."""
DEPLOYMENT: Final = "_deployment"
"""The deployment of the event; null in rows of earlier versions."""
SOURCE: Final = "_source"
"""The file, as `<bucket>/<key>`."""
BATCH: Final = "_ingest"
"""The number of the commit that added a row."""
OWN: Final = {EVENT: "BIGINT", SOURCE: "STRING", BATCH: "BIGINT", DEPLOYMENT: "STRING"}

LAST_BATCH: Final = "lakebed.ingest"
"""Snapshot property: the number of the commit."""

DEFAULT_FILES: Final = 500
DEFAULT_BYTES: Final = 256 * 1024 * 1024
_PAGE: Final = 1000

OPTIONS: Final = (
    IntegerOption("batch-limit", f"maximum number of files per commit; by default {DEFAULT_FILES}", 1),
    IntegerOption(
        "batch-bytes", "maximum size of the files of a commit with several; by default 256 MiB", 1, OptionUnit.BYTES
    ),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Add pending files batch by batch until none is left."""
    report = ReportBuilder(JobKind.INGEST, table, dry_run=dry_run)
    most_files = options.number("batch-limit") or DEFAULT_FILES
    most_bytes = options.number("batch-bytes") or DEFAULT_BYTES
    made: list[int] = []
    with LakebedClient(access=table.access) as client:
        while True:
            progress.stage("listing pending files")
            waiting = client.arrivals.list(table.ref, limit=_PAGE)
            if dry_run:
                report.read = FileTotals(len(waiting), sum(one.bytes for one in waiting))
                return report.end()
            if not waiting:
                break
            batch = first_of(waiting, most_files, most_bytes)
            progress.stage(f"adding {len(batch)} files")
            snapshot = _Ingest(spark, table, client, batch, report).add(progress)
            client.arrivals.take(table.ref, [one.event for one in batch])
            if snapshot is not None:
                made.append(snapshot)
    report.snapshots = made
    report.changed = bool(made)
    if made:
        report.after = measure(spark, table)
    elif not report.read.files:
        report.skip("files", "no pending files")
    return report.end()


def first_of(waiting: Sequence[PendingFile], most_files: int, most_bytes: int) -> list[PendingFile]:
    """The files of the next commit: at least one."""
    batch: list[PendingFile] = []
    size = 0
    for one in waiting[:most_files]:
        size += one.bytes
        if batch and size > most_bytes:
            break
        batch.append(one)
    return batch


class _Ingest:
    """One batch of files. Files are read once, even if the commit is retried."""

    def __init__(
        self,
        spark: SparkSession,
        table: CatalogTable,
        client: LakebedClient,
        batch: Sequence[PendingFile],
        report: ReportBuilder,
    ) -> None:
        self._spark = spark
        self._table = table
        self._client = client
        self._batch = batch
        self._draft = report
        self._read: dict[int, pa.Table] = {}
        self._unusable: set[int] = set()

    def add(self, progress: Progress) -> int | None:
        """Add the files that are not in the table, which is created if missing; the snapshot id, if any."""
        spark, table = self._spark, self._table
        if not spark.catalog.tableExists(table.sql):
            first = next((found for one in self._batch if (found := self._file(one, None)) is not None), None)
            if first is None:
                return None
            _create(spark, table, first.schema)
        _add_columns(spark, table)
        return retry_on_conflict(spark, table, progress, self._add)

    def _add(self) -> int | None:
        spark, table = self._spark, self._table
        # Read before the lookups, so that a commit in between causes a conflict.
        snapshot = current_snapshot(spark, table)
        done = _in_table(spark, table, self._batch)
        schema = arrow_schema_of([field for field in spark.table(table.sql).schema.fields if field.name not in OWN])
        files: list[tuple[PendingFile, pa.Table]] = []
        for one in self._batch:
            if one.event in done:
                self._draft.skip(one.source, f"event {one.event} is in the table already")
            elif (found := self._file(one, schema)) is not None:
                try:
                    files.append((one, fit_columns(found, schema)))
                except UnreadableFile as error:
                    self._report_unusable(one, str(error))
        if not files:
            return None
        _commit(spark, table, files, last_batch(spark, table) + 1, snapshot)
        amount = FileTotals(len(files), sum(one.bytes for one, _ in files), sum(found.num_rows for _, found in files))
        self._draft.read += amount
        self._draft.wrote += FileTotals(rows=amount.rows)
        return current_snapshot(spark, table)

    def _file(self, one: PendingFile, schema: pa.Schema | None) -> pa.Table | None:
        """The content of a file; None if it was replaced, removed, or is unreadable, which is reported."""
        if one.event in self._unusable:
            return None
        if one.event not in self._read:
            try:
                body = self._client.objects.read(one.source, one.bytes, etag=one.etag, version=one.version)
                self._read[one.event] = read_file(body, one.format, schema)
            except NotFound:
                self._unusable.add(one.event)
                self._draft.skip(one.source, "the file was removed")
            except PreconditionFailed:
                self._unusable.add(one.event)
                self._draft.skip(one.source, "the file was replaced; the replacement has its own event")
            except UnreadableFile as error:
                self._report_unusable(one, str(error))
        return self._read.get(one.event)

    def _report_unusable(self, one: PendingFile, reason: str) -> None:
        """Report an unusable file, and continue with the others."""
        if one.event not in self._unusable:
            self._unusable.add(one.event)
            self._draft.find(one.source, "unreadable", f"event {one.event}: {reason}")


def last_batch(spark: SparkSession, table: CatalogTable) -> int:
    """The number of the last commit: the larger of the newest row's and the newest snapshot's."""
    (found,) = rows(spark, f"SELECT max({BATCH}) AS number FROM {table.sql}")
    summaries = rows(spark, f"SELECT summary['{LAST_BATCH}'] AS number FROM {table.inside('snapshots')}")
    return max([int(found["number"] or 0), *(int(row["number"]) for row in summaries if row["number"])])


def _add_columns(spark: SparkSession, table: CatalogTable) -> None:
    """Add missing columns of this job, unless the table has rows whose files are unknown."""
    there = {field.name for field in spark.table(table.sql).schema.fields}
    missing = [f"{name} {kind}" for name, kind in OWN.items() if name not in there]
    if not missing:
        return
    is_of_earlier_version = missing == [f"{DEPLOYMENT} {OWN[DEPLOYMENT]}"]
    if not is_of_earlier_version and current_snapshot(spark, table) is not None:
        raise InvalidInput(
            f"the table has rows of unknown files; choose a new table, or one without rows. table={table}"
            f" missing={', '.join(missing)}",
            argument="table",
        )
    spark.sql(f"ALTER TABLE {table.sql} ADD COLUMNS ({', '.join(missing)})")


def _in_table(spark: SparkSession, table: CatalogTable, batch: Iterable[PendingFile]) -> set[int]:
    """The events of a batch whose files are in the table already."""
    wanted = ", ".join(str(one.event) for one in batch)
    columns = f"{EVENT}, {DEPLOYMENT}, {SOURCE}"
    found = {
        (row[EVENT], row[DEPLOYMENT], row[SOURCE])
        for row in rows(spark, f"SELECT DISTINCT {columns} FROM {table.sql} WHERE {EVENT} IN ({wanted})")
    }
    of_events = {(event, deployment) for event, deployment, _ in found}
    return {
        one.event
        for one in batch
        # Rows of earlier versions lack the deployment: an event with the same file is the same event.
        if (one.event, one.deployment) in of_events or (one.event, None, one.source) in found
    }


def _create(spark: SparkSession, table: CatalogTable, schema: pa.Schema) -> None:
    """Create the table with a file's columns, unless it was created concurrently."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type

    # A column without values in the first file may have text in later ones.
    kinds = {
        field.name: "STRING" if pa.types.is_null(field.type) else from_arrow_type(field.type).simpleString()
        for field in schema
    } | OWN
    columns = ", ".join(f"{quoted_name(name)} {kind}" for name, kind in kinds.items())
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.namespace_sql}")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table.sql} ({columns}) USING iceberg TBLPROPERTIES"
        f" ('write.metadata.metrics.column.{BATCH}' = 'full', 'write.metadata.metrics.column.{EVENT}' = 'full')"
    )


def _commit(
    spark: SparkSession,
    table: CatalogTable,
    files: Sequence[tuple[PendingFile, pa.Table]],
    number: int,
    snapshot: int | None,
) -> None:
    import pyarrow as pa
    from pyspark.sql.functions import col

    marked = [
        found.append_column(EVENT, pa.repeat(pa.scalar(one.event, pa.int64()), found.num_rows))
        .append_column(SOURCE, pa.repeat(pa.scalar(one.source, pa.string()), found.num_rows))
        .append_column(BATCH, pa.repeat(pa.scalar(number, pa.int64()), found.num_rows))
        .append_column(DEPLOYMENT, pa.repeat(pa.scalar(one.deployment, pa.string()), found.num_rows))
        for one, found in files
    ]
    frame: Any = spark.createDataFrame(pa.concat_tables(marked))  # Any: pyspark's types lack tables of Arrow
    writer = (
        frame.writeTo(table.sql)
        .option(f"snapshot-property.{LAST_BATCH}", str(number))
        .option("isolation-level", "serializable")
    )
    if snapshot is not None:
        writer = writer.option("validate-from-snapshot-id", str(snapshot))
    # An overwrite of all later batches, of which there are none: unlike an append, it makes the catalog check for
    # concurrent writes.
    writer.overwrite(col(BATCH) >= number)


JOB: Final = JobDefinition(JobKind.INGEST, "Adds incoming files to a table, each exactly once", OPTIONS, run)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
