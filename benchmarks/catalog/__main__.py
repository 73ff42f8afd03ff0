"""`python -m benchmarks.catalog`: runs the catalog benchmarks and saves the results."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks import loadtool, results
from benchmarks.catalog import tables
from benchmarks.catalog.compare import compare
from benchmarks.catalog.growth import grow_snapshots, grow_tables
from benchmarks.catalog.scenarios import ENTRIES
from benchmarks.catalog.site import Site, lakebed_site, nessie_site, reference_site
from benchmarks.machine import machine
from benchmarks.session import report_progress, run, save, work_folder

NAMES = [entry.make(True).name for entry in ENTRIES]
NEEDED_BYTES = 16 * 1024**3
SNAPSHOTS = (10, 100, 1_000, 10_000)
TABLES = (10, 100, 1_000, 10_000, 100_000)
QUICK_GROWTH = 3
"""Number of sizes in a quick run."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.catalog",
        description="Benchmarks Lakebed's Iceberg catalog against the reference server and Nessie.",
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="rounds for each catalog and path (5; quick: 2)")
    parser.add_argument("--seconds", type=float, help="length of a round (4; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="shorter rounds, fewer tables; not saved in RESULTS.md")
    parser.add_argument("--alone", action="store_true", help="Lakebed without the peers")
    parser.add_argument(
        "--large",
        action="store_true",
        help="instead: Lakebed with 10 to 10^4 snapshots in a table, and 10 to 10^5 tables",
    )
    parser.add_argument("--folder", type=Path, help="where the servers keep their data (default: the cache folder)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen benchmarks; 1 if a server sent an unexpected response."""
    options = parse(arguments)
    load_average = os.getloadavg()[0]
    rounds = options.rounds or (2 if options.quick else 5)
    seconds = options.seconds or (1 if options.quick else 4)
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder("catalog", options.folder, NEEDED_BYTES))
        scratch = folder / "client"
        scratch.mkdir()
        tool = loadtool.LoadTool(loadtool.build(), scratch)
        sites = [stack.enter_context(lakebed_site(folder / "lakebed", tool))]
        if not (options.alone or options.large):
            sites.append(stack.enter_context(reference_site(folder / "reference", tool)))
            sites.append(stack.enter_context(nessie_site(folder / "nessie", tool)))
        recipes = [site.server.recipe for site in sites]
        circumstances = results.Circumstances(
            measured_at=datetime.now(UTC),
            machine=machine(folder),
            servers={recipe.name: recipe.version for recipe in recipes},
            durability={recipe.name: recipe.durability for recipe in recipes},
            written="a commit",
            load_average=load_average,
            rounds=rounds,
            seconds=seconds,
            complete=not (options.quick or options.rounds or options.seconds or options.alone or options.only),
        )
        report_progress(circumstances.describe())
        if options.large:
            return _grow(sites[0], circumstances, quick=options.quick)
        return _compare(options, sites, circumstances)


def _compare(options: argparse.Namespace, sites: Sequence[Site], circumstances: results.Circumstances) -> int:
    wanted = options.only or NAMES
    rows, broken = compare(
        [entry for entry in ENTRIES if entry.make(options.quick).name in wanted],
        sites,
        rounds=circumstances.rounds,
        seconds=circumstances.seconds,
        quick=options.quick,
    )
    if broken:
        report_progress(f"failed scenarios: {', '.join(broken)}")
        circumstances = msgspec.structs.replace(circumstances, complete=False)
    table = tables.comparison(rows, [site.name for site in sites])
    return save("catalog-compare", circumstances, rows, table, bool(broken) or any(row.failed for row in rows))


def _grow(site: Site, circumstances: results.Circumstances, *, quick: bool) -> int:
    rounds, seconds = min(circumstances.rounds, 3), circumstances.seconds / 2
    sizes = SNAPSHOTS[:QUICK_GROWTH] if quick else SNAPSHOTS
    grown = grow_snapshots(site, sizes, rounds=rounds, seconds=seconds)
    table = tables.growth("Lakebed as a table's snapshots grow", "snapshots", grown)
    failed = any(cost.errors for each in grown for cost in each.paths.values())
    code = save("catalog-snapshots", circumstances, grown, table, failed)
    sizes = TABLES[:QUICK_GROWTH] if quick else TABLES
    grown = grow_tables(site, sizes, rounds=rounds, seconds=seconds)
    table = tables.growth("Lakebed as the catalog grows", "tables", grown)
    failed = any(cost.errors for each in grown for cost in each.paths.values())
    return code | save("catalog-tables", circumstances, grown, table, failed)


if __name__ == "__main__":
    run(main)
