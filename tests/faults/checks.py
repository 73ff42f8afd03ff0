"""Setup and final checks of the fault tests of S3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import RunningServer

from .client import Client, Finding
from .ledger import PLAIN, VERSIONED, Change

PATIENCE_SECONDS: Final = 60.0
"""How long to wait for an expected event on a slow machine."""


def make_buckets(server: RunningServer) -> None:
    """Create the plain bucket and the versioned one."""
    signer = Signer(f"127.0.0.1:{server.port}")
    status = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    with Connection(server.port) as connection:
        for request in (
            signer.request("PUT", f"/{PLAIN}"),
            signer.request("PUT", f"/{VERSIONED}"),
            signer.request("PUT", f"/{VERSIONED}?versioning", None, status),
        ):
            response = connection.exchange(request)
            assert response.status == 200, response


def gather(futures: Iterable[Future[None]]) -> list[str]:
    """The findings of the clients."""
    findings = []
    for future in futures:
        try:
            future.result()
        except Finding as finding:
            findings.append(str(finding))
    return findings


def audit(server: RunningServer, clients: Sequence[Client], *, everything: bool = False) -> list[str]:
    """Let every client compare the stored state with the acknowledged one. Returns the findings."""
    with ThreadPoolExecutor(len(clients)) as threads:
        return gather([threads.submit(client.audit, server, everything=everything) for client in clients])


def compare_events(changes: Sequence[Change], clients: Iterable[Client]) -> list[str]:
    """Compare the committed changes of each client with the events of its keys, in order."""
    findings = []
    bucket_events = [(change.kind, change.bucket) for change in changes if not change.key]
    expected = [("BucketCreated", PLAIN), ("BucketCreated", VERSIONED), ("BucketConfigured", VERSIONED)]
    if bucket_events != expected:
        findings.append(f"event: {bucket_events}")
    for client in clients:
        events = [change for change in changes if change.key.startswith(f"{client.name}/")]
        journal = client.ledger.journal
        for number, (change, event) in enumerate(zip(journal, events, strict=False)):
            if not change.matches_event(event):
                findings.append(f"event: number {number} of {client.name} is {event}, the change was {change}")
                break
        if len(events) != len(journal):
            findings.append(f"event: {client.name} made {len(journal)} changes, with {len(events)} events")
    return findings
