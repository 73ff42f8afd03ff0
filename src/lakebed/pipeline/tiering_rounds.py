"""A worker of the lake: asks the server which stream table is due, has it tiered, and says so, again and again.

    python -m lakebed.pipeline.tiering_rounds --warehouse lake --streams 127.0.0.1:9123

The server gives a table when what is in the lake is older than the table's freshness (`table.datalake.freshness`), to
one worker at a time: each time with another epoch, by which a worker that was thought dead is known. It is told that
the worker lives while the table is tiered.
"""

from __future__ import annotations

import argparse
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.client.access import find_access
from lakebed.client.names import TableRef
from lakebed.client.stream_access import StreamAccess, stream_access
from lakebed.client.stream_lake import Assignment, StreamLake
from lakebed.core.errors import LakebedError
from lakebed.core.jobs import JobKind
from lakebed.core.settings import PipelineSettings

from .jobs import find_job
from .report import JobReport
from .session import spark_session
from .table_ref import CatalogTable

__all__ = ["BEAT_SECONDS", "tier_next", "work"]

log = logging.getLogger("lakebed.pipeline")

BEAT_SECONDS: Final = 20.0
"""How often the server is told; it gives the table to another after two minutes of silence."""
PAUSE_SECONDS: Final = 2.0
"""How long nothing is asked for when no table was due."""

Tier = Callable[[Assignment], JobReport]


def tier_next(access: StreamAccess, tier: Tier, *, beat_seconds: float = BEAT_SECONDS) -> Assignment | None:
    """Have the table tiered that is due, if one is; which it was. Raises StreamFailure if the server cannot be asked.

    A job that fails is told to the server, which gives the table again, and to the log.
    """
    with access.connect() as client:
        lake = StreamLake(client)
        given = lake.ask()
        if given is None:
            return None
        try:
            with _beating(access, given, beat_seconds):
                report = tier(given)
        except LakebedError as error:
            log.warning("a stream table was not tiered. table=%s.%s reason=%s", given.database, given.name, error)
            lake.fail(given)
        except BaseException:
            lake.fail(given)
            raise
        else:
            lake.finish(given, report.wrote.rows)
        return given


def work(access: StreamAccess, tier: Tier, *, until: Callable[[], bool], sleep: Callable[[float], None]) -> None:
    """Tier what is due until told to end. What can pass, passes: the server may be starting."""
    while not until():
        try:
            if tier_next(access, tier) is not None:
                continue
        except LakebedError as error:
            log.warning("the server of streams cannot be asked. reason=%s", error)
        sleep(PAUSE_SECONDS)


@contextmanager
def _beating(access: StreamAccess, given: Assignment, every_seconds: float) -> Iterator[None]:
    """Say that the worker lives, from a thread with a connection of its own, for the time of a block."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(every_seconds):
            try:
                with access.connect() as client:
                    StreamLake(client).beat(given)
            except LakebedError as error:
                # If the table was given to another, the commit of one of them gives way; nothing is lost by going on.
                log.warning("the server does not take a sign of life. table=%s reason=%s", given.name, error)

    thread = threading.Thread(target=beat, name="tiering-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def main() -> int:
    """Run as a program, until it is interrupted."""
    parser = argparse.ArgumentParser(prog="tiering-rounds", description="Tiers stream tables that are due.")
    parser.add_argument("--warehouse", required=True, help="the table bucket that they go to")
    parser.add_argument("--catalog-uri", metavar="URL", help="http://HOST:PORT of the server [LAKEBED_ENDPOINT]")
    parser.add_argument("--streams", metavar="HOST:PORT", help="where streams are served [LAKEBED_STREAMS]")
    parser.add_argument("--master", default=PipelineSettings().master, help="where Spark runs")
    arguments = parser.parse_args()
    keys = find_access(arguments.catalog_uri)
    access = stream_access(keys, arguments.streams)
    spark = spark_session(keys, arguments.warehouse, PipelineSettings(master=arguments.master))
    job = find_job(JobKind.TIER_STREAM)

    def tier(given: Assignment) -> JobReport:
        table = CatalogTable(TableRef(arguments.warehouse, (given.database,), given.name), keys)
        return job.do(spark, table, {"stream": f"{given.database}.{given.name}", "streams": access.address})

    try:
        work(access, tier, until=lambda: False, sleep=time.sleep)
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
