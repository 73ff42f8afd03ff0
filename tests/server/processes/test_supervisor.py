from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fixtures.ports import free_port
from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import RunningServer, launch_server, running_server, start_server

from ..running_processes import (
    ask,
    children_of,
    is_alive,
    kill_worker,
    plain,
    wait_ended,
    wait_until,
    worker_of,
    workers_of,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MIB = 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """A separate server whose processes are killed. It is ready with one worker, so wait for all of them."""
    with running_server(tmp_path / "data") as running:
        wait_until(lambda: '"ready"' in running.log_text(), "all workers are ready")
        yield running


def signer(server: RunningServer) -> Signer:
    return Signer(f"127.0.0.1:{server.port}")


def make_bucket(server: RunningServer, name: str = "bucket") -> None:
    assert ask(server, signer(server).request("PUT", f"/{name}")).status == 200


def put(server: RunningServer, target: str, body: bytes) -> None:
    assert ask(server, signer(server).request("PUT", target, body=body)).status == 200


def run_to_its_end(*flags: str, data: Path) -> subprocess.CompletedProcess[str]:
    """Run a server that cannot start, until it exits."""
    command = [sys.executable, "-m", "lakebed", "serve", "--data", str(data), "--workers", "2"]
    return subprocess.run([*command, *flags], capture_output=True, text=True, timeout=60, check=False)


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """The error line of a server that did not start."""
    assert ended.returncode == 2, ended.stderr
    lines = ended.stderr.splitlines()
    assert lines[-1].startswith("lakebed: ")
    assert "Traceback" not in ended.stderr
    return lines[-1]


# -- workers ---------------------------------------------------------------------------------------------------------


def test_connections_go_to_the_workers_in_turn(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", workers=3) as server:
        wait_until(lambda: '"ready"' in server.log_text(), "all workers are ready")
        answers = [ask(server) for _ in range(30)]
    assert {answer.status for answer in answers} == {403}
    assert sorted(Counter(worker_of(answer) for answer in answers).values()) == [10, 10, 10]


def test_killed_worker_is_replaced_and_the_others_keep_serving(server: RunningServer) -> None:
    make_bucket(server)
    put(server, "/bucket/key", b"still there")
    before = workers_of(server)
    with Connection(server.port) as one, Connection(server.port) as other:
        serving = {worker_of(connection.exchange(plain("GET"))) for connection in (one, other)}
        assert len(serving) == 2
        kill_worker(min(before))
        answers = [ask(server, signer(server).request("GET", "/bucket/key")) for _ in range(10)]
        assert [(answer.status, answer.body) for answer in answers] == [(200, b"still there")] * 10
        wait_until(lambda: len(workers_of(server)) == 2, "a replacement")
        assert len(workers_of(server) & before) == 1
        assert sorted([is_served(one), is_served(other)]) == [False, True]
    wait_until(lambda: worker_of(ask(server)) not in serving, "an answer of the replacement")


def is_served(connection: Connection) -> bool:
    try:
        return connection.exchange(plain("GET")).status == 403
    except ConnectionError:
        return False


def test_server_survives_the_death_of_its_only_worker(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", workers=1) as server:
        for _ in range(3):
            (victim,) = workers_of(server)
            kill_worker(victim)
            # No worker runs: the connection waits for the replacement.
            assert ask(server).status == 403


def test_hung_worker_does_not_block_the_others(server: RunningServer) -> None:
    stopped = min(workers_of(server))
    os.kill(stopped, signal.SIGSTOP)
    try:
        waiting = []
        # More connections than the channel holds: a blocking send would block the supervisor.
        for _ in range(700):
            connection = socket.create_connection(("127.0.0.1", server.port), 20)
            connection.sendall(plain("GET"))
            connection.setblocking(False)
            waiting.append(connection)
        wait_until(lambda: sum(map(is_answered, waiting)) >= 350, "the answers of the other worker")
        # The channel of the hung worker is full, so this connection goes to the other one.
        assert ask(server).status == 403
    finally:
        os.kill(stopped, signal.SIGCONT)
        for connection in waiting:
            connection.close()


def is_answered(connection: socket.socket) -> bool:
    try:
        return connection.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 403"
    except BlockingIOError:
        return False


# -- shutdown --------------------------------------------------------------------------------------------------------


def test_stop_finishes_uploads_and_downloads_and_closes_idle_connections(tmp_path: Path) -> None:
    server = start_server(tmp_path / "data")
    make_bucket(server)
    large = os.urandom(MIB) * 24
    put(server, "/bucket/large", large)
    workers = children_of(server)
    body = os.urandom(MIB) * 8
    upload = signer(server).request("PUT", "/bucket/late", body=body)
    with Connection(server.port) as idle, Connection(server.port) as uploading, Connection(server.port) as downloading:
        assert idle.exchange(plain("GET")).status == 403
        uploading.send(upload[: -4 * MIB])
        downloading.send(signer(server).request("GET", "/bucket/large"))
        head = downloading._until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        beginning = downloading._exactly(MIB)
        server.process.terminate()
        assert idle.is_ended()
        with pytest.raises(ConnectionError):
            Connection(server.port)
        uploading.send(upload[-4 * MIB :])
        answer = uploading.receive()
        assert (answer.status, answer.headers.get("connection")) == (200, "close")
        assert beginning + downloading._exactly(23 * MIB) == large
        assert uploading.is_ended()
        assert downloading.is_ended()
    assert server.process.wait(timeout=60) == 0
    assert not [pid for pid in workers if is_alive(pid)]
    with running_server(tmp_path / "data") as again:
        assert ask(again, signer(again).request("GET", "/bucket/late")).body == body


def test_stop_ends_after_its_grace_period(tmp_path: Path) -> None:
    server = start_server(tmp_path / "data", "--set", "server.shutdown_grace=0.2s")
    make_bucket(server)
    workers = children_of(server)
    with Connection(server.port) as stuck:
        stuck.send(signer(server).request("PUT", "/bucket/never", body=b"x" * MIB)[:-1])
        server.process.terminate()
        assert server.process.wait(timeout=60) == 0
        assert stuck.is_ended()
    assert not [pid for pid in workers if is_alive(pid)]
    assert "shutdown grace exceeded, closing connections" in server.log_text()


def test_second_stop_signal_ends_the_server_immediately(tmp_path: Path) -> None:
    server = start_server(tmp_path / "data", "--set", "server.shutdown_grace=1h")
    make_bucket(server)
    workers = children_of(server)
    with Connection(server.port) as stuck, Connection(server.port) as idle:
        assert idle.exchange(plain("GET")).status == 403
        stuck.send(signer(server).request("PUT", "/bucket/never", body=b"x" * MIB)[:-1])
        server.process.terminate()
        assert idle.is_ended()
        server.process.terminate()
        assert server.process.wait(timeout=60) == 0
    wait_ended(workers)


def test_ctrl_c_in_a_terminal_stops_the_server_gracefully(tmp_path: Path) -> None:
    server = start_server(tmp_path / "data")
    workers = children_of(server)
    os.killpg(server.process.pid, signal.SIGINT)
    assert server.process.wait(timeout=60) == 0
    assert not [pid for pid in workers if is_alive(pid)]
    assert "Traceback" not in server.log_text()


def test_workers_exit_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    server = start_server(tmp_path / "data", environment={"TMPDIR": str(scratch)})
    workers = children_of(server)
    assert len(workers) == 3
    with Connection(server.port) as idle:
        assert idle.exchange(plain("GET")).status == 403
        server.process.kill()
        server.process.wait()
        assert idle.is_ended()
    wait_ended(workers)
    assert list(scratch.iterdir()) == []


def test_an_ended_server_leaves_nothing_in_the_temporary_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    server = start_server(tmp_path / "data", environment={"TMPDIR": str(scratch)})
    assert list(scratch.iterdir()) != []
    assert server.stop() == 0
    assert list(scratch.iterdir()) == []


# -- startup ---------------------------------------------------------------------------------------------------------


def test_startup_log_has_readiness_and_address(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    started = time.monotonic()
    server = start_server(tmp_path / "data")
    record_property("start_to_ready_seconds", round(time.monotonic() - started, 2))
    try:
        wait_until(lambda: '"ready"' in server.log_text(), "the line in the log")
        lines = [json.loads(line) for line in server.log_text().splitlines()]
        (ready,) = [line for line in lines if line["message"] == "ready"]
        assert (ready["address"], ready["workers"], ready["data"]) == (server.endpoint, 2, str(server.data))
    finally:
        assert server.stop() == 0


def test_port_in_use_is_a_one_line_error(server: RunningServer, tmp_path: Path) -> None:
    ended = run_to_its_end("--listen", f"127.0.0.1:{server.port}", data=tmp_path / "other")
    assert f"127.0.0.1:{server.port}" in complaint(ended)
    assert "the port is in use" in complaint(ended)
    assert len(ended.stderr.splitlines()) == 1


def test_address_of_another_machine_is_a_one_line_error(tmp_path: Path) -> None:
    ended = run_to_its_end("--listen", "192.0.2.1:9000", "--insecure-http", data=tmp_path / "data")
    assert "server.listen" in complaint(ended)


def test_damaged_metadata_file_is_a_one_line_error_without_a_retry(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.db").write_bytes(os.urandom(100_000))
    ended = run_to_its_end("--listen", f"127.0.0.1:{free_port()}", data=data)
    assert "metadata file is damaged" in complaint(ended)
    assert len(ended.stderr.splitlines()) == 1


def test_metadata_of_a_newer_release_is_a_one_line_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_server(data) as server:
        server.stop()
    with sqlite3.connect(data / "meta.db") as newer:
        newer.execute("INSERT INTO schema_versions (version, name) VALUES (9999, 'tomorrow')")
    newer.close()
    ended = run_to_its_end("--listen", f"127.0.0.1:{free_port()}", data=data)
    assert "9999" in complaint(ended)
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("place", ["parent/data", "parent/data/bytes", "parent"])
def test_file_in_place_of_the_data_folder_is_a_one_line_error(tmp_path: Path, place: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("a file where a folder should be")
    ended = run_to_its_end("--listen", f"127.0.0.1:{free_port()}", data=tmp_path / "parent" / "data")
    assert f"expected a folder, found a file; name another one with --data. path={file}." in complaint(ended)
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a server as another user")
def test_data_folder_of_another_user_is_a_one_line_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    code = f"""
import os, sys
sys.path[:] = {sys.path!r}
from lakebed.cli import main
import lakebed.server.processes.supervisor, lakebed.cli.serve
os.setgid(65534); os.setuid(65534)
sys.exit(main(["serve", "--data", {str(data)!r}, "--listen", "127.0.0.1:{free_port()}"]))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "Permission denied" in complaint(ended)


def broken_server(setup: str, data: Path, port: int, *flags: str) -> list[str]:
    """The command of a server with an injected fault and short restart pauses."""
    code = f"""
import os, sys
from lakebed.cli import main
from lakebed.core.errors import Corrupted, Unavailable
from lakebed.server.events import delivery_process as deliveries
from lakebed.server.processes import child, restarts, worker
restarts._FIRST_PAUSE_SECONDS = 0.01
def crash(*_): raise RuntimeError("a bug")
{setup}
sys.exit(main(["serve", "--data", {str(data)!r}, "--listen", "127.0.0.1:{port}", "--workers", "1", *{flags!r}]))
"""
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("role", ["worker", "deliveries"])
def test_role_that_crashes_at_every_start_ends_the_server(tmp_path: Path, role: str) -> None:
    command = broken_server(f"{role}.serve = crash", tmp_path / "data", free_port())
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("lakebed: a server process fails repeatedly at its start")
    name = {"worker": "lakebed-worker", "deliveries": "lakebed-events"}[role]
    assert last.endswith(f"process={name} starts=5 error=RuntimeError: a bug")
    assert ended.stderr.count('"child process crashed"') == 5
    assert '"ready"' not in ended.stderr


def test_process_that_is_killed_at_every_start_ends_the_server(tmp_path: Path) -> None:
    setup = "deliveries.serve = lambda _: os.kill(os.getpid(), 11)"
    command = broken_server(setup, tmp_path / "data", free_port())
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].endswith("process=lakebed-events starts=5 error=killed by SIGSEGV")


def test_permanent_error_at_the_first_start_of_deliveries_is_one_line(tmp_path: Path) -> None:
    setup = """
def broken(*_): raise Corrupted("it is damaged")
deliveries.serve = broken"""
    command = broken_server(setup, tmp_path / "data", free_port())
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert complaint(ended).startswith("lakebed: it is damaged")


WAITING = """
def waiting(*_): raise Unavailable("the store is away")
deliveries.serve = waiting"""

BEGUN_ONCE = """
def once(context):
    if os.path.exists("begun"): crash()
    open("begun", "x").close()
    context.channel.send(child.READY)
    return 1
deliveries.serve = once"""


@pytest.mark.parametrize(("setup", "error"), [(WAITING, "the store is away"), (BEGUN_ONCE, "RuntimeError: a bug")])
def test_delivery_process_is_restarted_after_temporary_errors_or_a_successful_start(
    tmp_path: Path, setup: str, error: str
) -> None:
    port, log = free_port(), tmp_path / "log"
    command = broken_server(setup, tmp_path / "data", port)
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=tmp_path, stderr=output, start_new_session=True) as process,
    ):
        try:
            wait_until(lambda: log.read_text().count(error) > 6, "the start is retried")
            wait_until(lambda: '"ready"' in log.read_text(), "the server is ready")
            assert "event delivery process ended, restarting it" in log.read_text()
            with Connection(port) as connection:
                assert connection.exchange(plain("GET")).status == 403
                assert b"lakebed_event_delivery_running 0\n" in connection.exchange(plain("GET", "/metrics")).body
            process.terminate()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_plain_http_beyond_loopback_requires_a_setting(tmp_path: Path) -> None:
    ended = run_to_its_end("--listen", f"0.0.0.0:{free_port()}", data=tmp_path / "data")
    assert "--insecure-http" in complaint(ended)
    port = free_port()
    server = launch_server(tmp_path / "data", "--listen", f"0.0.0.0:{port}", "--insecure-http", port=port)
    try:
        wait_until(lambda: '"ready"' in server.log_text(), "the server is ready")
        assert ask(server).status == 403
    finally:
        server.kill()


# -- limits ----------------------------------------------------------------------------------------------------------


def test_connections_over_the_limit_get_503(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", "--set", "server.max_connections=6") as server, ExitStack() as open_ones:
        kept: list[Connection] = []

        def six_are_in() -> bool:
            # Connections of readiness requests may still be closing, and count until then.
            connection = Connection(server.port)
            if connection.exchange(plain("GET")).status == 403:
                kept.append(open_ones.enter_context(connection))
            else:
                connection.close()
            return len(kept) == 6

        wait_until(six_are_in, "six open connections")
        with Connection(server.port) as refused:
            answer = refused.exchange(plain("GET"))
            assert (answer.status, answer.code, answer.headers["connection"]) == (503, "SlowDown", "close")
            assert answer.request_id == answer.document_request_id != ""
            assert refused.is_ended()
        assert [connection.exchange(plain("GET")).status for connection in kept] == [403] * 6
        open_ones.close()
        wait_until(lambda: ask(server).status == 403, "room for others")
