"""`python -m benchmarks.s3`: runs the S3 benchmarks and saves the results."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks import loadtool, results, servers
from benchmarks.machine import machine
from benchmarks.s3 import tables
from benchmarks.s3.compare import compare
from benchmarks.s3.scale import scale
from benchmarks.s3.scenarios import ENTRIES
from benchmarks.s3.site import Bodies, Site
from benchmarks.s3.soak import soak
from benchmarks.s3.transfer_memory import transfer_memory
from benchmarks.session import report_progress, run, save, work_folder
from benchmarks.signing import Signing

MEMORY = "memory"
NAMES = [entry.make(True).name for entry in ENTRIES] + [MEMORY]
NEEDED_BYTES = 24 * 1024**3
SOAK_SECONDS = 3600
"""Shorter soaks are not saved in RESULTS.md."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.s3", description="Benchmarks Lakebed's S3 API against MinIO."
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="rounds for each server and path (5; quick: 2)")
    parser.add_argument("--seconds", type=float, help="length of a round (4; quick: 1)")
    parser.add_argument("--signing", choices=[each.value for each in Signing], help="only one way of signing")
    parser.add_argument(
        "--quick", action="store_true", help="shorter rounds and smaller transfers; not saved in RESULTS.md"
    )
    parser.add_argument("--alone", action="store_true", help="Lakebed without MinIO")
    parser.add_argument("--null", action="store_true", help="MinIO on both sides, to measure noise")
    parser.add_argument("--large", action="store_true", help="instead: Lakebed with 10^4 to 10^7 objects (quick: 10^6)")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="instead: Lakebed's memory under a mixed load")
    parser.add_argument("--folder", type=Path, help="where the servers keep their data (default: the cache folder)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen benchmarks; 1 if a server sent an unexpected response."""
    options = parse(arguments)
    load_average = os.getloadavg()[0]
    rounds = options.rounds or (2 if options.quick else 5)
    seconds = options.seconds or (1 if options.quick else 4)
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder("s3", options.folder, NEEDED_BYTES))
        scratch = folder / "client"
        scratch.mkdir()
        tool = loadtool.LoadTool(loadtool.build(), scratch)
        bodies = Bodies(scratch)
        recipes = _recipes(options)
        sites = [
            Site(stack.enter_context(servers.running(recipe, folder / recipe.name)), tool, bodies) for recipe in recipes
        ]
        shortened = options.quick or options.rounds or options.seconds or (options.soak and options.soak < SOAK_SECONDS)
        partial = shortened or options.null or options.alone or options.only or options.signing
        circumstances = results.Circumstances(
            measured_at=datetime.now(UTC),
            machine=machine(folder),
            servers={recipe.name: recipe.version for recipe in recipes},
            durability={recipe.name: recipe.durability for recipe in recipes},
            written="a PUT",
            load_average=load_average,
            rounds=rounds,
            seconds=seconds,
            complete=not partial,
        )
        report_progress(circumstances.describe())
        if options.soak:
            soaked = soak(sites[0], options.soak)
            return save("s3-soak", circumstances, soaked, tables.soaked(soaked), bool(soaked.errors))
        if options.large:
            sizes = [10**4, 10**5, 10**6] + ([] if options.quick else [10**7])
            found = scale(sites[0], sizes, rounds=min(rounds, 3), seconds=seconds / 2)
            failed = any(cost.errors for each in found for cost in each.paths.values())
            return save("s3-scale", circumstances, found, tables.scales(found), failed)
        return _compare(options, sites, circumstances)


def _recipes(options: argparse.Namespace) -> list[servers.Recipe]:
    if options.null:
        return [replace(servers.minio(), name="MinIO-1"), replace(servers.minio(), name="MinIO-2")]
    if options.alone or options.large or options.soak:
        return [servers.lakebed()]
    return [servers.lakebed(), servers.minio()]


def _compare(options: argparse.Namespace, sites: Sequence[Site], circumstances: results.Circumstances) -> int:
    wanted = options.only or NAMES
    code = 0
    entries = [entry for entry in ENTRIES if entry.make(options.quick).name in wanted]
    if entries:
        rows, broken = compare(
            entries,
            sites,
            [Signing(options.signing)] if options.signing else list(Signing),
            rounds=circumstances.rounds,
            seconds=circumstances.seconds,
            quick=options.quick,
        )
        table = tables.comparison(rows, [site.server.recipe.name for site in sites])
        if broken:
            report_progress(f"failed scenarios: {', '.join(broken)}")
            circumstances = msgspec.structs.replace(circumstances, complete=False)
        failed = bool(broken) or any(row.failed for row in rows)
        code |= save("s3-compare", circumstances, rows, table, failed)
    if MEMORY in wanted:
        report_progress("memory: 64 downloads and 64 uploads")
        memory = {site.server.recipe.name: transfer_memory(site, options.quick) for site in sites}
        table = tables.transfer_memory(memory)
        code |= save("s3-memory", circumstances, memory, table, any(each.errors for each in memory.values()))
    return code


if __name__ == "__main__":
    run(main)
