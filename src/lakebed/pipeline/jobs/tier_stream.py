"""Tiering: what came into a stream table is added to a table of the lake, exactly once.

How far the stream is in the table stands in the snapshot that made it so: rows and offsets are committed together or
not at all, and whoever comes next goes on from what the table itself says. A round writes to a branch that begins at
the snapshot whose offsets it has read, and has the table follow the branch only if it is still at that snapshot: of two
jobs at the same time one gives way, and so does one that met another commit. Rows of logs are appended; of changes of
keys the last of each key is merged (ADR 33).

The server is told afterwards. If that is lost, the next round finds it in the table and tells it.
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
"""How long a branch stays that nobody removed: its job was killed."""

OPTIONS: Final = (
    TextOption("stream", "DATABASE.TABLE of the stream; by default the namespace and the name of the table"),
    TextOption("streams", "HOST:PORT where streams are served; by default LAKEBED_STREAMS, or port 9123 of the server"),
)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Add all that is in the stream by now."""
    report = ReportBuilder(JobKind.TIER_STREAM, table, dry_run=dry_run)
    database, name = stream_of(table, options.text("stream"))
    access = stream_access(table.access, options.text("streams"))
    with access.connect() as client:
        progress.stage("looking at the stream")
        source = describe(client, database, name)
        check_format(source)
        is_there = spark.catalog.tableExists(table.sql)
        if dry_run and not is_there:
            ends = list_offsets(client, source, LATEST)
            report.read = FileTotals(rows=sum(span.count for span in plan_spans({}, {}, ends)))
            report.skip("table", "it is not there yet, and would be made")
            return report.end()
        tiering = _Tiering(spark, table, access, client, source, report)
        if not dry_run:
            tiering.see_to_table(is_there=is_there)
        made = retry_on_conflict(spark, table, progress, lambda: tiering.round(progress))
    if made is not None:
        report.snapshots = [made]
        report.changed = True
    elif not report.read.rows:
        report.skip("stream", "nothing is in it that is not in the table")
    return report.end()


def stream_of(table: CatalogTable, given: str | None) -> tuple[str, str]:
    """The stream that is tiered into a table. Raises InvalidInput."""
    database, separator, name = (given or ".".join((*table.ref.namespace[-1:], table.ref.table))).partition(".")
    if not separator or not database or not name:
        raise InvalidInput(f"a stream is DATABASE.TABLE. found={given!r}", argument="stream")
    return database, name


