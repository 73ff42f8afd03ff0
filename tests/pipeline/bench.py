"""A table bucket with Spark configured as in the pipeline, to run jobs on tables that Spark wrote."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from lakebed.client.access import ServerAccess
from lakebed.client.names import TableRef
from lakebed.core.jobs import JobKind, Option
from lakebed.core.secrets import Secret
from lakebed.core.settings import PipelineDelegation, PipelineSettings
from lakebed.pipeline.jobs import find_job
from lakebed.pipeline.report import JobReport
from lakebed.pipeline.spark.session import attach_catalog
from lakebed.pipeline.table_ref import CatalogTable
from tests.clients.boto import Keys
from tests.clients.iceberg.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_MARKS: Final = [
    pytest.mark.integration,
    pytest.mark.slow,
    # PySpark leaves the socket of rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SECONDS: Final = 1000
"""In milliseconds."""


def access_of(lake: Lake, keys: Keys) -> ServerAccess:
    return ServerAccess(lake.server.endpoint, keys.access_key, Secret(keys.secret_key))


@dataclass(frozen=True, slots=True)
class Bench:
    """The session with this catalog."""

    spark: SparkSession
    lake: Lake
    access: ServerAccess
    catalog: str

    def table(self, namespace: str, name: str = "t") -> CatalogTable:
        return CatalogTable(TableRef(self.lake.warehouse, (namespace,), name), self.access, self.catalog)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:  # Any: values of rows
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    def value(self, query: str) -> Any:  # Any: a value
        ((found,),) = self.sql(query)
        return found

    def do(
        self, kind: JobKind, table: CatalogTable, options: dict[str, Option] | None = None, *, dry_run: bool = False
    ) -> JobReport:
        return find_job(kind).do(self.spark, table, options or {}, dry_run=dry_run)

    def files(self, table: CatalogTable, kind: str = "files") -> list[str]:
        return sorted(row[0] for row in self.sql(f"SELECT file_path FROM {table.inside(kind)}"))

    def rows(self, table: CatalogTable, order: str = "id") -> list[tuple[Any, ...]]:  # Any: likewise
        return self.sql(f"SELECT * FROM {table.sql} ORDER BY {order}")

    def checksum(self, table: CatalogTable) -> Option:
        """The checksum of a table's rows. Fails if verification finds a problem."""
        report = self.do(JobKind.VERIFY, table, {"checksums": True, "all-snapshots": True})
        assert report.is_well, report.problems
        return report.details["checksum"]


def new_bench(
    spark: SparkSession, lake: Lake, keys: Keys, delegation: PipelineDelegation = PipelineDelegation.VENDED
) -> Bench:
    """Add the table bucket to the session, configured as in the pipeline."""
    access, catalog = access_of(lake, keys), f"pipeline_{uuid.uuid4().hex[:8]}"
    attach_catalog(spark, access, lake.warehouse, PipelineSettings(delegation=delegation), catalog=catalog)
    return Bench(spark, lake, access, catalog)


def changed_nothing(report: JobReport, words: str) -> bool:
    """Whether the job changed nothing, for this reason."""
    return not report.changed and any(words in one.reason for one in report.skipped)
