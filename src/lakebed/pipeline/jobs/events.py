"""The event lake: what happened on the server, as a table that SQL can ask.

Each event is in the table exactly once. A batch is committed together with the number of its last event, and only if
nobody has added later events since that number was looked up: of two exports at the same time one gives way, looks
again, and goes on behind the other.

Numbers are those of one deployment, whose id is a property of the table: another deployment is refused, and does not go
on behind a number that is not its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lakebed.client import Event, LakebedClient
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import IntegerOption, Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

from ..commit_conflicts import retry_on_conflict
from ..files.listing import key_of
from ..files.table_shape import current_snapshot, location_of, measure, properties_of
from ..spark.procedures import literal, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_TABLE: Final = "system.events"
DEFAULT_BATCH: Final = 50_000
LAST_SEQ: Final = "lakebed.last-seq"
"""In a snapshot's summary: the number of the last event that is in the table."""

DEPLOYMENT: Final = "lakebed.deployment"
"""The table's property: the id of the deployment that its events are of."""

COLUMNS: Final = "seq BIGINT, kind STRING, subject STRING, occurred_at TIMESTAMP, payload STRING"

OPTIONS: Final = (IntegerOption("batch-limit", f"events of a commit at most; by default {DEFAULT_BATCH}", 1),)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Add what happened since the last time."""
    draft = ReportBuilder(JobKind.EXPORT_EVENTS, table, dry_run=dry_run)
    limit = options.number("batch-limit") or DEFAULT_BATCH
    is_there = spark.catalog.tableExists(table.sql)
    if not is_there and dry_run:
        draft.skip("table", "it is not there yet, and would be made")
        return draft.end()
    made: list[int] = []
    with LakebedClient(access=table.access) as client:
        log = client.events.read(0, limit=1)
        until = log.last_seq
        if not is_there:
            _create(spark, table)
        _claim(spark, table, log.deployment, dry_run=dry_run)
        draft.details["last-seq-of-server"] = until
        while True:
            progress.stage("exporting events")
            done = retry_on_conflict(
                spark, table, progress, lambda: _export_batch(spark, table, client, until, limit, draft)
            )
            if done is None:
                break
            made.append(done)
    draft.snapshots = made
    draft.changed = bool(made)
    if made:
        draft.after = measure(spark, table)
    elif not draft.read.rows:
        draft.skip(
            "events", f"none is new after {draft.details['last-seq']}, but for those of this table's own commits"
        )
    return draft.end()


def last_exported(spark: SparkSession, table: CatalogTable) -> int:
    """The number of the last event that is in the table: as its rows and its snapshots say, whichever is later.

    Rows may have been deleted since, and snapshots expired; not both of the newest.
    """
    (found,) = rows(spark, f"SELECT max(seq) AS seq FROM {table.sql}")
    told = rows(spark, f"SELECT summary['{LAST_SEQ}'] AS seq FROM {table.inside('snapshots')}")
    return max([int(found["seq"] or 0), *(int(row["seq"]) for row in told if row["seq"])])


def _export_batch(
    spark: SparkSession, table: CatalogTable, client: LakebedClient, until: int, limit: int, draft: ReportBuilder
) -> int | None:
    """Add the next events, if there are any; the snapshot."""
    # Before the number is looked up: what is committed in between is then found to be in the way.
    snapshot = current_snapshot(spark, table)
    after = last_exported(spark, table)
    home = key_of(location_of(spark, table)) + "/"
    events: list[Event] = []
    last = after
    for page in client.events.pages(after, until=until):
        if last == after and page.may_have_missed(after):
            draft.skip(
                f"events {after + 1} to {page.first_seq - 1}", "the server keeps them no more, if there were any"
            )
        events += page.events
        last = page.next_after
        if len(events) >= limit:
            break
    draft.details["last-seq"] = after
    if all(_is_of_export(event, table, home) for event in events):
        return None
    draft.details["last-seq"] = last
    if draft.dry_run:
        draft.read = FileTotals(rows=len(events))
        return None
    _commit(spark, table, events, after, last, snapshot)
    draft.read += FileTotals(rows=len(events))
    draft.wrote += FileTotals(rows=len(events))
    return current_snapshot(spark, table)


def _commit(
    spark: SparkSession, table: CatalogTable, events: Sequence[Event], after: int, last: int, snapshot: int | None
) -> None:
    from pyspark.sql.functions import col

    found = [
        (
            event.seq,
            event.kind,
            event.subject,
            datetime.fromtimestamp(event.occurred_ms / 1000, UTC),
            json.dumps(event.payload, ensure_ascii=False, sort_keys=True),
        )
        for event in events
    ]
    writer = (
        spark.createDataFrame(found, COLUMNS)
        .writeTo(table.sql)
        .option(f"snapshot-property.{LAST_SEQ}", str(last))
        .option("isolation-level", "serializable")
    )
    if snapshot is not None:
        writer = writer.option("validate-from-snapshot-id", str(snapshot))
    # In place of all later events. There are none, or the commit fails: that is what an overwrite asks the catalog for,
    # and an append does not.
    writer.overwrite(col("seq") > after)


def _create(spark: SparkSession, table: CatalogTable) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.namespace_sql}")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table.sql} ({COLUMNS}) USING iceberg PARTITIONED BY (days(occurred_at))"
        " TBLPROPERTIES ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"
    )


def _claim(spark: SparkSession, table: CatalogTable, deployment: str, *, dry_run: bool) -> None:
    """See that the table is of this deployment; one of an earlier version becomes so. Raises InvalidInput."""
    found = properties_of(spark, table).get(DEPLOYMENT, "")
    if found and found != deployment:
        raise InvalidInput(
            f"the table has the events of another deployment: name another table. table={table}"
            f" expected={deployment} found={found}",
            argument="table",
        )
    if deployment and not found and not dry_run:
        spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{DEPLOYMENT}' = {literal(deployment)})")


def _is_of_export(event: Event, table: CatalogTable, home: str) -> bool:
    """Whether an event tells of the export itself: each export would else make work for the next, for ever."""
    ref = table.ref
    if event.subject.startswith(home) or event.subject == f"{ref.warehouse}/{'.'.join(ref.namespace)}/{ref.table}":
        return True
    return event.kind.startswith("lakebed:Task") and JobKind.EXPORT_EVENTS in json.dumps(event.payload)


JOB: Final = JobDefinition(
    JobKind.EXPORT_EVENTS, "Adds the server's events to a table", OPTIONS, run, default_table=DEFAULT_TABLE
)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
