from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakebed.core.errors import Corrupted, LakebedError, StateConflict, StorageFull
from lakebed.core.settings import LogLevel, ServerSettings, Settings
from lakebed.server.http.connections import ListenerApp, WorkerConnections
from lakebed.server.metrics import Metrics
from lakebed.server.processes import child
from lakebed.server.processes.child import Child, ChildContext
from lakebed.server.processes.process_table import ProcessTable
from lakebed.server.processes.reloading import Reloaded
from lakebed.server.stores.identity import establish_identity
from lakebed.wire.http.message import HeadFault, Request, Response

# -- messages from a child to its supervisor----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [Corrupted("damaged. path=/x"), StateConflict("newer"), StorageFull("full"), LakebedError("plain")]
)
def test_supervisor_receives_the_error_that_ended_a_child(error: LakebedError) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child.send_failure(theirs, error)
        heard = child.parse_failure(ours.recv(65536))
    assert (type(heard), str(heard)) == (type(error), str(error))


def test_error_class_unknown_to_the_supervisor_becomes_a_lakebed_error() -> None:
    class Exotic(LakebedError):
        """An error class outside of the package."""

    ours, theirs = socket.socketpair()
    with ours, theirs:
        child.send_failure(theirs, Exotic("odd \udcff words"))
        heard = child.parse_failure(ours.recv(65536))
    assert type(heard) is LakebedError
    assert "odd" in str(heard)
    assert str(child.parse_failure(b"annotations\nno error at all")) == "no error at all"


def test_supervisor_receives_the_crash_of_a_child_in_one_line() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child.send_crash(theirs, ModuleNotFoundError("No module named\n'rocks'"))
        received = ours.recv(65536)
    assert received.startswith(child.CRASHED)
    assert child.parse_crash(received) == "ModuleNotFoundError: No module named 'rocks'"


def test_reporting_to_an_exited_supervisor_is_no_error() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        child.send_failure(theirs, Corrupted("not received"))
        child.send_crash(theirs, RuntimeError("not received either"))
        with pytest.raises(BrokenPipeError):
            theirs.send(child.READY)


# -- messages from the supervisor -------------------------------------------------------------------------------------


async def hello(request: Request) -> Response:
    return Response(200, body=b"hello")


def reject(fault: HeadFault, request_id: str) -> Response:
    return Response(fault.status)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The supervisor's end of a channel, and the child's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@contextmanager
def a_child(folder: Path, channel: socket.socket) -> Iterator[Child]:
    settings = Settings(server=ServerSettings(data=folder / "data"))
    processes = ProcessTable(["workers"] * 4)
    reloaded = Reloaded(LogLevel.INFO)
    context = ChildContext(settings, establish_identity(settings), 3, channel, str(folder / "run"), processes, reloaded)
    metrics = Metrics(folder / "run", context.number)
    try:
        yield Child(context, metrics)
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)
        metrics.close()


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its changes to the memory of the process would outlast the test.
    monkeypatch.setattr(child, "settle_memory", lambda: None)


async def heard(channel: socket.socket) -> bytes:
    channel.setblocking(False)
    return await asyncio.get_running_loop().sock_recv(channel, 100)


async def test_received_connections_are_served_in_order(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = pair
    connections = WorkerConnections({child.CONNECTION: ListenerApp(hello, reject)}, limit=10)
    with a_child(tmp_path, theirs) as one:
        clients = []
        for _ in range(3):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                clients.append(socket.create_connection(listener.getsockname()))
                far, _ = listener.accept()
            with far:
                socket.send_fds(ours, [child.CONNECTION], [far.fileno()])
        serving = asyncio.create_task(one.wait_for_stop(connections.adopt))
        assert await heard(ours) == child.READY
        for client in clients:
            client.setblocking(False)
            await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            assert (await loop.sock_recv(client, 1000)).endswith(b"hello")
            client.close()
        assert not serving.done()
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(10):
            await serving
        await connections.drain(10)


async def test_role_without_connections_closes_received_ones(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    near, far = socket.socketpair()
    with a_child(tmp_path, theirs) as one, near:
        with far:
            socket.send_fds(ours, [child.CONNECTION], [far.fileno()])
        serving = asyncio.create_task(one.wait_for_stop())
        async with asyncio.timeout(10):
            assert await heard(near) == b""
            ours.close()
            await serving


@pytest.mark.parametrize("gone", ["before ready", "before ready is received", "later"])
async def test_child_exits_when_its_supervisor_has(
    tmp_path: Path, pair: tuple[socket.socket, socket.socket], gone: str
) -> None:
    ours, theirs = pair
    with a_child(tmp_path, theirs) as one:
        if gone == "before ready":
            ours.close()
        serving = asyncio.create_task(one.wait_for_stop())
        await asyncio.sleep(0)
        if gone == "later":  # else unread messages reset the connection
            assert await heard(ours) == child.READY
        ours.close()
        async with asyncio.timeout(10):
            await serving


def test_children_of_a_server_run_share_a_unique_run_name(tmp_path: Path) -> None:
    settings = Settings(server=ServerSettings(data=tmp_path / "data"))
    identity = establish_identity(settings)
    with socket.socket() as channel:
        first, second, other = (
            ChildContext(
                settings,
                identity,
                number,
                channel,
                str(tmp_path / run),
                ProcessTable(["workers"]),
                Reloaded(LogLevel.INFO),
            )
            for number, run in ((0, "lakebed-run-a"), (1, "lakebed-run-a"), (0, "lakebed-run-b"))
        )
    assert first.server == second.server != other.server
