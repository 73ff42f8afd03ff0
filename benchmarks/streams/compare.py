"""Runs the same clients on each server in turn: speeds, latencies, and the server's resources."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.session import report_progress
from benchmarks.streams.peers import StreamSite
from benchmarks.table import Table

GOALS: Final = {"append": 2.0, "scan": 2.0, "java-append": 2.0, "java-scan-log": 2.0}
"""Minimum speed relative to the peer; 1 for all other paths."""

CEILINGS: Final = ("append-acks-0", "java-append-acks-0")
"""The client's own limit, whatever the server."""

SPEED: Final = "rows/s"
CLIENT: Final = "rows/s of the client's processor time"
LATENCY: Final = "ms"
PROCESSOR: Final = "CPU s"
MEMORY: Final = "MiB"


class Measured(msgspec.Struct, frozen=True):
    """One path on one server: the median over the rounds."""

    path: str
    unit: str
    server: str
    median: float
    rounds: list[float]


def compare(sites: Sequence[StreamSite], loads: Mapping[str, tuple[Sequence[str], int]], rounds: int) -> list[Measured]:
    """Run every load, a command and its number of rows, on every site, in the order A B B A."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for turn in range(rounds):
        for load, (command, rows) in loads.items():
            for site in sites if turn % 2 == 0 else reversed(sites):
                os.sync()  # unwritten pages of one server must not slow the next
                report_progress(f"round {turn + 1}: {load} on {site.name}")
                before = site.cpu_seconds()
                for path, unit, value in _run(command, site, rows):
                    found[path, unit, site.name].append(value)
                    report_progress(f"  {path}: {value:,.6g} {unit}")
                found[f"all with {load}", PROCESSOR, site.name].append(site.cpu_seconds() - before)
                found[f"after {load}", MEMORY, site.name].append(site.resident_bytes() / 2**20)
    return [
        Measured(path, unit, server, statistics.median(values), values)
        for (path, unit, server), values in found.items()
    ]


def _run(command: Sequence[str], site: StreamSite, rows: int) -> list[tuple[str, str, float]]:
    """Parse the measurements that a load prints."""
    done = subprocess.run([*command, site.address, str(rows), *site.credentials], stdout=subprocess.PIPE, check=True)
    found = []
    for line in done.stdout.decode().splitlines():
        match line.split():
            case ["done", path, count, seconds, spent]:
                found.append((path, SPEED, int(count) / float(seconds)))
                if path in GOALS:
                    found.append((path, CLIENT, int(count) / float(spent)))
            case ["took", path, half, most]:
                found.append((f"{path} p50", LATENCY, float(half) * 1000))
                found.append((f"{path} p99", LATENCY, float(most) * 1000))
    return found


def table(measured: Sequence[Measured], servers: Sequence[str]) -> tuple[Table, bool]:
    """Format the results with ratios, speeds first; also returns whether a goal is missed."""
    medians = {(each.path, each.unit, each.server): each.median for each in measured}
    kinds = list(dict.fromkeys((each.path, each.unit) for each in measured))
    lines, is_missed = [], False
    for path, unit in sorted(kinds, key=lambda kind: (SPEED, CLIENT, LATENCY, PROCESSOR, MEMORY).index(kind[1])):
        values = [medians.get((path, unit, server)) for server in servers]
        cells = ["-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2f}" for value in values]
        ratio = _ratio(unit, values)
        goal = GOALS.get(path, 1.0) if unit == SPEED and path not in CEILINGS else None
        is_missed |= ratio is not None and goal is not None and ratio < goal
        compared = ["-" if ratio is None else f"{ratio:.2f}"] if len(servers) > 1 else []
        lines.append([f"{path} ({unit})", *cells, *compared, "" if goal is None else f"{goal:g}"])
    columns = ["path", *servers, *(["ratio"] if len(servers) > 1 else []), "goal"]
    notes = [
        "A ratio above 1 favours Lakebed: its speed divided by the peer's, or the peer's time or memory by Lakebed's.",
        "A path without a figure is not supported by the server: Fluss 0.9.1 has no scans by cursor.",
        "The client's own processor time limits its speed, whatever the server.",
        "Lakebed acknowledges an append when it is synced, Fluss when it is written: latencies have no goal.",
    ]
    return Table("Streams", columns, lines, notes), is_missed


def _ratio(unit: str, values: Sequence[float | None]) -> float | None:
    ours, other = values[0], values[-1]
    if len(values) < 2 or not ours or not other:
        return None
    return ours / other if unit in (SPEED, CLIENT) else other / ours
