"""What the fault tests have in common: buckets, clients at work, and what is compared at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import RunningServer

from .client import Client, Finding
from .ledger import PLAIN, VERSIONED, Change

PATIENCE_SECONDS: Final = 60.0
"""How long to wait for what must happen, on the slowest machine."""


def make_buckets(server: RunningServer) -> None:
    """The plain bucket and the versioned one."""
    signer = Signer(f"127.0.0.1:{server.port}")
    status = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    with Connection(server.port) as connection:
        for request in (
            signer.request("PUT", f"/{PLAIN}"),
            signer.request("PUT", f"/{VERSIONED}"),
            signer.request("PUT", f"/{VERSIONED}?versioning", None, status),
        ):
            answer = connection.ask(request)
            assert answer.status == 200, answer


def gather(futures: Iterable[Future[None]]) -> list[str]:
    """What the clients found wrong."""
    findings = []
    for future in futures:
        try:
            future.result()
        except Finding as finding:
            findings.append(str(finding))
    return findings


def audit(server: RunningServer, clients: Sequence[Client], *, everything: bool = False) -> list[str]:
    """Let every client compare what is there with what it was promised; what they found wrong."""
    with ThreadPoolExecutor(len(clients)) as threads:
        return gather([threads.submit(client.audit, server, everything=everything) for client in clients])


def compare_events(changes: Sequence[Change], clients: Iterable[Client]) -> list[str]:
    """Each client's committed changes and the events of its keys are the same, in the same order."""
    findings = []
    about_buckets = [(change.kind, change.bucket) for change in changes if not change.key]
    expected = [("BucketCreated", PLAIN), ("BucketCreated", VERSIONED), ("BucketConfigured", VERSIONED)]
    if about_buckets != expected:
        findings.append(f"event: {about_buckets}")
    for client in clients:
        told = [change for change in changes if change.key.startswith(f"{client.name}/")]
        journal = client.ledger.journal
        for number, (made, event) in enumerate(zip(journal, told, strict=False)):
            if not made.told_by(event):
                findings.append(f"event: number {number} of {client.name} is {event}, the change was {made}")
                break
        if len(told) != len(journal):
            findings.append(f"event: {client.name} made {len(journal)} changes and {len(told)} events tell of them")
    return findings
