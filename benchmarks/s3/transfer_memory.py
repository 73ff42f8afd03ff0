"""Memory while 64 clients download and 64 upload 64 MiB each, slowly and at the same time."""

from __future__ import annotations

from typing import Final

import msgspec

from benchmarks.endpoint import Request
from benchmarks.loadtool import Report
from benchmarks.processes import MemoryWatch
from benchmarks.s3.site import Site
from benchmarks.signing import Signing

MIB: Final = 1024 * 1024
CLIENTS: Final = 64
SIZE: Final = 64 * MIB
RATE: Final = 4 * MIB
"""Bytes a second for each client: slow enough that a server which reads ahead would buffer a lot."""
BUCKET: Final = "memory"
GOAL_MIB: Final = 250


class TransferMemory(msgspec.Struct, frozen=True):
    """Resident memory of a server's largest process."""

    idle_mib: float
    highest_mib: float
    highest_anonymous_mib: float
    seconds: float
    errors: dict[str, int]


def transfer_memory(site: Site, quick: bool) -> TransferMemory:
    """Run the transfers once, sampling memory ten times a second."""
    size = SIZE // 4 if quick else SIZE
    body = site.bodies.noise(size)
    site.create_bucket(BUCKET)
    stored = [f"/{BUCKET}/down/{index}" for index in range(8)]
    site.tool.deliver(site.endpoint, [Request("PUT", path, body=body) for path in stored])
    down = [Request("GET", stored[index % len(stored)], length=(size, size)) for index in range(CLIENTS)]
    up = [Request("PUT", f"/{BUCKET}/up/{index}", body=body) for index in range(CLIENTS)]
    with MemoryWatch(site.server.pid) as idle:
        pass
    with MemoryWatch(site.server.pid) as busy:
        loads = [
            site.tool.start(site.endpoint, requests, Signing.HEADER, connections=CLIENTS, rate=RATE)
            for requests in (down, up)
        ]
        reports = [load.wait() for load in loads]
    highest = busy.highest()
    return TransferMemory(
        idle_mib=idle.highest().resident / MIB,
        highest_mib=highest.resident / MIB,
        highest_anonymous_mib=highest.anonymous / MIB,
        seconds=max(report.elapsed_seconds for report in reports),
        errors=_errors(reports),
    )


def _errors(reports: list[Report]) -> dict[str, int]:
    found: dict[str, int] = {}
    for report in reports:
        for text, count in report.errors.items():
            found[text] = found.get(text, 0) + count
    return found
