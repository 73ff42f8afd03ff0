"""`python -m benchmarks.select`: runs the queries and saves the results."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import duckdb

from benchmarks import servers
from benchmarks.machine import machine
from benchmarks.results import Circumstances
from benchmarks.select import objects
from benchmarks.select.compare import client_of, compare, store, table, warm_up
from benchmarks.select.scenarios import SCENARIOS, SMALL
from benchmarks.session import report_progress, run, save, work_folder

NEEDED_BYTES: Final = 12 * 1024**3
SIZE_MIB, QUICK_SIZE_MIB = 1024, 64


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.select", description="Benchmarks S3 Select against MinIO and DuckDB."
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=f"some of: {', '.join(names)}")
    parser.add_argument("--rounds", type=int, help="rounds of each (3; quick: 1)")
    parser.add_argument("--alone", action="store_true", help="without MinIO")
    parser.add_argument("--quick", action="store_true", help="smaller objects; not saved in RESULTS.md")
    parser.add_argument("--folder", type=Path, help="where data is stored (default: the cache folder)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen queries."""
    options = parse(arguments)
    load_average = os.getloadavg()[0]
    rounds = options.rounds or (1 if options.quick else 3)
    wanted = [scenario for scenario in SCENARIOS if options.only is None or scenario.name in options.only]
    with work_folder("select", options.folder, NEEDED_BYTES) as folder, ExitStack() as stack:
        recipes = [servers.lakebed()] + ([] if options.alone else [servers.minio()])
        circumstances = Circumstances(
            measured_at=datetime.now(UTC),
            machine=machine(folder),
            servers={recipe.name: recipe.version for recipe in recipes} | {"DuckDB": duckdb.__version__},
            durability={recipe.name: recipe.durability for recipe in recipes},
            written="the object that is read",
            load_average=load_average,
            rounds=rounds,
            seconds=0,
            complete=not (options.quick or options.rounds or options.only or options.alone),
        )
        report_progress(circumstances.describe())
        needed = {scenario.object for scenario in wanted}
        _create_objects(folder, (QUICK_SIZE_MIB if options.quick else SIZE_MIB) * objects.MIB, needed)
        running = [stack.enter_context(servers.running(recipe, folder / recipe.name)) for recipe in recipes]
        for server in running:
            store(client_of(server), folder, needed)
        warm_up(running[0], folder)
        compared = []
        for scenario in wanted:
            report_progress(scenario.title)
            compared.append(compare(running[0], running[1] if len(running) > 1 else None, folder, scenario, rounds))
        return save("select-compare", circumstances, compared, table(compared))


def _create_objects(folder: Path, size: int, wanted: set[str]) -> None:
    if wanted & {"rows.csv", "rows.csv.gz"}:
        objects.csv_object(folder / "rows.csv", size)
    if "rows.csv.gz" in wanted:
        objects.gzip_object(folder / "rows.csv.gz", folder / "rows.csv")
    if "rows.json" in wanted:
        objects.json_object(folder / "rows.json", size)
    if "rows.parquet" in wanted:
        objects.parquet_object(folder / "rows.parquet", size)
    if SMALL in wanted:
        objects.small_objects(folder / SMALL)


if __name__ == "__main__":
    run(main)
