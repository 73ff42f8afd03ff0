"""Kill -9 of the catalog at random points: commits are atomic, and each has its event.

Clients create, append to, rename and drop tables, commit multi-table transactions, and contend for shared tables while
the server, one of its workers, or a starting server is killed. Small and large metadata files are stored in rows and as
blobs. Requests with an Idempotency-Key are repeated after each kill, and must happen once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.faults.checks import gather
from tests.faults.data_folder import metadata_of, miscounted_contents
from tests.faults.killing import (
    FINAL_SWEEPING,
    SEED,
    SWEEPING,
    Kills,
    kill_while_starting,
    record_orphans,
    wait_until_swept,
    work_until_killed,
)
from tests.fixtures.server import RunningServer, start_server

from .appends import SCHEMA
from .client import LOG, PAIR, SHARED, CatalogClient
from .data_folder import RecordedEvent, find_inconsistencies, read_outbox
from .ledger import Change
from .wire import Wire, tables_path

CLIENTS: Final = 5
SMALL_ROWS: Final = ("--set", "objects.inline_max=4096")
"""Stores some metadata files in rows and some as blobs."""

CLIENT_EVENTS: Final = frozenset({"TableCreated", "TableCommitted", "TableRenamed", "TableDropped"})
"""Events of client requests. The server purges dropped tables later."""


@dataclass
class Tally(Kills):
    """The results of one run."""

    def line(self, clients: Sequence[CatalogClient], events: int) -> str:
        ledgers = [client.ledger for client in clients]
        in_flight = sum((ledger.unanswered for ledger in ledgers), Counter[str]())
        return (
            f"{self.killed} commits_acknowledged={sum(ledger.acknowledged for ledger in ledgers)}"
            f" unanswered_done={sum(ledger.happened for ledger in ledgers)}"
            f" unanswered_undone={sum(ledger.vanished for ledger in ledgers)}"
            f" repeated={sum(ledger.repeated for ledger in ledgers)}"
            f" conflicts={sum(client.conflicts for client in clients)}"
            f" lost={self.found('lost')} torn={self.found('torn')} dangling={self.found('dangling')}"
            f" wrong={self.found('wrong')} events={events} orphans_swept={len(self.orphans)} seed={SEED}"
            f" in_flight={dict(in_flight)}"
        )


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.heavy)])
async def test_kills_lose_no_commit_and_tear_none(kills: int, tmp_path: Path) -> None:
    random = Random(SEED)
    data = tmp_path / "data"
    clients = [CatalogClient(f"c{number}", Random(random.getrandbits(64))) for number in range(CLIENTS)]
    tally = Tally()
    flags = (*SWEEPING, *SMALL_ROWS)
    server = start_server(data, *flags)
    _make_tables(server, clients)
    try:
        while tally.kills < kills and not tally.findings:
            tally.findings += gather(work_until_killed(server, clients, random, tally, longest_seconds=0.6))
            await record_orphans(data, tally)
            tally.findings += await _disagreements(data)
            if random.random() < 0.15:
                kill_while_starting(data, flags, random, tally)
            server = start_server(data, *flags)
            tally.findings += audit(server, clients)
    finally:
        if server.process.poll() is None:
            server.kill()
    await record_orphans(data, tally)
    if not tally.findings:
        await _check_after_sweep(data, clients, tally)
    async with metadata_of(data) as store:
        outcome = await read_outbox(store)
        tally.findings += await find_inconsistencies(store, outcome)
        tally.findings += [f"row: {row}" for row in await miscounted_contents(store)]
    tally.findings += compare_events(outcome.catalog, clients)
    line = tally.line(clients, len(outcome.catalog))
    print(line)
    assert not tally.findings, "\n".join([*tally.findings, line])
    assert all(client.ledger.acknowledged for client in clients)
    log = server.log.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


def _make_tables(server: RunningServer, clients: Iterable[CatalogClient]) -> None:
    wire = Wire(server.port)
    wire.make_lake(SHARED, *(namespace for client in clients for namespace in client.namespaces))
    for table in (*PAIR, LOG):
        assert wire.request("POST", tables_path(SHARED), {"name": table, "schema": SCHEMA}).status == 200
    wire.close()


def audit(server: RunningServer, clients: Sequence[CatalogClient]) -> list[str]:
    """Let every client compare the stored state with the acknowledged one. Returns the findings."""
    with ThreadPoolExecutor(len(clients)) as threads:
        return gather([threads.submit(client.audit, server) for client in clients])


async def _disagreements(data: Path) -> list[str]:
    async with metadata_of(data) as store:
        return await find_inconsistencies(store, await read_outbox(store))


async def _check_after_sweep(data: Path, clients: Sequence[CatalogClient], tally: Tally) -> None:
    """Check that after a sweep only referenced blobs remain, and that every table is intact."""
    server = start_server(data, *FINAL_SWEEPING, *SMALL_ROWS)
    try:
        tally.findings += audit(server, clients)
        await wait_until_swept(data, tally)
        tally.findings += audit(server, clients)
    finally:
        server.kill()


def compare_events(recorded: Sequence[RecordedEvent], clients: Sequence[CatalogClient]) -> list[str]:
    """Compare the committed changes of each client with the events of its tables, in order."""
    findings = []
    table_events = [one for one in recorded if one.kind in CLIENT_EVENTS]
    for client in clients:
        events = [
            Change(kind, event.namespace[0], event.name, event.generation, event.snapshot, event.facts.get("from", ""))
            for kind, event in table_events
            if event.namespace[0] in client.namespaces
        ]
        made = [change for change in client.ledger.journal if change.namespace != SHARED]
        if events != made:
            at = next((n for n, pair in enumerate(zip(events, made, strict=False)) if pair[0] != pair[1]), -1)
            findings.append(
                f"event: {client.name} made {len(made)} changes, with {len(events)} events;"
                f" number {at} is {events[at : at + 1]}, the change was {made[at : at + 1]}"
            )
    for table in (*PAIR, LOG):
        committed = sum(kind == "TableCommitted" and event.name == table for kind, event in table_events)
        made_all = sum(
            change.table == table
            for client in clients
            for change in client.ledger.journal
            if change.namespace == SHARED
        )
        if committed != made_all:
            findings.append(f"event: {made_all} commits to {table} and {committed} events")
    return findings
