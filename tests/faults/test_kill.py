"""Kill -9 at random points: acknowledged writes stay, others are complete or absent, and every change has its event.

Clients use all write operations while the server, one of its workers, or a starting and sweeping server is killed. A
kill loses nothing that the kernel has. Power cuts are covered by the contracts of the stores, which sync before they
acknowledge.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import RunningServer, start_server

from .checks import audit, compare_events, gather, make_buckets
from .client import Client
from .data_folder import metadata_of, miscounted_contents, read_changes
from .killing import (
    FINAL_SWEEPING,
    SEED,
    SWEEPING,
    Kills,
    kill_while_starting,
    record_orphans,
    wait_until_swept,
    work_until_killed,
)
from .ledger import PLAIN

CLIENTS: Final = 6


@dataclass
class Tally(Kills):
    """The results of one run."""

    def line(self, clients: list[Client], events: int) -> str:
        ledgers = [client.ledger for client in clients]
        in_flight = sum((ledger.unanswered for ledger in ledgers), Counter[str]())
        return (
            f"{self.killed} acknowledged={sum(ledger.acknowledged for ledger in ledgers)}"
            f" unanswered_done={sum(ledger.happened for ledger in ledgers)}"
            f" unanswered_undone={sum(ledger.vanished for ledger in ledgers)}"
            f" lost={self.found('lost')} half_visible={self.found('half')} wrong={self.found('wrong')}"
            f" events={events} orphans_swept={len(self.orphans)} seed={SEED} in_flight={dict(in_flight)}"
        )


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("kills", [12, pytest.param(200, marks=pytest.mark.heavy)])
async def test_kills_lose_nothing_acknowledged_and_leave_nothing_half_done(kills: int, tmp_path: Path) -> None:
    random = Random(SEED)
    data = tmp_path / "data"
    clients = [Client(f"c{number}", Random(random.getrandbits(64))) for number in range(CLIENTS)]
    tally = Tally()
    kill_while_starting(data, SWEEPING, random, tally)
    server = start_server(data, *SWEEPING)
    make_buckets(server)
    try:
        while tally.kills < kills and not tally.findings:
            tally.findings += gather(work_until_killed(server, clients, random, tally))
            if random.random() < 0.5:
                # Otherwise the lease of the dead server prevents sweeps.
                await record_orphans(data, tally)
            if random.random() < 0.15:
                kill_while_starting(data, SWEEPING, random, tally)
            server = start_server(data, *SWEEPING)
            tally.findings += audit(server, clients)
    finally:
        if server.process.poll() is None:
            server.kill()
    await record_orphans(data, tally)
    if not tally.findings:
        await _check_after_sweep(data, clients, tally)
    async with metadata_of(data) as store:
        changes = await read_changes(store)
        tally.findings += [f"row: {row}" for row in await miscounted_contents(store)]
    tally.findings += compare_events(changes, clients)
    print(tally.line(clients, len(changes)))
    assert not tally.findings, "\n".join([*tally.findings, tally.line(clients, len(changes))])
    log = server.log.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


async def _check_after_sweep(data: Path, clients: list[Client], tally: Tally) -> None:
    """Check that after a sweep only referenced blobs remain, and that every object is intact."""
    server = start_server(data, *FINAL_SWEEPING)
    try:
        tally.findings += audit(server, clients, everything=True)
        _abort_uploads(server)
        await wait_until_swept(data, tally)
        tally.findings += audit(server, clients, everything=True)
    finally:
        server.kill()


def _abort_uploads(server: RunningServer) -> None:
    """Abort unfinished uploads, so that their parts become garbage."""
    signer = Signer(f"127.0.0.1:{server.port}")
    with Connection(server.port) as connection:
        listed = connection.exchange(signer.request("GET", f"/{PLAIN}?uploads"))
        namespace = "{http://s3.amazonaws.com/doc/2006-03-01/}"
        for upload in ElementTree.fromstring(listed.body).iter(f"{namespace}Upload"):
            key, name = upload.findtext(f"{namespace}Key"), upload.findtext(f"{namespace}UploadId")
            response = connection.exchange(signer.request("DELETE", f"/{PLAIN}/{key}?uploadId={name}"))
            assert response.status == 204, response
