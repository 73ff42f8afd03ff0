"""Kill -9 at random points: what was acknowledged stays, the rest is whole or absent, and every change has its event.

Clients write in every way there is while the server, one of its workers, or a server that is still starting and
sweeping is killed. Killing a process loses nothing that the kernel has: what a power cut would do is left to the
contracts of the stores, which sync before they answer.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import RunningServer, launch_server, start_server

from .client import Client
from .data_folder import (
    Blobs,
    metadata_of,
    miscounted_contents,
    read_blobs,
    read_changes,
    release_leases,
    temporary_files,
)
from .ledger import PLAIN
from .rounds import PATIENCE_SECONDS, audit, compare_events, gather, make_buckets

SEED: Final = int(os.environ.get("FAULT_SEED", "20261115"))
CLIENTS: Final = 6
SWEEPING: Final = ("--set", "objects.sweep_interval=0.05s", "--set", "objects.orphan_window=5s")
"""Sweeps all the time; and a window that no write of this test stays within on the slowest machine."""

SWEEPING_AT_LAST: Final = ("--set", "objects.sweep_interval=0.05s", "--set", "objects.orphan_window=1s")


@dataclass
class Tally:
    """What one run saw."""

    kills: int = 0
    workers_killed: int = 0
    starts_killed: int = 0
    orphans: set[str] = field(default_factory=set)
    findings: list[str] = field(default_factory=list)

    def found(self, kind: str) -> int:
        return sum(finding.startswith(kind) for finding in self.findings)

    def line(self, clients: list[Client], events: int) -> str:
        ledgers = [client.ledger for client in clients]
        under_way = sum((ledger.unanswered for ledger in ledgers), Counter[str]())
        return (
            f"kills={self.kills} (workers={self.workers_killed} starts={self.starts_killed})"
            f" acknowledged={sum(one.acknowledged for one in ledgers)}"
            f" unanswered_done={sum(one.happened for one in ledgers)}"
            f" unanswered_undone={sum(one.vanished for one in ledgers)}"
            f" lost={self.found('lost')} half_visible={self.found('half')} wrong={self.found('wrong')}"
            f" events={events} orphans_swept={len(self.orphans)} seed={SEED} under_way={dict(under_way)}"
        )


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("kills", [12, pytest.param(200, marks=pytest.mark.heavy)])
async def test_kills_lose_nothing_acknowledged_and_leave_nothing_half_done(kills: int, tmp_path: Path) -> None:
    random = Random(SEED)
    data = tmp_path / "data"
    clients = [Client(f"c{number}", Random(random.getrandbits(64))) for number in range(CLIENTS)]
    tally = Tally()
    _kill_while_starting(data, random, tally)
    server = start_server(data, *SWEEPING)
    make_buckets(server)
    try:
        while tally.kills < kills and not tally.findings:
            _work_until_killed(server, clients, random, tally)
            if random.random() < 0.5:
                # Else the lease of the dead keeps everybody from sweeping.
                await _note_orphans(data, tally)
            if random.random() < 0.15:
                _kill_while_starting(data, random, tally)
            server = start_server(data, *SWEEPING)
            tally.findings += audit(server, clients)
    finally:
        if server.process.poll() is None:
            server.kill()
    await _note_orphans(data, tally)
    if not tally.findings:
        await _check_leftovers(data, clients, tally)
    async with metadata_of(data) as store:
        changes = await read_changes(store)
        tally.findings += [f"row: {row}" for row in await miscounted_contents(store)]
    tally.findings += compare_events(changes, clients)
    print(tally.line(clients, len(changes)))
    assert not tally.findings, "\n".join([*tally.findings, tally.line(clients, len(changes))])
    log = server.log.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


def _work_until_killed(server: RunningServer, clients: list[Client], random: Random, tally: Tally) -> None:
    """Let the clients write, kill at a random point, and wait until they have noticed."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(clients)) as threads:
        working = [threads.submit(client.work, server, stop) for client in clients]
        time.sleep(random.uniform(0.01, 0.4))
        if random.random() < 0.3:
            _kill_a_worker(server, random, tally)
            time.sleep(random.uniform(0.05, 0.3))
        server.kill()
        tally.kills += 1
        stop.set()
    tally.findings += gather(working)


def _kill_a_worker(server: RunningServer, random: Random, tally: Tally) -> None:
    pid = server.process.pid
    workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(random.choice(workers)), signal.SIGKILL)
    tally.kills += 1
    tally.workers_killed += 1


def _kill_while_starting(data: Path, random: Random, tally: Tally) -> None:
    """Kill a server that may be making its files, recovering its log, or sweeping what the last one left."""
    server = launch_server(data, *SWEEPING)
    time.sleep(random.uniform(0.1, 0.7))
    server.kill()
    tally.kills += 1
    tally.starts_killed += 1


async def _note_orphans(data: Path, tally: Tally) -> Blobs:
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


async def _check_leftovers(data: Path, clients: list[Client], tally: Tally) -> None:
    """After a sweep the byte folder holds what the rows name and nothing else, and every object is still whole."""
    server = start_server(data, *SWEEPING_AT_LAST)
    try:
        tally.findings += audit(server, clients, everything=True)
        _abort_uploads(server)
        deadline = time.monotonic() + PATIENCE_SECONDS
        async with metadata_of(data) as store:
            while True:
                blobs = await read_blobs(store, data)
                if blobs.files == blobs.rows == blobs.named and not blobs.garbage and not temporary_files(data):
                    break
                if time.monotonic() > deadline:
                    tally.findings.append(
                        f"leftover: not swept. orphans={blobs.orphans} garbage={blobs.garbage}"
                        f" lost={blobs.rows - blobs.files} temporary={temporary_files(data)}"
                    )
                    break
                time.sleep(0.05)
        tally.findings += audit(server, clients, everything=True)
    finally:
        server.kill()


def _abort_uploads(server: RunningServer) -> None:
    """End the uploads that clients have begun and not completed, so that their parts become garbage."""
    signer = Signer(f"127.0.0.1:{server.port}")
    with Connection(server.port) as connection:
        listed = connection.ask(signer.request("GET", f"/{PLAIN}?uploads"))
        namespace = "{http://s3.amazonaws.com/doc/2006-03-01/}"
        for upload in ElementTree.fromstring(listed.body).iter(f"{namespace}Upload"):
            key, name = upload.findtext(f"{namespace}Key"), upload.findtext(f"{namespace}UploadId")
            answer = connection.ask(signer.request("DELETE", f"/{PLAIN}/{key}?uploadId={name}"))
            assert answer.status == 204, answer
