"""Killing servers at random points, and what is found in their folder afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Protocol

from tests.fixtures.server import RunningServer, launch_server

from .data_folder import Blobs, metadata_of, read_blobs, release_leases, temporary_files
from .rounds import PATIENCE_SECONDS

SEED: Final = int(os.environ.get("FAULT_SEED", "20261115"))
SWEEPING: Final = ("--set", "objects.sweep_interval=0.05s", "--set", "objects.orphan_window=5s")
"""Sweeps all the time; and a window that no write of these tests stays within on the slowest machine."""

SWEEPING_AT_LAST: Final = ("--set", "objects.sweep_interval=0.05s", "--set", "objects.orphan_window=1s")


class Worker(Protocol):
    """A client that goes on until it is told to stop or the server is gone."""

    def work(self, server: RunningServer, stop: threading.Event) -> None: ...


@dataclass
class Kills:
    """What one run saw."""

    kills: int = 0
    workers_killed: int = 0
    starts_killed: int = 0
    orphans: set[str] = field(default_factory=set)
    findings: list[str] = field(default_factory=list)

    def found(self, kind: str) -> int:
        return sum(finding.startswith(kind) for finding in self.findings)

    @property
    def killed(self) -> str:
        return f"kills={self.kills} (workers={self.workers_killed} starts={self.starts_killed})"


def work_until_killed(
    server: RunningServer, clients: Sequence[Worker], random: Random, tally: Kills, longest_seconds: float = 0.4
) -> list[Future[None]]:
    """Let the clients write, kill at a random point, and wait until they have noticed. How each of them ended."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(clients)) as threads:
        working = [threads.submit(client.work, server, stop) for client in clients]
        time.sleep(random.uniform(0.01, longest_seconds))
        if random.random() < 0.3:
            kill_a_worker(server, random, tally)
            time.sleep(random.uniform(0.05, 0.3))
        server.kill()
        tally.kills += 1
        stop.set()
    return working


def kill_a_worker(server: RunningServer, random: Random, tally: Kills) -> None:
    """End one of its workers."""
    pid = server.process.pid
    workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(random.choice(workers)), signal.SIGKILL)
    tally.kills += 1
    tally.workers_killed += 1


def kill_while_starting(data: Path, flags: Sequence[str], random: Random, tally: Kills) -> None:
    """Kill a server that may be making its files, recovering its log, or sweeping what the last one left."""
    server = launch_server(data, *flags)
    time.sleep(random.uniform(0.1, 0.7))
    server.kill()
    tally.kills += 1
    tally.starts_killed += 1


async def note_orphans(data: Path, tally: Kills) -> Blobs:
    """Count what the dead server left behind, and let the next one sweep it."""
    async with metadata_of(data) as store:
        blobs = await read_blobs(store, data)
        await release_leases(store)
    tally.orphans |= blobs.orphans
    if blobs.rows != blobs.named:
        tally.findings.append(f"row: blobs and what names them differ. {blobs.rows ^ blobs.named}")
    if missing := blobs.rows - blobs.files:
        tally.findings.append(f"lost: blobs without their files. {missing}")
    return blobs


async def wait_until_swept(data: Path, tally: Kills) -> None:
    """Wait until the byte folder of a server that sweeps holds what the rows name and nothing else."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    async with metadata_of(data) as store:
        while True:
            blobs = await read_blobs(store, data)
            if blobs.files == blobs.rows == blobs.named and not blobs.garbage and not temporary_files(data):
                return
            if time.monotonic() > deadline:
                tally.findings.append(
                    f"leftover: not swept. orphans={blobs.orphans} garbage={blobs.garbage}"
                    f" lost={blobs.rows - blobs.files} temporary={temporary_files(data)}"
                )
                return
            time.sleep(0.05)
