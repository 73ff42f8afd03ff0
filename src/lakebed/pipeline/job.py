"""Definition of a job: kind, options and function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakebed.core.errors import LakebedError
from lakebed.core.jobs import JobKind, Option

from .errors import failure_of
from .options import Options, OptionSpec, read_options
from .progress import NoProgress, Progress, spark_progress
from .report import JobReport
from .table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JobFunction(Protocol):
    """The function of a job.

    It is idempotent: a repeated run skips finished work. It commits like any writer, and yields to other writers on a
    commit conflict.
    """

    def __call__(
        self, spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress
    ) -> JobReport:
        """Run the job; with `dry_run`, only report what it would do."""
        ...


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """A job and how to run it."""

    kind: JobKind
    text: str
    """Summary for help texts."""
    options: Sequence[OptionSpec]
    run: JobFunction
    default_table: str = ""
    """The default table, if the job has one."""

    def check(self, given: Mapping[str, Option]) -> Options:
        """Validate options. Raises InvalidInput that names the option."""
        return read_options(self.kind, self.options, given)

    def do(
        self,
        spark: SparkSession,
        table: CatalogTable,
        given: Mapping[str, Option],
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> JobReport:
        """Validate the options and run. Exceptions of Spark become Lakebed errors."""
        options = self.check(given)
        reporter = progress or NoProgress()
        try:
            with spark_progress(spark, reporter):
                return self.run(spark, table, options, dry_run=dry_run, progress=reporter)
        except LakebedError:
            raise
        except Exception as error:
            translated = failure_of(error, str(table))
            if translated is None:
                raise
            raise translated from error
