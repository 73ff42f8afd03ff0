"""Auto-ingest: files that arrived are added to a table, each exactly once by its event.

Rows have the event that told of their file, as its deployment and its number there, and the number of the commit that
added them. A table that was registered from another deployment has rows of events of the same numbers. Before a batch
is added it is looked up which of its events are in the table already; and it is added only if nobody has committed a
later batch since: of two jobs at the same time one gives way, and looks again. What the server is told afterwards, that
the files are in, may be lost without harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lakebed.client import LakebedClient, PendingFile
from lakebed.core.errors import InvalidInput, NotFound, PreconditionFailed
from lakebed.core.jobs import JobKind
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import IntegerOption, Options, OptionUnit
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

from ..commit_conflicts import retry_on_conflict
from ..files.file_parsing import UnreadableFile, arrow_schema_of, fit_columns, read_file
from ..files.table_shape import current_snapshot, measure
from ..spark.procedures import rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

EVENT: Final = "_event"
"""The number of the event that told of a row's file."""
DEPLOYMENT: Final = "_deployment"
"""The deployment that the event is of; null in rows of earlier versions."""
SOURCE: Final = "_source"
"""The file, as `<bucket>/<key>`."""
BATCH: Final = "_ingest"
"""The number of the commit that added a row."""
OWN: Final = {EVENT: "BIGINT", SOURCE: "STRING", BATCH: "BIGINT", DEPLOYMENT: "STRING"}

LAST_BATCH: Final = "lakebed.ingest"
"""In a snapshot's summary: the number of the commit."""

DEFAULT_FILES: Final = 500
DEFAULT_BYTES: Final = 256 * 1024 * 1024
_PAGE: Final = 1000

