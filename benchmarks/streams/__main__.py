"""`python -m benchmarks.streams`: streams against Apache Fluss, many keys, and the cost of ack_after_upload."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import results
from benchmarks.machine import machine
from benchmarks.session import report_progress, run, save, work_folder
from benchmarks.streams import compare, durability, many_keys, peers, programs
from benchmarks.streams.peers import StreamSite

PARTS = ("compare", "keys", "durability")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {', '.join(PARTS)} (all)")
    parser.add_argument("--rounds", type=int, help="rounds of each (5; quick: 1)")
    parser.add_argument(
        "--rows",
        type=int,
        help="rows of a log (2,000,000; quick: 200,000); pyfluss appends five times as many, KV tables have a quarter",
    )
    parser.add_argument("--keys", type=int, help="keys of the KV table (10,000,000; quick: 1,000,000)")
    parser.add_argument("--quick", action="store_true", help="short run; not saved in RESULTS.md")
    parser.add_argument("--alone", action="store_true", help="Lakebed without Fluss")
    parser.add_argument("--without-java", action="store_true", help="without the Java client")
    parser.add_argument("--folder", type=Path, help="where the servers keep their data (default: the cache folder)")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    options.parts = options.parts or PARTS
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the chosen parts; 1 if a goal is missed."""
    options = parse(arguments)
    status = 0
    with work_folder("streams", options.folder) as folder:
        if "compare" in options.parts:
            status |= _compare(options, folder)
        if "keys" in options.parts:
            status |= _many_keys(options, folder)
        if "durability" in options.parts:
            status |= _durability(options, folder)
    return status


def _compare(options: argparse.Namespace, folder: Path) -> int:
    rounds, rows = (
        options.rounds or (1 if options.quick else 5),
        options.rows or (200_000 if options.quick else 2_000_000),
    )
    loads = {"pyfluss": ([sys.executable, "-m", "benchmarks.streams.python_load"], rows)}
    if not options.without_java:
        loads["Java"] = ([*programs.load_program(), "paths"], rows // 2)
    load_average = os.getloadavg()[0]
    with ExitStack() as stack:
        sites = [stack.enter_context(peers.lakebed(folder / "lakebed"))]
        if not options.alone:
            sites.append(stack.enter_context(peers.fluss(folder / "fluss")))
        is_complete = not (options.quick or options.alone or options.rounds or options.rows or options.without_java)
        circumstances = _circumstances(sites, folder, load_average, rounds, is_complete=is_complete)
        report_progress(circumstances.describe())
        measured = compare.compare(sites, loads, rounds)
    table, is_missed = compare.table(measured, [site.name for site in sites])
    return save("streams", circumstances, measured, table, is_missed)


def _many_keys(options: argparse.Namespace, folder: Path) -> int:
    count = options.keys or (1_000_000 if options.quick else 10_000_000)
    load_average = os.getloadavg()[0]
    site, found = many_keys.measure(folder / "many", count)
    circumstances = _circumstances([site], folder, load_average, 1, is_complete=not (options.quick or options.keys))
    table, is_missed = many_keys.table(found)
    return save("streams-keys", circumstances, found, table, is_missed)


def _durability(options: argparse.Namespace, folder: Path) -> int:
    rounds = options.rounds or (1 if options.quick else 5)
    load_average = os.getloadavg()[0]
    appends, rows = (200, 200_000) if options.quick else (2_000, 2_000_000)
    site, found = durability.measure(folder / "durability", rounds, appends, rows)
    complete = not (options.quick or options.rounds)
    circumstances = _circumstances([site], folder, load_average, rounds, is_complete=complete)
    return save("streams-durability", circumstances, found, durability.table(found))


def _circumstances(
    sites: Sequence[StreamSite], folder: Path, load_average: float, rounds: int, *, is_complete: bool
) -> results.Circumstances:
    return results.Circumstances(
        measured_at=datetime.now(UTC),
        machine=machine(folder),
        servers={site.name: site.version for site in sites},
        durability={site.name: site.durability for site in sites},
        written="a batch with acks = -1",
        load_average=load_average,
        rounds=rounds,
        seconds=0,
        complete=is_complete,
    )


if __name__ == "__main__":
    run(main)