class _Tiering:
    """One stream into one table."""

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

    def see_to_table(self, *, is_there: bool) -> None:
        """Have a table with all columns of the stream. Raises InvalidInput for one that is something else."""
        spark, table = self._spark, self._table
        if not is_there:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.namespace_sql}")
            spark.sql(create_statement(table.sql, self._source))
        there = [field.name for field in spark.table(table.sql).schema.fields]
        if missing := [name for name in ORIGIN.names if name not in there]:
            raise InvalidInput(
                f"the table was not made for a stream: name another, which is made. table={table}"
                f" missing={', '.join(missing)}",
                argument="table",
            )
        for added in missing_columns(self._source, there):
            spark.sql(f"ALTER TABLE {table.sql} ADD COLUMN {added}")

    def round(self, progress: Progress) -> int | None:
        """Add what is in the stream and not in the table; the snapshot, if there is one."""
        base = current_snapshot(self._spark, self._table)
        done = self._done(base)
        begin, end = (list_offsets(self._client, self._source, which) for which in (EARLIEST, LATEST))
        self._check_gone(missing_spans(done, begin))
        spans = plan_spans(done, begin, end)
        self._draft.read = FileTotals(rows=sum(span.count for span in spans))
        if not spans or self._draft.dry_run:
            return None
        reached = {bucket: max(last, done.get(bucket, 0)) for bucket, last in end.items()}
        source = self._source
        prepared = self._lake.prepare(source.id, source.database, source.name, reached)
        progress.stage(f"adding {self._draft.read.rows} records")
        offsets = TableOffsets(source.id, reached)
        told = {OFFSETS: offsets.text(), PREPARED: prepared, COMMITTER: USER}
        with self._branch(base) as branch, self._saying(told):
            self._write(branch, self._frame(spans))
            snapshot = self._follow(branch)
        self._draft.wrote = self._draft.read
        progress.stage("telling the server")
        self._publish(TieredOffsets(snapshot, offsets, prepared))
        return snapshot

    def _done(self, base: int | None) -> Offsets:
        """How far the stream is in the table. Raises InvalidInput for a table of something else."""
        if base is None:
            return {}
        found = rows(self._spark, f"SELECT snapshot_id, parent_id, summary FROM {self._table.inside('snapshots')}")
        told = latest_tiered_offsets(found, base)
        if told is not None:
            if told.offsets.table_id != self._source.id:
                raise InvalidInput(
                    f"the table holds another stream, which had the same name or was dropped. table={self._table}"
                    f" stream={self._source.path} id={self._source.id} found={told.offsets.table_id}",
                    argument="stream",
                )
            if not self._draft.dry_run:
                self._publish(told)
            return told.offsets.offsets
        # All snapshots that said it are expired.
        known = self._lake.latest(self._source.database, self._source.name)
        if known is None:
            raise InvalidInput(
                f"the table has rows, and nothing says how far the stream is in it. table={self._table}"
                f" stream={self._source.path}",
                argument="table",
            )
        if self._source.schema.has_primary_key:
            return known.offsets  # to merge changes again makes no difference
        # The server need not have been told of the last one: its job was killed before. The rows themselves tell.
        there = self._found()
        return {bucket: max(known.offsets.get(bucket, 0), there.get(bucket, 0)) for bucket in {*known.offsets, *there}}

    def _found(self) -> dict[tuple[int | None, int], int]:
        """How far each log is in the table, by its rows."""
        source = self._source
        partitions = {partition.values: partition.id for partition in source.partitions}
        keys = [quoted_name(key) for key in (*source.partition_keys, BUCKET)]
        found = {}
        for *values, bucket, last in self._spark.sql(
            f"SELECT {', '.join(keys)}, max({OFFSET}) FROM {self._table.sql} GROUP BY {', '.join(keys)}"
        ).collect():
            partition_id = partitions.get(tuple(map(str, values))) if values else None
            if partition_id is not None or not values:  # one that was dropped gets no more records
                found[partition_id, int(bucket)] = int(last) + 1
        return found

    def _publish(self, told: TieredOffsets) -> None:
        """Tell the server of a snapshot, unless it knows."""
        source = self._source
        known = self._lake.latest(source.database, source.name)
        if known is None or known.snapshot_id != told.snapshot:
            self._lake.commit(source.id, told.snapshot, told.prepared)

    def _check_gone(self, gone: Sequence[ReadSpan]) -> None:
        """Records that are gone before they were read: a hole in a log, but rows that are wrong in a table of keys."""
        for span in gone:
            detail = f"partition={span.bucket[0]} bucket={span.bucket[1]} offsets={span.start} to {span.end - 1}"
            if self._source.schema.has_primary_key:
                raise InvalidInput(
                    "changes are gone that were not merged yet: the stream keeps them for too short a time"
                    f" (table.log.ttl). table={self._table} stream={self._source.path} {detail}"
                )
            self._draft.find(self._source.path, "missing", f"the stream keeps these records no more: {detail}")

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

    def _follow(self, branch: str) -> int:
        """Have the table be what the branch is; its snapshot. Raises CommitConflict if somebody else committed."""
        try:
            (done,) = call(self._spark, self._table, "fast_forward", branch="main", to=branch)
        except Exception as error:
            if is_spark_error(error) and _NO_ANCESTOR in str(error):
                raise CommitConflict(f"somebody else committed first. table={self._table}") from error
            raise
        return int(done["updated_ref"])

    @contextmanager
    def _branch(self, base: int | None) -> Iterator[str]:
        """A branch that begins at a snapshot, or with nothing, and goes in any case."""
        branch = f"lakebed_tiering_{uuid.uuid4().hex}"
        start = "" if base is None else f" AS OF VERSION {base}"
        self._spark.sql(f"ALTER TABLE {self._table.sql} CREATE BRANCH {branch}{start} RETAIN {_BRANCH_DAYS} DAYS")
        try:
            yield branch
        finally:
            self._spark.sql(f"ALTER TABLE {self._table.sql} DROP BRANCH IF EXISTS {branch}")

    @contextmanager
    def _saying(self, told: Mapping[str, str]) -> Iterator[None]:
        """Have snapshots say these things."""
        for key, value in told.items():
            self._spark.conf.set(f"{_PROPERTY}{key}", value)
        try:
            yield
        finally:
            for key in told:
                self._spark.conf.unset(f"{_PROPERTY}{key}")


JOB: Final = JobDefinition(
    JobKind.TIER_STREAM, "Adds what came into a stream to a table, each record once", OPTIONS, run
)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