OPTIONS: Final = (
    IntegerOption("batch-limit", f"files of a commit at most; by default {DEFAULT_FILES}", 1),
    IntegerOption(
        "batch-bytes", "bytes of the files of a commit, beyond the first; by default 256 MiB", 1, OptionUnit.BYTES
    ),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Add what arrived, batch by batch, until nothing is left."""
    draft = ReportBuilder(JobKind.INGEST, table, dry_run=dry_run)
    most_files = options.number("batch-limit") or DEFAULT_FILES
    most_bytes = options.number("batch-bytes") or DEFAULT_BYTES
    made: list[int] = []
    with LakebedClient(access=table.access) as client:
        while True:
            progress.stage("looking for files")
            waiting = client.arrivals.list(table.ref, limit=_PAGE)
            if dry_run:
                draft.read = FileTotals(len(waiting), sum(one.bytes for one in waiting))
                return draft.end()
            if not waiting:
                break
            batch = first_of(waiting, most_files, most_bytes)
            progress.stage(f"adding {len(batch)} files")
            snapshot = _Ingest(spark, table, client, batch, draft).add(progress)
            client.arrivals.take(table.ref, [one.event for one in batch])
            if snapshot is not None:
                made.append(snapshot)
    draft.snapshots = made
    draft.changed = bool(made)
    if made:
        draft.after = measure(spark, table)
    elif not draft.read.files:
        draft.skip("files", "none has arrived that is not in the table")
    return draft.end()


def first_of(waiting: Sequence[PendingFile], most_files: int, most_bytes: int) -> list[PendingFile]:
    """As many as go into one commit, and at least one."""
    batch: list[PendingFile] = []
    size = 0
    for one in waiting[:most_files]:
        size += one.bytes
        if batch and size > most_bytes:
            break
        batch.append(one)
    return batch


class _Ingest:
    """One batch of files. Read once, however often its commit gives way."""

    def __init__(
        self,
        spark: SparkSession,
        table: CatalogTable,
        client: LakebedClient,
        batch: Sequence[PendingFile],
        draft: ReportBuilder,
    ) -> None:
        self._spark = spark
        self._table = table
        self._client = client
        self._batch = batch
        self._draft = draft
        self._read: dict[int, pa.Table] = {}
        self._given_up: set[int] = set()

    def add(self, progress: Progress) -> int | None:
        """Add what is not in the table, which is made if need be; the snapshot, if there is one."""
        spark, table = self._spark, self._table
        if not spark.catalog.tableExists(table.sql):
            first = next((found for one in self._batch if (found := self._file(one, None)) is not None), None)
            if first is None:
                return None
            _create(spark, table, first.schema)
        _see_to_columns(spark, table)
        return retry_on_conflict(spark, table, progress, self._add)

    def _add(self) -> int | None:
        spark, table = self._spark, self._table
        # Before anything is looked up: what is committed in between is then found to be in the way.
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
                    self._give_up(one, str(error))
        if not files:
            return None
        _commit(spark, table, files, last_batch(spark, table) + 1, snapshot)
        amount = FileTotals(len(files), sum(one.bytes for one, _ in files), sum(found.num_rows for _, found in files))
        self._draft.read += amount
        self._draft.wrote += FileTotals(rows=amount.rows)
        return current_snapshot(spark, table)

    def _file(self, one: PendingFile, schema: pa.Schema | None) -> pa.Table | None:
        """What is in a file; None if it is no more what it was, or cannot be read, of which the report tells."""
        if one.event in self._given_up:
            return None
        if one.event not in self._read:
            try:
                body = self._client.objects.read(one.source, one.bytes, etag=one.etag, version=one.version)
                self._read[one.event] = read_file(body, one.format, schema)
            except NotFound:
                self._given_up.add(one.event)
                self._draft.skip(one.source, "it is gone")
            except PreconditionFailed:
                self._given_up.add(one.event)
                self._draft.skip(one.source, "it was replaced, and what replaced it has an event of its own")
            except UnreadableFile as error:
                self._give_up(one, str(error))
        return self._read.get(one.event)

    def _give_up(self, one: PendingFile, why: str) -> None:
        """One bad file keeps no good one from the table."""
        if one.event not in self._given_up:
            self._given_up.add(one.event)
            self._draft.find(one.source, "unreadable", f"event {one.event}: {why}")


def last_batch(spark: SparkSession, table: CatalogTable) -> int:
    """The number of the last commit, as rows and snapshots say, whichever is later."""
    (found,) = rows(spark, f"SELECT max({BATCH}) AS number FROM {table.sql}")
    told = rows(spark, f"SELECT summary['{LAST_BATCH}'] AS number FROM {table.inside('snapshots')}")
    return max([int(found["number"] or 0), *(int(row["number"]) for row in told if row["number"])])


def _see_to_columns(spark: SparkSession, table: CatalogTable) -> None:
    """Add the columns that a table lacks, unless it has rows of which nothing tells what files they are from."""
    there = {field.name for field in spark.table(table.sql).schema.fields}
    missing = [f"{name} {kind}" for name, kind in OWN.items() if name not in there]
    if not missing:
        return
    is_of_earlier_version = missing == [f"{DEPLOYMENT} {OWN[DEPLOYMENT]}"]
    if not is_of_earlier_version and current_snapshot(spark, table) is not None:
        raise InvalidInput(
            f"the table has rows, and not the columns that tell which files are in it: name another, which is made of"
            f" the first file, or one without rows. table={table} missing={', '.join(missing)}",
            argument="table",
        )
    spark.sql(f"ALTER TABLE {table.sql} ADD COLUMNS ({', '.join(missing)})")


def _in_table(spark: SparkSession, table: CatalogTable, batch: Iterable[PendingFile]) -> set[int]:
    """The events of a batch whose files are in the table."""
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
        # Rows of earlier versions do not tell the deployment: there, it is the same event if it told of the same file.
        if (one.event, one.deployment) in of_events or (one.event, None, one.source) in found
    }


def _create(spark: SparkSession, table: CatalogTable, schema: pa.Schema) -> None:
    """Make the table of a file's columns, unless somebody was first: then theirs hold."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type

    # A column without any value in the first file may come to have texts.
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
    # In place of all later batches. There are none, or the commit fails: that is what an overwrite asks the catalog
    # for, and an append does not.
    writer.overwrite(col(BATCH) >= number)


JOB: Final = JobDefinition(JobKind.INGEST, "Adds files that arrived to a table, each once", OPTIONS, run)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
