"""Lake tiering: copies new records of a stream table to an Iceberg table, exactly once.

The tiered offsets are in the summary of the snapshot that has the records: rows and offsets commit together, and the
next round continues from the table's own state. A round writes to a branch that starts at the snapshot whose offsets it
read, and fast-forwards `main` only if that is still the current snapshot: of two concurrent rounds, or a round and
another commit, one fails and retries. Log records are appended; of changelogs the last change of each key is merged
(ADR 33).

The round then commits the offsets to the stream server. If it is killed before that, the next round reads them from the
table and commits them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lakebed.client.streams.access import StreamAccess, stream_access
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.lake import LakeTieringClient
from lakebed.client.streams.logs import EARLIEST, LATEST
from lakebed.client.streams.tables import TableInfo, describe, list_offsets
from lakebed.core.errors import CommitConflict, InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.errors import is_spark_error
from lakebed.pipeline.files.table_shape import current_snapshot
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import Options, TextOption
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.procedures import call, rows
from lakebed.pipeline.streams.columns import BUCKET, OFFSET, ORIGIN
from lakebed.pipeline.streams.offsets import Offsets, ReadSpan, TableOffsets, missing_spans, plan_spans
from lakebed.pipeline.streams.records import RecordReader, check_format, frame_of
from lakebed.pipeline.streams.table_layout import create_statement, merge_statement, missing_columns
from lakebed.pipeline.streams.tiering_offsets import OFFSETS, PREPARED, TieredOffsets, latest_tiered_offsets
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITTER: Final = "commit-user"
USER: Final = "__fluss_lake_tiering"

_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."
_NO_ANCESTOR: Final = "is not an ancestor of"
_BRANCH_DAYS: Final = 1
"""Retention of branches whose job was killed."""

OPTIONS: Final = (
    TextOption("stream", "DATABASE.TABLE of the stream; by default the namespace and the name of the table"),
    TextOption("streams", "HOST:PORT where streams are served; by default LAKEBED_STREAMS, or port 9123 of the server"),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Run one tiering round."""
    report = ReportBuilder(JobKind.TIER_STREAM, table, dry_run=dry_run)
    database, name = stream_of(table, options.text("stream"))
    access = stream_access(table.access, options.text("streams"))
    with access.connect() as client:
        progress.stage("reading offsets")
        source = describe(client, database, name)
        check_format(source)
        exists = spark.catalog.tableExists(table.sql)
        if dry_run and not exists:
            ends = list_offsets(client, source, LATEST)
            report.read = FileTotals(rows=sum(span.count for span in plan_spans({}, {}, ends)))
            report.skip("table", "it does not exist and would be created")
            return report.end()
        tiering = _Tiering(spark, table, access, client, source, report)
        if not dry_run:
            tiering.ensure_table(exists=exists)
        made = retry_on_conflict(spark, table, progress, lambda: tiering.round(progress))
    if made is not None:
        report.snapshots = [made]
        report.changed = True
    elif not report.read.rows:
        report.skip("stream", "all of its records are tiered")
    return report.end()


def stream_of(table: CatalogTable, given: str | None) -> tuple[str, str]:
    """Database and name of the stream table that is tiered into a table. Raises InvalidInput."""
    database, separator, name = (given or ".".join((*table.ref.namespace[-1:], table.ref.table))).partition(".")
    if not separator or not database or not name:
        raise InvalidInput(f"expected a stream table as DATABASE.TABLE. found={given!r}", argument="stream")
    return database, name


