"""`python -m benchmarks.governance`: runs the governance benchmarks and saves the results."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks import servers
from benchmarks.governance import costs, lists, tables
from benchmarks.governance.site import DURABILITY
from benchmarks.machine import machine
from benchmarks.results import Circumstances
from benchmarks.session import report_progress, run, save, work_folder

COSTS: Final = "costs"
LISTS: Final = "lists"
NAMES: Final = (COSTS, LISTS)
NEEDED_BYTES: Final = 2 * 1024**3
TABLES, QUICK_TABLES = 10_000, 1_000


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.governance",
        description="Benchmarks authorization, policies, tokens and filtered lists.",
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="rounds of each (5; quick: 2)")
    parser.add_argument("--seconds", type=float, help="length of a round (2; quick: 0.3)")
    parser.add_argument("--quick", action="store_true", help="shorter rounds, fewer tables; not saved in RESULTS.md")
    parser.add_argument("--folder", type=Path, help="where the server's data is stored (default: the cache folder)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen benchmarks."""
    options = parse(arguments)
    load_average = os.getloadavg()[0]
    rounds = options.rounds or (2 if options.quick else 5)
    seconds = options.seconds or (0.3 if options.quick else 2)
    wanted = options.only or NAMES
    with work_folder("governance", options.folder, NEEDED_BYTES) as folder:
        ours = servers.lakebed()
        circumstances = Circumstances(
            measured_at=datetime.now(UTC),
            machine=machine(folder),
            servers={ours.name: ours.version},
            durability={ours.name: DURABILITY},
            written="a change of grants or policies",
            load_average=load_average,
            rounds=rounds,
            seconds=seconds,
            complete=not (options.quick or options.rounds or options.seconds or options.only),
        )
        report_progress(circumstances.describe())
        if COSTS in wanted:
            times = costs.measure(folder / COSTS, rounds=rounds, seconds=seconds)
            save(f"governance-{COSTS}", circumstances, times, tables.costs(times))
        if LISTS in wanted:
            count = QUICK_TABLES if options.quick else TABLES
            report_progress(f"creating {count:,} tables")
            times = lists.measure(folder / LISTS, count, rounds=rounds, seconds=seconds)
            save(f"governance-{LISTS}", circumstances, times, tables.listed(times, count))
    return 0


if __name__ == "__main__":
    run(main)
