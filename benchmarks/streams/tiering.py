"""`python -m benchmarks.streams.tiering`: lake tiering of a stream, compared with Spark copying the same rows.

Both create a new table of the same layout in one Spark session: the job from a log, the copy with `INSERT INTO …
SELECT` from an Iceberg table. The ratio is the cost of reading from a stream.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyspark

from benchmarks import results
from benchmarks.machine import machine
from benchmarks.pipeline import site
from benchmarks.servers import Recipe, free_port
from benchmarks.session import report_progress, run, save, work_folder
from benchmarks.table import Table
from lakebed.client import TableRef
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.logs import StreamLogWriter
from lakebed.client.streams.tables import describe
from lakebed.core.jobs import JobKind
from lakebed.core.settings import PipelineSettings
from lakebed.pipeline.jobs import find_job
from lakebed.pipeline.spark.session import spark_session
from lakebed.pipeline.spark.versions import ICEBERG_VERSION
from lakebed.pipeline.streams.table_layout import create_statement
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE: Final = "fluss"
STREAM: Final = "events"
BUCKETS: Final = 4
BATCH_ROWS: Final = 20_000
GOAL: Final = 0.8
ROWS, QUICK_ROWS = 5_000_000, 400_000


class Paths(msgspec.Struct, frozen=True):
    """Seconds of each round, for both ways."""

    rows: int
    tiering: list[float]
    copying: list[float]

    @property
    def ratio(self) -> float:
        """Speed of tiering relative to the copy, by the medians."""
        return statistics.median(self.copying) / statistics.median(self.tiering)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams.tiering", description=__doc__)
    parser.add_argument("--rounds", type=int, help="rounds of each, after a warm-up (5; quick: 2)")
    parser.add_argument("--rows", type=int, help=f"rows of the stream ({ROWS:,}; quick: {QUICK_ROWS:,})")
    parser.add_argument("--quick", action="store_true", help="short run; not saved in RESULTS.md")
    parser.add_argument("--folder", type=Path, help="where the server keeps its data (default: the cache folder)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark; 1 if the goal is missed."""
    options = parse(arguments)
    load_average = os.getloadavg()[0]
    rounds, rows = (
        options.rounds or (2 if options.quick else 5),
        options.rows or (QUICK_ROWS if options.quick else ROWS),
    )
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder("tiering", options.folder))
        address = f"127.0.0.1:{free_port()}"
        recipe = _recipe(address)
        circumstances = results.Circumstances(
            measured_at=datetime.now(UTC),
            machine=machine(folder),
            servers={site.LAKEBED: recipe.version, "Spark": pyspark.__version__, "Iceberg": ICEBERG_VERSION},
            durability={site.LAKEBED: recipe.durability},
            written="a commit",
            load_average=load_average,
            rounds=rounds,
            seconds=0,
            complete=not (options.quick or options.rounds or options.rows),
        )
        report_progress(circumstances.describe())
        server = stack.enter_context(site.running_server(folder / "lakebed", recipe))
        access = site.access_to(server)
        with StreamClient(address, access.access_key_id, access.secret_access_key) as client:
            _fill(client, rows)
            create = create_statement("{}", describe(client, DATABASE, STREAM))
        spark = spark_session(access, site.WAREHOUSE, PipelineSettings())
        stack.callback(spark.stop)

        def table(name: str) -> CatalogTable:
            return CatalogTable(TableRef(site.WAREHOUSE, (site.NAMESPACE,), name), access)

        def tier(name: str) -> None:
            options = {"stream": f"{DATABASE}.{STREAM}", "streams": address}
            report = find_job(JobKind.TIER_STREAM).do(spark, table(name), options)
            _check(report.wrote.rows, rows, name)

        def copy(name: str) -> None:
            spark.sql(create.format(table(name).sql))
            spark.sql(f"INSERT INTO {table(name).sql} SELECT * FROM {table('tiered_0').sql}")

        paths = Paths(rows, *_times(spark, {"tiered": tier, "copied": copy}, rounds))
        for name in ("tiered", "copied"):
            _check(spark.table(table(f"{name}_{rounds}").sql).count(), rows, name)
    return save("streams-tiering", circumstances, paths, _table(paths), paths.ratio < GOAL)


def _recipe(address: str) -> Recipe:
    """Lakebed with streams."""
    ours = site.recipe()
    return replace(
        ours,
        environment=lambda folder, port, credentials: {
            **ours.environment(folder, port, credentials),
            "LAKEBED_STREAMS__LISTEN": address,
        },
    )


def _fill(client: StreamClient, rows: int) -> None:
    """Append rows of usual columns, in batches as a writer makes them."""
    kinds = {"id": "BIGINT", "name": "STRING", "score": "DOUBLE", "country": "STRING", "amount": "BIGINT"}
    columns = [
        {"name": name, "data_type": {"type": kind}, "id": number} for number, (name, kind) in enumerate(kinds.items())
    ]
    document = {
        "version": 1,
        "schema": {"version": 1, "columns": columns, "highest_field_id": len(columns) - 1},
        "bucket_count": BUCKETS,
    }
    client.create_table(DATABASE, STREAM, msgspec.json.encode(document))
    writer = StreamLogWriter(client, client.table(DATABASE, STREAM))
    random = np.random.default_rng(1)
    countries = pa.array(["de", "fr", "it", "es", "pl", "se"])
    started = time.monotonic()
    for first in range(0, rows, BATCH_ROWS):
        ids = np.arange(first, min(first + BATCH_ROWS, rows))
        arrays = [
            pa.array(ids),
            pa.array([f"name-{id % 9973:05d}" for id in ids]),
            pa.array(random.random(len(ids))),
            countries.take(pa.array(random.integers(0, 6, len(ids)))),
            pa.array(random.integers(0, 1_000_000, len(ids))),
        ]
        writer.append(pa.RecordBatch.from_arrays(arrays, schema=writer.schema))
    report_progress(f"{rows:,} rows written to the stream in {time.monotonic() - started:.1f} s")


def _times(spark: SparkSession, works: Mapping[str, Callable[[str], None]], rounds: int) -> Iterator[list[float]]:
    """Return the seconds of each round, alternating, without the first, which warms up Java."""
    found: dict[str, list[float]] = {name: [] for name in works}
    java: Any = spark._jvm  # Any: objects of Java
    for turn in range(rounds + 1):
        for name, work in works.items():
            java.System.gc()
            started = time.monotonic()
            work(f"{name}_{turn}")
            found[name].append(time.monotonic() - started)
            report_progress(f"  {name}_{turn}: {found[name][-1]:.2f} s")
    return (seconds[1:] for seconds in found.values())


def _check(found: int, wanted: int, name: str) -> None:
    if found != wanted:
        raise RuntimeError(f"rows are missing. table={name} found={found} wanted={wanted}")


def _table(paths: Paths) -> Table:
    speeds = [paths.rows / statistics.median(seconds) for seconds in (paths.tiering, paths.copying)]
    is_met = "yes" if paths.ratio >= GOAL else "no"
    return Table(
        "Tiering",
        ["rows", "tier-stream, rows/s", "copy Iceberg to Iceberg, rows/s", "ratio", "goal", "met"],
        [[f"{paths.rows:,}", *(f"{speed:,.0f}" for speed in speeds), f"{paths.ratio:.2f}", f"≥ {GOAL:g}", is_met]],
    )


if __name__ == "__main__":
    run(main)
