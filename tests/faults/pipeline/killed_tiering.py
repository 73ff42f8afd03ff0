"""A process that runs tiering jobs and is killed before a given step: the program of `test_tiering_kills`.

First it finishes what its predecessor left, of a log table and of a KV table. After a line of input it starts a job for
each table, runs both up to the step, and kills the whole process group including the JVM of Spark.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lakebed.client.access import ServerAccess, find_access
from lakebed.client.names import TableRef
from lakebed.client.streams.lake import LakeTieringClient
from lakebed.core.jobs import JobKind
from lakebed.core.settings import PipelineSettings
from lakebed.pipeline.jobs import find_job, tier_stream
from lakebed.pipeline.report import JobReport, ReportBuilder
from lakebed.pipeline.spark.config import CATALOG
from lakebed.pipeline.spark.session import attach_catalog, start_spark
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE: Final = "fluss"
STEPS: Final = ("prepare", "create branch", "write", "fast forward", "drop branch", "report", "end")
"""The job is killed before one of these. From the fifth on the records are in the Iceberg table."""
NEVER: Final = "never"


def main(endpoint: str, catalog: str, log: str, keyed: str, step: str) -> None:
    """Finish earlier work, wait for a line, and die at `step`; end normally if it is `never`."""
    access = find_access(endpoint)
    # One session each: a job stores its snapshot properties in settings of its session.
    first = start_spark(PipelineSettings())
    second: Any = first.newSession()  # Any: PySpark types it as another session class
    for spark in (first, second):
        attach_catalog(spark, access, catalog)
    for spark, table in ((first, log), (second, keyed)):
        report = tier(spark, access, catalog, table)
        print(f"resumed {table} {report.wrote.rows}", flush=True)
    sys.stdin.readline()
    if step == NEVER:
        return
    actions = iter((lambda: tier(second, access, catalog, keyed), lambda: die(step)))
    on_reaching(step, lambda: next(actions)())
    tier(first, access, catalog, log)
    raise AssertionError(f"the step was not reached: {step}")


def tier(spark: SparkSession, access: ServerAccess, catalog: str, table: str) -> JobReport:
    """Run one tiering job, as a worker does."""
    ref = CatalogTable(TableRef(catalog, (DATABASE,), table), access, CATALOG)
    return find_job(JobKind.TIER_STREAM).do(spark, ref, {})


def die(step: str) -> None:
    """Kill the process group."""
    print(f"killed before {step}", flush=True)
    os.killpg(0, signal.SIGKILL)


def on_reaching(step: str, act: Callable[[], object]) -> None:
    """Call `act` before a step."""
    match step:
        case "prepare":
            _before(LakeTieringClient, "prepare", act)
        case "create branch":
            _before(tier_stream._Tiering, "_branch", act)
        case "write":
            _before(tier_stream._Tiering, "_write", act)
        case "fast forward":
            _before(tier_stream._Tiering, "_fast_forward", act)
        case "drop branch":
            _before_dropping(act)
        case "report":
            _before(LakeTieringClient, "commit", act)
        case "end":
            _before(ReportBuilder, "end", act)
        case _:
            raise ValueError(step)


def _before(owner: Any, name: str, act: Callable[[], object]) -> None:  # Any: a class or a module
    original = getattr(owner, name)

    def patched(*arguments: Any, **more: Any) -> Any:
        act()
        return original(*arguments, **more)

    setattr(owner, name, patched)


def _before_dropping(act: Callable[[], object]) -> None:
    original = tier_stream._Tiering._branch

    @contextmanager
    def branch(tiering: Any, base: int | None) -> Iterator[str]:
        with original(tiering, base) as name:
            yield name
            act()

    setattr(tier_stream._Tiering, "_branch", branch)  # noqa: B010  # a type checker rejects the assignment


if __name__ == "__main__":
    main(*sys.argv[1:])
