from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lakebed.server.processes.child import CATALOG_CONNECTION, DESCRIPTORS_A_MESSAGE
from lakebed.server.processes.handover import ConnectionHandover, WorkerListener, candidates_of
from lakebed.server.processes.responsiveness import UNRESPONSIVE_SECONDS, Pulse
from lakebed.server.processes.roles import ChildProcess, ProcessRole

ROLE = ProcessRole("workers", "lakebed-worker", lambda _: 0, "died", takes_connections=True)


class HandoverSetup:
    """A listener with workers and clients. A worker receives a connection only by `take`."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        listener = ends.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.setblocking(False)
        self._address = listener.getsockname()
        self.accepting = WorkerListener(listener, CATALOG_CONNECTION)
        self.handover = ConnectionHandover([self.accepting])
        ends.callback(self.handover.close)

    def worker(self, *, ready: bool = True, silent: float = 0.0) -> ChildProcess:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        made = ChildProcess(ROLE, 0, os.getpid(), ours, theirs, 0.0, Pulse(0, silent), ready)
        self._ends.callback(made.close)
        return made

    def accept(self, *workers: ChildProcess) -> None:
        self.handover.accept(self.accepting, workers)

    def client(self) -> socket.socket:
        return self._ends.enter_context(socket.create_connection(self._address, 20))

    def take(self, worker: ChildProcess) -> list[socket.socket]:
        """The connections in a worker's channel."""
        worker.far_end.setblocking(False)
        found: list[socket.socket] = []
        while True:
            try:
                message, descriptors, _, _ = socket.recv_fds(worker.far_end, 1, DESCRIPTORS_A_MESSAGE)
            except BlockingIOError:
                return found
            assert message == CATALOG_CONNECTION
            found += [self._ends.enter_context(socket.socket(fileno=descriptor)) for descriptor in descriptors]


@pytest.fixture
def site() -> Iterator[HandoverSetup]:
    with ExitStack() as ends:
        yield HandoverSetup(ends)


def names(connections: list[socket.socket]) -> set[object]:
    return {connection.getpeername() for connection in connections}


def test_connections_prefer_responsive_workers_then_starting_ones(site: HandoverSetup) -> None:
    well, starting = site.worker(), site.worker(ready=False)
    hung = site.worker(silent=UNRESPONSIVE_SECONDS)
    assert candidates_of([hung, starting, well]) == [well]
    assert candidates_of([hung, starting]) == [starting]
    assert candidates_of([hung]) == [hung]
    assert candidates_of([]) == []


def test_connections_left_in_a_channel_are_given_to_another_worker(site: HandoverSetup) -> None:
    hung, other = site.worker(), site.worker()
    clients = [site.client() for _ in range(20)]
    site.accept(hung)
    pending = [site.handover.is_pending]
    site.handover.take_back(hung)
    pending.append(site.handover.is_pending)
    site.accept(other)
    pending.append(site.handover.is_pending)
    assert pending == [False, True, False]
    assert site.take(hung) == []
    assert names(site.take(other)) == {client.getsockname() for client in clients}


def test_taking_back_from_an_empty_channel_does_not_block(site: HandoverSetup) -> None:
    site.handover.take_back(site.worker())
    assert not site.handover.is_pending


def test_connection_waits_while_no_worker_runs(site: HandoverSetup) -> None:
    client = site.client()
    site.accept()
    assert site.handover.is_pending
    late = site.worker()
    site.accept(late)
    assert names(site.take(late)) == {client.getsockname()}
