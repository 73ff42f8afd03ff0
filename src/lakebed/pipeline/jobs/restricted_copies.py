"""Filtered, masked copies of tables, for those whom policies show a part of them.

The server makes a copy as a table without rows and says in its properties what is to be selected, of which snapshot;
this job fills it. It is filled by one commit in place of all that it may hold, so that two workers at it come to the
same rows as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import COPY_PROPERTY, CopySpec, JobKind, decode_copy
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

from ..files.table_shape import current_snapshot, measure, properties_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Fill a copy."""
    draft = ReportBuilder(JobKind.COPY_RESTRICTED, table, dry_run=dry_run)
    order = _order(spark, table)
    if current_snapshot(spark, table) is not None:
        draft.skip("copy", "it has its rows already")
        return draft.end()
    if dry_run:
        return draft.end()
    from pyspark.sql.functions import lit

    progress.stage("copying what is shown")
    source = quoted_name(table.catalog, *order.namespace, order.table)
    selected = spark.sql(
        # The columns and the condition are the server's own words: it has quoted what is not.
        f"SELECT {', '.join(order.columns)} FROM {source} VERSION AS OF {order.snapshot:d} WHERE {order.condition}"
    )
    selected.writeTo(table.sql).overwrite(lit(True))
    draft.after = after = measure(spark, table)
    draft.wrote = FileTotals(after.data_files, after.data_bytes, after.rows)
    draft.snapshots = () if after.snapshot is None else (after.snapshot,)
    draft.changed = True
    return draft.end()


def _order(spark: SparkSession, table: CatalogTable) -> CopySpec:
    """What the copy says it is made of. Raises InvalidInput for a table that is no copy."""
    text = properties_of(spark, table).get(COPY_PROPERTY)
    if text is None:
        raise InvalidInput(f"the table is not one of the server's copies. table={table}", argument="table")
    try:
        return decode_copy(text)
    except ValueError as error:
        raise InvalidInput(f"the copy does not say what it is made of: {error}. table={table}") from error


JOB: Final = JobDefinition(JobKind.COPY_RESTRICTED, "Fills a copy of what some see of a table", (), run)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
