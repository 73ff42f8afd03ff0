"""Restricted copies: filtered and masked copies of tables for restricted principals (ADR 22).

The server creates a copy without rows, and its properties state what to select from which snapshot. This job fills it
in one overwriting commit, so that two concurrent workers produce the same rows as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import COPY_PROPERTY, CopySpec, JobKind, decode_copy
from lakebed.pipeline.files.table_shape import current_snapshot, measure, properties_of
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import Options
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable, quoted_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Fill a restricted copy."""
    report = ReportBuilder(JobKind.COPY_RESTRICTED, table, dry_run=dry_run)
    spec = _copy_spec(spark, table)
    if current_snapshot(spark, table) is not None:
        report.skip("copy", "it is filled already")
        return report.end()
    if dry_run:
        return report.end()
    from pyspark.sql.functions import lit

    progress.stage("copying rows")
    source = quoted_name(table.catalog, *spec.namespace, spec.table)
    selected = spark.sql(
        # Columns and condition are SQL of the server, which has quoted all names and values.
        f"SELECT {', '.join(spec.columns)} FROM {source} VERSION AS OF {spec.snapshot:d} WHERE {spec.condition}"
    )
    selected.writeTo(table.sql).overwrite(lit(True))
    report.after = after = measure(spark, table)
    report.wrote = FileTotals(after.data_files, after.data_bytes, after.rows)
    report.snapshots = () if after.snapshot is None else (after.snapshot,)
    report.changed = True
    return report.end()


def _copy_spec(spark: SparkSession, table: CatalogTable) -> CopySpec:
    """The copy's specification. Raises InvalidInput for other tables."""
    text = properties_of(spark, table).get(COPY_PROPERTY)
    if text is None:
        raise InvalidInput(f"not a restricted copy. table={table}", argument="table")
    try:
        return decode_copy(text)
    except ValueError as error:
        raise InvalidInput(f"unreadable specification of a restricted copy: {error}. table={table}") from error


JOB: Final = JobDefinition(JobKind.COPY_RESTRICTED, "Fills a restricted copy of a table", (), run)


if __name__ == "__main__":
    raise SystemExit(run_program(JOB))
