"""Kill -9 at random points: what was acknowledged stays, the rest is whole or absent, and every change has its event.

Clients write in every way there is while the server, one of its workers, or a server that is still starting and
sweeping is killed. Killing a process loses nothing that the kernel has: what a power cut would do is left to the
contracts of the stores, which sync before they answer.
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

from .client import Client
from .data_folder import metadata_of, miscounted_contents, read_changes
from .killing import (
    SEED,
    SWEEPING,
    SWEEPING_AT_LAST,
    Kills,
    kill_while_starting,
    note_orphans,
    wait_until_swept,
    work_until_killed,
)
from .ledger import PLAIN
from .rounds import audit, compare_events, gather, make_buckets

CLIENTS: Final = 6


@dataclass
class Tally(Kills):
    """What one run saw."""

    def line(self, clients: list[Client], events: int) -> str:
        ledgers = [client.ledger for client in clients]
        under_way = sum((ledger.unanswered for ledger in ledgers), Counter[str]())
        return (
            f"{self.killed} acknowledged={sum(one.acknowledged for one in ledgers)}"
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
    kill_while_starting(data, SWEEPING, random, tally)
    server = start_server(data, *SWEEPING)
    make_buckets(server)
    try:
        while tally.kills < kills and not tally.findings:
            tally.findings += gather(work_until_killed(server, clients, random, tally))
            if random.random() < 0.5:
                # Else the lease of the dead keeps everybody from sweeping.
                await note_orphans(data, tally)
            if random.random() < 0.15:
                kill_while_starting(data, SWEEPING, random, tally)
            server = start_server(data, *SWEEPING)
            tally.findings += audit(server, clients)
    finally:
        if server.process.poll() is None:
            server.kill()
    await note_orphans(data, tally)
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


async def _check_leftovers(data: Path, clients: list[Client], tally: Tally) -> None:
    """After a sweep the byte folder holds what the rows name and nothing else, and every object is still whole."""
    server = start_server(data, *SWEEPING_AT_LAST)
    try:
        tally.findings += audit(server, clients, everything=True)
        _abort_uploads(server)
        await wait_until_swept(data, tally)
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
