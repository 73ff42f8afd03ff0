"""A process that tiers, and is killed before a step that is named: the program of `test_tiering_kills`.

First it goes on with what the one before it has left, of a log and of a table with keys. Then, told to, it begins a
round of each, both of them as far as the step; and there the whole process is killed, Spark's Java with it.
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
STEPS: Final = ("prepare", "create branch", "write", "fast forward", "drop branch", "tell", "end")
"""What the job is killed before. From the fifth on the records are in the table."""
NEVER: Final = "never"


def main(endpoint: str, warehouse: str, log: str, keyed: str, step: str) -> None:
    """Go on, wait for a word, and die; or end, if there is no such step."""
    access = find_access(endpoint)
    # One session each: what a job has snapshots say is a setting of its session.
    first = start_spark(PipelineSettings())
    second: Any = first.newSession()  # Any: PySpark says it is another kind of session
    for spark in (first, second):
        attach_catalog(spark, access, warehouse)
    for spark, table in ((first, log), (second, keyed)):
        report = tier(spark, access, warehouse, table)
        print(f"went on {table} {report.wrote.rows}", flush=True)
    sys.stdin.readline()
    if step == NEVER:
        return
    actions = iter((lambda: tier(second, access, warehouse, keyed), lambda: die(step)))
    on_reaching(step, lambda: next(actions)())
    tier(first, access, warehouse, log)
    raise AssertionError(f"the step was not reached: {step}")


def tier(spark: SparkSession, access: ServerAccess, warehouse: str, table: str) -> JobReport:
    """One round, as a worker does it."""
    ref = CatalogTable(TableRef(warehouse, (DATABASE,), table), access, CATALOG)
    return find_job(JobKind.TIER_STREAM).do(spark, ref, {})


def die(step: str) -> None:
    """End all that runs here, at once."""
    print(f"killed before {step}", flush=True)
    os.killpg(0, signal.SIGKILL)


def on_reaching(step: str, act: Callable[[], object]) -> None:
    """Have `act` called before a step."""
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
        case "tell":
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

    setattr(tier_stream._Tiering, "_branch", branch)  # noqa: B010  # a type checker would not have it


if __name__ == "__main__":
    main(*sys.argv[1:])
