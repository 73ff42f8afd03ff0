"""A job: what it is called, what it can be told, and how it is run."""

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
    """What a job does.

    It may be run again at any time: what is done already is skipped. It commits to the table as anybody does, and when
    somebody else was first, it is the job that gives way.
    """

    def __call__(
        self, spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress
    ) -> JobReport:
        """Do it; with `dry_run`, only find out what there is to do."""
        ...


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """A job."""

    kind: JobKind
    text: str
    """What it is good for, in a line."""
    options: Sequence[OptionSpec]
    run: JobFunction
    default_table: str = ""
    """The table it works on if none is named."""

    def check(self, given: Mapping[str, Option]) -> Options:
        """The options, checked. Raises InvalidInput that names the one that is wrong."""
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
        """Check the options and run. Whatever Spark raises becomes an error of ours."""
        options = self.check(given)
        told = progress or NoProgress()
        try:
            with spark_progress(spark, told):
                return self.run(spark, table, options, dry_run=dry_run, progress=told)
        except LakebedError:
            raise
        except Exception as error:
            made = failure_of(error, str(table))
            if made is None:
                raise
            raise made from error
