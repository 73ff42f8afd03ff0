"""`python -m benchmarks.pipeline`: runs the pipeline benchmarks and saves the results."""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import pyspark

from benchmarks.machine import machine
from benchmarks.pipeline import planning, tables, worker_start
from benchmarks.pipeline.compare import compare
from benchmarks.pipeline.scenarios import Compaction, Merge, Scenario
from benchmarks.pipeline.site import DISK, DISK_DURABILITY, LAKEBED, recipe, running_server, sites
from benchmarks.results import Circumstances
from benchmarks.session import report_progress, run, save, work_folder
from lakebed.pipeline.spark.versions import ICEBERG_VERSION

PLANNING: Final = "planning"
WORKER: Final = "worker"
NAMES: Final = (PLANNING, WORKER, Compaction.name, Merge.name)
NEEDED_BYTES: Final = 12 * 1024**3

TABLES, QUICK_TABLES = planning.GOAL_TABLES, 1_000
FILES, QUICK_FILES = 1_000, 100
ROWS, QUICK_ROWS = 10_000_000, 100_000
WORKERS, QUICK_WORKERS = 3, 1
TASKS, QUICK_TASKS = 6, 3
"""Tasks of each worker."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline", description="Benchmarks Spark jobs through Lakebed and on the bare disk."
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="rounds for each site and job (5; quick: 2)")
    parser.add_argument("--quick", action="store_true", help="short run; not saved in RESULTS.md")
    parser.add_argument("--folder", type=Path, help="where data is stored (default: the cache folder)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen benchmarks; 1 if rows or files are wrong."""
    options = parse(arguments)
    load_average = os.getloadavg()[0]
    wanted = options.only or NAMES
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder("pipeline", options.folder, NEEDED_BYTES))
        ours = recipe()
        circumstances = Circumstances(
            measured_at=datetime.now(UTC),
            machine=machine(folder),
            servers={LAKEBED: ours.version},
            durability={LAKEBED: ours.durability},
            written="a commit",
            load_average=load_average,
            rounds=options.rounds or (2 if options.quick else 5),
            seconds=0,
            complete=not (options.quick or options.rounds or options.only),
        )
        report_progress(circumstances.describe())
        code = 0
        if PLANNING in wanted:
            code |= _plan(options, folder, circumstances)
        server = stack.enter_context(running_server(folder / "lakebed"))
        spark = {"Spark": pyspark.__version__, "Iceberg": ICEBERG_VERSION}
        circumstances = msgspec.structs.replace(circumstances, servers=circumstances.servers | spark)
        if WORKER in wanted:
            workers, tasks = (QUICK_WORKERS, QUICK_TASKS) if options.quick else (WORKERS, TASKS)
            started = worker_start.measure(server, folder / "workers", workers=workers, tasks=tasks)
            code |= save(
                f"pipeline-{WORKER}",
                msgspec.structs.replace(circumstances, rounds=workers),
                started,
                tables.worker_starts(started),
            )
        scenarios = [each for each in _scenarios(options.quick) if each.name in wanted]
        if scenarios:
            both = stack.enter_context(sites(server, folder / "disk"))
            rows, broken = compare(scenarios, both, rounds=circumstances.rounds)
            circumstances = msgspec.structs.replace(
                circumstances,
                durability={**circumstances.durability, DISK: DISK_DURABILITY},
                complete=circumstances.complete and not broken,
            )
            code |= save("pipeline-compare", circumstances, rows, tables.comparison(rows), failed=bool(broken))
    return code


def _scenarios(quick: bool) -> list[Scenario]:
    return [Compaction(QUICK_FILES if quick else FILES), Merge(QUICK_ROWS if quick else ROWS)]


def _plan(options: argparse.Namespace, folder: Path, circumstances: Circumstances) -> int:
    count = QUICK_TABLES if options.quick else TABLES
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        passes = pool.submit(planning.measure, folder / PLANNING, count).result()
    circumstances = msgspec.structs.replace(circumstances, rounds=1)
    return save(f"pipeline-{PLANNING}", circumstances, passes, tables.planned(passes, count))


if __name__ == "__main__":
    run(main)
