"""Event export: copies the server's event log to an Iceberg table.

Each event is in the table exactly once. A batch commits with the number of its last event, and only if no later events
were added since that number was read: of two concurrent exports one gets a conflict, reads again and continues after
the other.

Event numbers belong to one deployment, whose id is a table property. Events of another deployment are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lakebed.client import Event, LakebedClient
from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind
from lakebed.pipeline.commit_conflicts import retry_on_conflict
from lakebed.pipeline.files.listing import key_of
from lakebed.pipeline.files.table_shape import current_snapshot, location_of, measure, properties_of
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import IntegerOption, Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.spark.procedures import literal, rows
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_TABLE: Final = "system.events"
DEFAULT_BATCH: Final = 50_000
LAST_SEQ: Final = "lakebed.last-seq"
"""Snapshot property: the number of the last event in the table."""

DEPLOYMENT: Final = "lakebed.deployment"
"""Table property: the id of the deployment of the events."""

COLUMNS: Final = "seq BIGINT, kind STRING, subject STRING, occurred_at TIMESTAMP, payload STRING"

OPTIONS: Final = (IntegerOption("batch-limit", f"maximum number of events per commit; by default {DEFAULT_BATCH}", 1),)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Append events that are not in the table."""
    report = ReportBuilder(JobKind.EXPORT_EVENTS, table, dry_run=dry_run)
    limit = options.number("batch-limit") or DEFAULT_BATCH
    exists = spark.catalog.tableExists(table.sql)
    if not exists and dry_run:
        report.skip("table", "the table does not exist yet, and would be created")
        return report.end()
    made: list[int] = []
    with LakebedClient(access=table.access) as client:
        log = client.events.read(0, limit=1)
        until = log.last_seq
        if not exists:
            _create(spark, table)
        _check_deployment(spark, table, log.deployment, dry_run=dry_run)
        report.details["last-seq-of-server"] = until
        while True:
            progress.stage("exporting events")
            done = retry_on_conflict(
                spark, table, progress, lambda: _export_batch(spark, table, client, until, limit, report)
            )
            if done is None:
                break
            made.append(done)
    report.snapshots = made
    report.changed = bool(made)
    if made:
        report.after = measure(spark, table)
    elif not report.read.rows:
        report.skip(
            "events", f"no new events after {report.details['last-seq']}, except those of this table's own commits"
        )
    return report.end()


def last_exported(spark: SparkSession, table: CatalogTable) -> int:
    """The number of the last exported event: the larger of the newest row's and the newest snapshot's.

    Rows may have been deleted and snapshots expired, but not both of the newest.
    """
    (found,) = rows(spark, f"SELECT max(seq) AS seq FROM {table.sql}")
    summaries = rows(spark, f"SELECT summary['{LAST_SEQ}'] AS seq FROM {table.inside('snapshots')}")
    return max([int(found["seq"] or 0), *(int(row["seq"]) for row in summaries if row["seq"])])


def _export_batch(
    spark: SparkSession, table: CatalogTable, client: LakebedClient, until: int, limit: int, report: ReportBuilder
) -> int | None:
    """Append the next events, if any; the snapshot id."""
    # Read before the number, so that a commit in between causes a conflict.
    snapshot = current_snapshot(spark, table)
    after = last_exported(spark, table)
    home = key_of(location_of(spark, table)) + "/"
    events: list[Event] = []
    last = after
    for page in client.events.pages(after, until=until):
        if last == after and page.may_have_missed(after):
            report.skip(
                f"events {after + 1} to {page.first_seq - 1}", "removed from the server's event log before the export"
            )
        events += page.events
        last = page.next_after
        if len(events) >= limit:
            break
    report.details["last-seq"] = after
    if all(_is_of_export(event, table, home) for event in events):
        return None
    report.details["last-seq"] = last
    if report.dry_run:
        report.read = FileTotals(rows=len(events))
        return None
    _commit(spark, table, events, after, last, snapshot)
    report.read += FileTotals(rows=len(events))
    report.wrote += FileTotals(rows=len(events))
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
    # An overwrite of all later events, of which there are none: unlike an append, it makes the catalog check for
    # concurrent writes.
    writer.overwrite(col("seq") > after)


def _create(spark: SparkSession, table: CatalogTable) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.namespace_sql}")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table.sql} ({COLUMNS}) USING iceberg PARTITIONED BY (days(occurred_at))"
        " TBLPROPERTIES ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"
    )


def _check_deployment(spark: SparkSession, table: CatalogTable, deployment: str, *, dry_run: bool) -> None:
    """Check that the table belongs to this deployment, and mark one of an earlier version. Raises InvalidInput."""
    found = properties_of(spark, table).get(DEPLOYMENT, "")
    if found and found != deployment:
        raise InvalidInput(
            f"the table has events of another deployment; choose another table. table={table}"
            f" expected={deployment} found={found}",
            argument="table",
        )
    if deployment and not found and not dry_run:
        spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{DEPLOYMENT}' = {literal(deployment)})")


def _is_of_export(event: Event, table: CatalogTable, home: str) -> bool:
    """Whether an event was caused by the export itself. Otherwise each export would cause the next one."""
    ref = table.ref
    if event.subject.startswith(home) or event.subject == f"{ref.warehouse}/{'.'.join(ref.namespace)}/{ref.table}":
        return True
    return event.kind.startswith("lakebed:Task") and JobKind.EXPORT_EVENTS in json.dumps(event.payload)


JOB: Final = JobDefinition(
    JobKind.EXPORT_EVENTS, "Exports the server's events to a table", OPTIONS, run, default_table=DEFAULT_TABLE
)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
