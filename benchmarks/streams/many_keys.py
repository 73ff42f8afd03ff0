"""A KV table of ten million keys: speed of filling, memory, and time until it is available after a restart."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

import fluss
from benchmarks.session import report_progress
from benchmarks.streams import peers, programs
from benchmarks.streams.peers import StreamSite
from benchmarks.streams.python_load import config
from benchmarks.table import Table

RESTART_SECONDS: Final = 5.0
FLAT: Final = 1.1
"""Maximum memory at the end relative to halfway."""

_TIMEOUT_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05


class Filled(msgspec.Struct, frozen=True):
    """The server with so many keys."""

    keys: int
    seconds: float
    resident_bytes: int


class Restarted(msgspec.Struct, frozen=True):
    """From the start of a server to the first lookup."""

    seconds: float
    cpu_seconds: float
    """Of all its processes."""


class ManyKeys(msgspec.Struct, frozen=True):
    filled: list[Filled]
    lookups_a_second: float
    resident_after_lookups_bytes: int
    stopped: Restarted
    """After an orderly stop."""
    killed: Restarted


def measure(folder: Path, count: int) -> tuple[StreamSite, ManyKeys]:
    """Fill a table, look keys up, and restart twice: after a stop and after a kill."""
    program = programs.load_program()
    with peers.lakebed(folder) as site:
        report_progress(f"filling {count:,} keys")
        filled = _fill([*program, "fill"], site, count)
        speed = _find([*program, "find"], site, count)
        after = site.resident_bytes()
        report_progress(f"  {speed:,.0f} lookups/s, {after >> 20:,} MiB")
    began = time.monotonic()
    with peers.lakebed(folder) as site:
        stopped = _restarted(site, count, began)
        report_progress(f"stopped: {stopped}")
        # Unflushed changes, which the kill loses from memory.
        _fill([*program, "change"], site, count)
        site.kill()
    began = time.monotonic()
    with peers.lakebed(folder) as site:
        killed = _restarted(site, count, began)
        report_progress(f"killed: {killed}")
    return site, ManyKeys(filled, speed, after, stopped, killed)


def table(found: ManyKeys) -> tuple[Table, bool]:
    """Format the results with goals; also returns whether one is missed."""
    last = found.filled[-1]
    half = found.filled[(len(found.filled) - 1) // 2]
    growth = last.resident_bytes / half.resident_bytes
    goals = [growth <= FLAT, *(each.seconds < RESTART_SECONDS for each in (found.stopped, found.killed))]
    lines = [
        [f"memory with {each.keys:,} keys, MiB", f"{each.resident_bytes >> 20:,}", "", ""] for each in found.filled
    ]
    lines += [
        [f"memory relative to {half.keys:,} keys", f"{growth:.2f}", f"≤ {FLAT:g}", _met(goals[0])],
        ["keys filled a second", f"{last.keys / last.seconds:,.0f}", "", ""],
        ["lookups a second", f"{found.lookups_a_second:,.0f}", "", ""],
        ["memory after lookups, MiB", f"{found.resident_after_lookups_bytes >> 20:,}", "", ""],
        ["stopped, to the first lookup, s", f"{found.stopped.seconds:.2f}", f"< {RESTART_SECONDS:g}", _met(goals[1])],
        ["its processor time, s", f"{found.stopped.cpu_seconds:.2f}", "", ""],
        ["killed, to the first lookup, s", f"{found.killed.seconds:.2f}", f"< {RESTART_SECONDS:g}", _met(goals[2])],
        ["its processor time, s", f"{found.killed.cpu_seconds:.2f}", "", ""],
    ]
    return Table("Many keys", ["figure", "found", "goal", "met"], lines), not all(goals)


def _met(is_met: bool) -> str:
    return "yes" if is_met else "no"


def _fill(command: Sequence[str], site: StreamSite, count: int) -> list[Filled]:
    """Write keys; read memory whenever the client reports another million."""
    filled = []
    arguments = [*command, site.address, str(count), *site.credentials]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as client:
        for line in client.stdout or ():
            match line.split():
                case ["done", _, keys, seconds, _]:
                    filled.append(Filled(int(keys), float(seconds), site.resident_bytes()))
                    report_progress(
                        f"  {int(keys):,} in {float(seconds):.1f} s, {filled[-1].resident_bytes >> 20:,} MiB"
                    )
    if client.returncode:
        raise RuntimeError(f"client failed. status={client.returncode}")
    return filled


def _find(command: Sequence[str], site: StreamSite, count: int) -> float:
    """Return lookups a second of random keys."""
    arguments = [*command, site.address, str(count), *site.credentials]
    output = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return int(output[2]) / float(output[3])


def _restarted(site: StreamSite, count: int, began: float) -> Restarted:
    found_at = asyncio.run(_first_lookup(site, count))
    return Restarted(found_at - began, site.cpu_seconds())


async def _first_lookup(site: StreamSite, count: int) -> float:
    """Return the time of the first successful lookup."""
    until = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            connection = await fluss.FlussConnection.create(config(site.address, *site.credentials))
            table = await connection.get_table(fluss.TablePath("java_load", "many"))
            row = await table.new_lookup().create_lookuper().lookup({"id": count // 2})
        except fluss.FlussError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(_POLL_SECONDS)
            continue
        if row is None:
            raise AssertionError("key not found")
        at = time.monotonic()
        await connection.close()
        return at
