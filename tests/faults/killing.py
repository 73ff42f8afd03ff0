"""Kills servers at random points, and inspects their data folder afterwards."""

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

from .checks import PATIENCE_SECONDS
from .data_folder import Blobs, metadata_of, read_blobs, release_leases, temporary_files

SEED: Final = int(os.environ.get("FAULT_SEED", "20261115"))
SWEEPING: Final = ("--set", "objects.sweep_interval=0.05s", "--set", "objects.orphan_window=5s")
"""Continuous sweeps, with an orphan window longer than any write of these tests on a slow machine."""

FINAL_SWEEPING: Final = ("--set", "objects.sweep_interval=0.05s", "--set", "objects.orphan_window=1s")


class Worker(Protocol):
    """A client that works until `stop` is set or the server is gone."""

    def work(self, server: RunningServer, stop: threading.Event) -> None: ...


@dataclass
class Kills:
    """Counts and findings of one run."""

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
    """Let the clients write, kill the server at a random point, and wait for the clients. Returns their results."""
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
    """Kill a random worker."""
    pid = server.process.pid
    workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(random.choice(workers)), signal.SIGKILL)
    tally.kills += 1
    tally.workers_killed += 1


def kill_while_starting(data: Path, flags: Sequence[str], random: Random, tally: Kills) -> None:
    """Kill a server while it starts: it may be creating files, recovering, or sweeping."""
    server = launch_server(data, *flags)
    time.sleep(random.uniform(0.1, 0.7))
    server.kill()
    tally.kills += 1
    tally.starts_killed += 1


async def record_orphans(data: Path, tally: Kills) -> Blobs:
    """Record the orphans of a dead server, and release its leases so that the next server sweeps them."""
    async with metadata_of(data) as store:
        blobs = await read_blobs(store, data)
        await release_leases(store)
    tally.orphans |= blobs.orphans
    if blobs.rows != blobs.referenced:
        tally.findings.append(f"row: blobs and references differ. {blobs.rows ^ blobs.referenced}")
    if missing := blobs.rows - blobs.files:
        tally.findings.append(f"lost: blobs without their files. {missing}")
    return blobs


async def wait_until_swept(data: Path, tally: Kills) -> None:
    """Wait until the data folder of a running server has exactly the referenced blobs."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    async with metadata_of(data) as store:
        while True:
            blobs = await read_blobs(store, data)
            if blobs.files == blobs.rows == blobs.referenced and not blobs.garbage and not temporary_files(data):
                return
            if time.monotonic() > deadline:
                tally.findings.append(
                    f"leftover: not swept. orphans={blobs.orphans} garbage={blobs.garbage}"
                    f" lost={blobs.rows - blobs.files} temporary={temporary_files(data)}"
                )
                return
            time.sleep(0.05)