class _Tiering:
    """Tiers one stream table into one Iceberg table."""

    def __init__(
        self,
        spark: SparkSession,
        table: CatalogTable,
        access: StreamAccess,
        client: StreamClient,
        source: TableInfo,
        report: ReportBuilder,
    ) -> None:
        self._spark = spark
        self._table = table
        self._access = access
        self._client = client
        self._lake = LakeTieringClient(client)
        self._source = source
        self._draft = report

    def ensure_table(self, *, exists: bool) -> None:
        """Create the table, or add missing columns. Raises InvalidInput if the table is not a tiered one."""
        spark, table = self._spark, self._table
        if not exists:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.namespace_sql}")
            spark.sql(create_statement(table.sql, self._source))
        names = [field.name for field in spark.table(table.sql).schema.fields]
        if missing := [name for name in ORIGIN.names if name not in names]:
            raise InvalidInput(
                f"the table was not created by tiering: choose another, which will be created. table={table}"
                f" missing={', '.join(missing)}",
                argument="table",
            )
        for added in missing_columns(self._source, names):
            spark.sql(f"ALTER TABLE {table.sql} ADD COLUMN {added}")

    def round(self, progress: Progress) -> int | None:
        """Tier the records that are not in the table. The new snapshot, if there were any."""
        base = current_snapshot(self._spark, self._table)
        done = self._tiered_offsets(base)
        begin, end = (list_offsets(self._client, self._source, which) for which in (EARLIEST, LATEST))
        self._check_missing(missing_spans(done, begin))
        spans = plan_spans(done, begin, end)
        self._draft.read = FileTotals(rows=sum(span.count for span in spans))
        if not spans or self._draft.dry_run:
            return None
        reached = {bucket: max(last, done.get(bucket, 0)) for bucket, last in end.items()}
        source = self._source
        prepared = self._lake.prepare(source.id, source.database, source.name, reached)
        progress.stage(f"adding {self._draft.read.rows} records")
        offsets = TableOffsets(source.id, reached)
        summary = {OFFSETS: offsets.text(), PREPARED: prepared, COMMITTER: USER}
        with self._branch(base) as branch, self._snapshot_properties(summary):
            self._write(branch, self._frame(spans))
            snapshot = self._fast_forward(branch)
        self._draft.wrote = self._draft.read
        progress.stage("committing offsets")
        self._publish(TieredOffsets(snapshot, offsets, prepared))
        return snapshot

    def _tiered_offsets(self, base: int | None) -> Offsets:
        """The offsets up to which the table has the stream. Raises InvalidInput for a table of another stream."""
        if base is None:
            return {}
        found = rows(self._spark, f"SELECT snapshot_id, parent_id, summary FROM {self._table.inside('snapshots')}")
        tiered = latest_tiered_offsets(found, base)
        if tiered is not None:
            if tiered.offsets.table_id != self._source.id:
                raise InvalidInput(
                    "the table has the records of another stream, which had the same name or was dropped."
                    f" table={self._table}"
                    f" stream={self._source.path} id={self._source.id} found={tiered.offsets.table_id}",
                    argument="stream",
                )
            if not self._draft.dry_run:
                self._publish(tiered)
            return tiered.offsets.offsets
        # All snapshots with tiered offsets have expired.
        known = self._lake.latest(self._source.database, self._source.name)
        if known is None:
            raise InvalidInput(
                f"the table has rows without tiered offsets. table={self._table} stream={self._source.path}",
                argument="table",
            )
        if self._source.schema.has_primary_key:
            return known.offsets  # merging changes again has no effect
        # The job of the last round may have been killed before it committed its offsets: compare with the rows.
        found_offsets = self._offsets_of_rows()
        buckets = {*known.offsets, *found_offsets}
        return {bucket: max(known.offsets.get(bucket, 0), found_offsets.get(bucket, 0)) for bucket in buckets}

    def _offsets_of_rows(self) -> dict[tuple[int | None, int], int]:
        """The end of each bucket's log in the table, by its rows."""
        source = self._source
        partitions = {partition.values: partition.id for partition in source.partitions}
        keys = [quoted_name(key) for key in (*source.partition_keys, BUCKET)]
        found = {}
        for *values, bucket, last in self._spark.sql(
            f"SELECT {', '.join(keys)}, max({OFFSET}) FROM {self._table.sql} GROUP BY {', '.join(keys)}"
        ).collect():
            partition_id = partitions.get(tuple(map(str, values))) if values else None
            if partition_id is not None or not values:  # dropped partitions get no more records
                found[partition_id, int(bucket)] = int(last) + 1
        return found

    def _publish(self, tiered: TieredOffsets) -> None:
        """Commit the offsets of a snapshot to the server, unless it has them."""
        source = self._source
        known = self._lake.latest(source.database, source.name)
        if known is None or known.snapshot_id != tiered.snapshot:
            self._lake.commit(source.id, tiered.snapshot, tiered.prepared)

    def _check_missing(self, missing: Sequence[ReadSpan]) -> None:
        """Report records that were deleted before they were tiered: a gap in a log table, wrong rows in a KV table."""
        for span in missing:
            detail = f"partition={span.bucket[0]} bucket={span.bucket[1]} offsets={span.start} to {span.end - 1}"
            if self._source.schema.has_primary_key:
                raise InvalidInput(
                    "changes were deleted before they were tiered: increase table.log.ttl, or tier more often."
                    f" table={self._table} stream={self._source.path} {detail}"
                )
            self._draft.find(self._source.path, "missing", f"the stream has deleted these records: {detail}")

    def _frame(self, spans: Sequence[ReadSpan]) -> DataFrame:
        source = self._source
        reader = RecordReader(source, source.schema.names, has_change=source.schema.has_primary_key, has_origin=True)
        return frame_of(self._spark, self._access, reader, spans)

    def _write(self, branch: str, frame: DataFrame) -> None:
        name = f"{self._table.sql}.{quoted_name(f'branch_{branch}')}"
        if not self._source.schema.has_primary_key:
            frame.writeTo(name).append()
            return
        view = f"changes_{branch}"
        frame.createOrReplaceTempView(view)
        try:
            self._spark.sql(merge_statement(name, view, self._source))
        finally:
            self._spark.catalog.dropTempView(view)

    def _fast_forward(self, branch: str) -> int:
        """Fast-forward the table to the branch. Its snapshot. Raises CommitConflict after another commit."""
        try:
            (done,) = call(self._spark, self._table, "fast_forward", branch="main", to=branch)
        except Exception as error:
            if is_spark_error(error) and _NO_ANCESTOR in str(error):
                raise CommitConflict(f"the table has changed since the round began. table={self._table}") from error
            raise
        return int(done["updated_ref"])

    @contextmanager
    def _branch(self, base: int | None) -> Iterator[str]:
        """A branch that starts at a snapshot, or empty. It is dropped at the end."""
        branch = f"lakebed_tiering_{uuid.uuid4().hex}"
        start = "" if base is None else f" AS OF VERSION {base}"
        self._spark.sql(f"ALTER TABLE {self._table.sql} CREATE BRANCH {branch}{start} RETAIN {_BRANCH_DAYS} DAYS")
        try:
            yield branch
        finally:
            self._spark.sql(f"ALTER TABLE {self._table.sql} DROP BRANCH IF EXISTS {branch}")

    @contextmanager
    def _snapshot_properties(self, properties: Mapping[str, str]) -> Iterator[None]:
        """Add properties to the summaries of new snapshots."""
        for key, value in properties.items():
            self._spark.conf.set(f"{_PROPERTY}{key}", value)
        try:
            yield
        finally:
            for key in properties:
                self._spark.conf.unset(f"{_PROPERTY}{key}")


JOB: Final = JobDefinition(
    JobKind.TIER_STREAM, "Copies new records of a stream table to an Iceberg table, each once", OPTIONS, run
)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
