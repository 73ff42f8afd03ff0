"""`/health/ready` of a real server, by the readiness of its roles."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.ports import free_port
from tests.fixtures.raw_http import Connection
from tests.fixtures.server import launch_server

from ..running_processes import deliveries_of, kill_worker, plain, wait_until
from .test_supervisor import WAITING, broken_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def readiness(port: int) -> tuple[int, bytes]:
    """Status and body of the readiness request; zero and empty while no worker runs."""
    try:
        with Connection(port) as connection:
            answer = connection.exchange(plain("GET", "/health/ready"))
    except ConnectionError:
        return 0, b""
    return answer.status, answer.body


def test_a_server_whose_event_process_restarts_in_a_loop_is_not_ready(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    command = broken_server(WAITING, tmp_path / "data", port)
    with log.open("wb") as output, subprocess.Popen(command, stderr=output, start_new_session=True) as process:
        try:
            wait_until(lambda: log.read_text().count("the store is away") > 3, "the start is retried")
            wait_until(lambda: readiness(port)[1].startswith(b"not ready: event delivery: restarts"), "not ready")
            assert readiness(port)[0] == 503
        finally:
            process.terminate()
            process.wait(timeout=60)


def test_a_server_is_not_ready_before_its_streams_are(tmp_path: Path) -> None:
    data = tmp_path / "data"
    logs = data / "streams" / "logs"
    logs.mkdir(parents=True)
    descriptor = os.open(logs / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    server = launch_server(data, "--streams-listen", f"127.0.0.1:{free_port()}", workers=1)
    try:
        wait_until(lambda: "streams process ended, restarting it" in server.log_text(), "streams that cannot start")
        wait_until(lambda: readiness(server.port)[1].startswith(b"not ready: streams: "), "not ready")
        assert b"event delivery" not in readiness(server.port)[1]
        os.close(descriptor)
        wait_until(lambda: readiness(server.port) == (200, b"ready\n"), "the server is ready")
    finally:
        server.kill()


def test_server_is_ready_again_once_its_killed_event_process_is_replaced(tmp_path: Path) -> None:
    server = launch_server(tmp_path / "data", workers=1)
    try:
        wait_until(lambda: readiness(server.port)[0] == 200, "the server is ready")
        (victim,) = deliveries_of(server)
        kill_worker(victim)
        wait_until(lambda: readiness(server.port)[0] == 200 and deliveries_of(server) != {victim}, "it is replaced")
    finally:
        server.kill()
