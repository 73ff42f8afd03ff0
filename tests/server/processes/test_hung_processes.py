"""Hung processes of a real server, and a suspended machine."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clients.streams.serving import running_streams
from tests.fixtures.raw_http import Connection
from tests.fixtures.server import RunningServer, running_server

from ..running_processes import ask, children_named, deliveries_of, is_alive, plain, wait_until, workers_of
from .test_supervisor import is_answered

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SOON = ("--set", "server.hang_timeout=5s")
TIMEOUT_SECONDS = 5.0


def wait_until_whole(server: RunningServer) -> None:
    """Wait until all processes of a server are ready, not only one of each role."""
    wait_until(lambda: '"ready"' in server.log_text(), "all processes are ready")


def readiness(server: RunningServer) -> tuple[int, bytes]:
    answer = ask(server, plain("GET", "/health/ready"))
    return answer.status, answer.body


def test_hung_worker_is_replaced_and_its_pending_connections_are_answered(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", *SOON) as server, ExitStack() as open_ones:
        wait_until_whole(server)
        hung = min(workers_of(server))
        os.kill(hung, signal.SIGSTOP)
        waiting = []
        for _ in range(20):
            connection = open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port), 20))
            connection.sendall(plain("GET"))
            connection.setblocking(False)
            waiting.append(connection)
        wait_until(lambda: all(map(is_answered, waiting)), "an answer for every connection")
        wait_until(lambda: not is_alive(hung), "the end of the hung worker")
        wait_until(lambda: len(workers_of(server)) == 2, "a replacement")
        assert "process does not respond" in server.log_text()
        assert "process hangs, killing it" in server.log_text()


def test_hung_only_worker_is_replaced_and_its_connections_go_to_the_successor(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", *SOON, workers=1) as server:
        (hung,) = workers_of(server)
        os.kill(hung, signal.SIGSTOP)
        with Connection(server.port) as connection:
            assert connection.exchange(plain("GET")).status == 403
        assert not is_alive(hung)


def test_a_hung_event_process_is_not_ready_and_is_replaced(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", *SOON) as server:
        (hung,) = deliveries_of(server)
        os.kill(hung, signal.SIGSTOP)
        wait_until(lambda: readiness(server)[0] == 503, "the server is not ready")
        assert readiness(server)[1].startswith(b"not ready: event delivery: ")
        wait_until(lambda: not is_alive(hung), "the end of the hung process")
        wait_until(lambda: readiness(server)[0] == 200, "the server is ready again")


def test_a_hung_stream_process_is_not_ready_and_is_replaced(tmp_path: Path) -> None:
    with running_streams(tmp_path / "data", *SOON) as streams:
        server = streams.server
        (hung,) = children_named(server, "lakebed-streams")
        os.kill(hung, signal.SIGSTOP)
        wait_until(lambda: readiness(server)[0] == 503, "the server is not ready")
        assert readiness(server)[1].startswith(b"not ready: streams: ")
        wait_until(lambda: not is_alive(hung), "the end of the hung process")
        wait_until(lambda: readiness(server)[0] == 200, "the server is ready again")


def test_suspended_machine_kills_no_process(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", *SOON) as server:
        wait_until_whole(server)
        processes = workers_of(server) | deliveries_of(server)
        os.killpg(server.process.pid, signal.SIGSTOP)
        # The pause is longer than the timeout of a hung process.
        resumed = time.monotonic() + 2 * TIMEOUT_SECONDS
        wait_until(lambda: time.monotonic() > resumed, "the pause")
        os.killpg(server.process.pid, signal.SIGCONT)
        assert [ask(server).status for _ in range(10)] == [403] * 10
        assert workers_of(server) | deliveries_of(server) == processes
        assert "process hangs" not in server.log_text()
