"""`python -m benchmarks.streams`: streams beside Apache Fluss, with pyfluss and with its Java client."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import results
from benchmarks.cache import CACHE
from benchmarks.machine import machine
from benchmarks.streams import peers, programs
from benchmarks.streams.peers import StreamSite
from benchmarks.table import Table

GOALS: Final = {"append": 2.0, "scan": 2.0}
"""How many times the peer's speed we want to be; of all others once."""


class Measured(msgspec.Struct, frozen=True):
    """One path on one server: medians over the rounds."""

    path: str
    server: str
    rows_a_second: float
    rounds: list[float]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--rounds", type=int, help="rounds of each (5; quick: 1)")
    parser.add_argument("--rows", type=int, help="rows of a log (2,000,000; quick: 200,000); of keys a quarter")
    parser.add_argument("--quick", action="store_true", help="a look, not a result; not kept in RESULTS.md")
    parser.add_argument("--alone", action="store_true", help="our server without the peer")
    parser.add_argument("--without-java", action="store_true", help="pyfluss alone")
    parser.add_argument("--folder", type=Path, help="where the servers keep their data (default: the cache folder)")
    return parser.parse_args(arguments)


def tell(line: str) -> None:
    """Progress, apart from the results."""
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 when a goal is missed."""
    asked = parse(arguments)
    load_average = os.getloadavg()[0]
    rounds, rows = asked.rounds or (1 if asked.quick else 5), asked.rows or (200_000 if asked.quick else 2_000_000)
    parent = asked.folder or CACHE / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    speeds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-", dir=parent)))
        loads = {"pyfluss": [sys.executable, "-m", "benchmarks.streams.python_load"]}
        if not asked.without_java:
            (folder / "classes").mkdir()
            loads["Java"] = programs.load_program(folder / "classes")
        sites = [stack.enter_context(peers.lakebed(folder / "lakebed"))]
        if not asked.alone:
            sites.append(stack.enter_context(peers.fluss(folder / "fluss")))
        circumstances = results.Circumstances(
            measured_at=datetime.now(UTC),
            machine=machine(folder),
            servers={site.name: site.version for site in sites},
            durability={site.name: site.durability for site in sites},
            written="a batch with acks = -1",
            load_average=load_average,
            rounds=rounds,
            seconds=0,
            complete=not (asked.quick or asked.alone or asked.rounds or asked.rows or asked.without_java),
        )
        tell(circumstances.describe())
        for turn in range(rounds):
            for name, command in loads.items():
                for site in sites:
                    tell(f"round {turn + 1}: {name} on {site.name}")
                    count = rows if name == "pyfluss" else rows // 4
                    for path, speed in _run(command, site, count).items():
                        speeds[path, site.name].append(speed)
    measured = [Measured(path, server, statistics.median(found), found) for (path, server), found in speeds.items()]
    table, is_missed = _table(measured, [site.name for site in sites])
    table.show()
    tell(f"kept in {results.keep('streams', circumstances, measured, table)}")
    return 1 if is_missed else 0


def _run(command: Sequence[str], site: StreamSite, rows: int) -> dict[str, float]:
    """The speed of each path, in rows a second."""
    done = subprocess.run([*command, site.address, str(rows), *site.credentials], stdout=subprocess.PIPE, check=True)
    found = {}
    for line in done.stdout.decode().splitlines():
        words = line.split()
        if words[:1] == ["done"]:
            found[words[1]] = int(words[2]) / float(words[3])
            tell(f"  {words[1]}: {found[words[1]]:,.0f} rows/s")
    return found


def _table(measured: Sequence[Measured], servers: Sequence[str]) -> tuple[Table, bool]:
    speeds = {(each.path, each.server): each.rows_a_second for each in measured}
    lines, is_missed = [], False
    for path in dict.fromkeys(each.path for each in measured):
        ours, other = speeds.get((path, servers[0])), speeds.get((path, servers[-1]))
        is_compared = len(servers) > 1 and ours is not None and other is not None
        ratio = ours / other if is_compared and ours is not None and other is not None else None
        goal = GOALS.get(path, 1.0)
        is_missed |= ratio is not None and ratio < goal
        lines.append(
            [
                path,
                *("-" if each is None else f"{each:,.0f}" for each in (ours, *([other] if len(servers) > 1 else []))),
                *(["-" if ratio is None else f"{ratio:.2f}"] if len(servers) > 1 else []),
                f"{goal:g}",
            ]
        )
    columns = ["path (rows a second)", *servers, *(["ratio"] if len(servers) > 1 else []), "goal"]
    notes = ["A path without a figure is one that the server does not have: Fluss 0.9.1 has no scans by cursor."]
    return Table("Streams", columns, lines, notes), is_missed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
