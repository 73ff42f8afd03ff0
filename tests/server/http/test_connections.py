from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lakebed.server.http.connections import IDLE_SECONDS, LINGER_SECONDS, ListenerApp, WorkerConnections
from lakebed.server.processes.child import CONNECTION
from lakebed.wire.http.message import HeadFault, Request, Response
from tests.wire.http.certificate import make_certificate

GUARD_SECONDS = 30.0
REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def hello(request: Request) -> Response:
    return Response(200, body=b"hello")


def reject(fault: HeadFault, request_id: str) -> Response:
    return Response(fault.status, body=fault.reason.encode())


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(GUARD_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


class Client:
    """The client end of an adopted connection."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    async def send(self, data: bytes = REQUEST) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def receive(self) -> bytes:
        """The next bytes; empty after the server has closed."""
        try:
            async with asyncio.timeout(GUARD_SECONDS):
                return await asyncio.get_running_loop().sock_recv(self._socket, 65536)
        except ConnectionResetError:
            return b""

    def detach(self) -> socket.socket:
        """Give up the socket and return it."""
        return self._socket

    async def ask(self) -> bytes:
        await self.send()
        return await self.receive()

    def close(self) -> None:
        self._socket.close()


@asynccontextmanager
async def served(
    application: Callable[[Request], Awaitable[Response]] = hello,
    *,
    limit: int = 100,
    tls: ssl.SSLContext | None = None,
    report: Callable[[float], None] | None = None,
) -> AsyncIterator[tuple[WorkerConnections, Callable[[], Client]]]:
    """Serve connections; also a function that opens another one."""
    connections = WorkerConnections({CONNECTION: ListenerApp(application, reject)}, limit=limit, tls=tls, report=report)
    clients: list[Client] = []

    def connect() -> Client:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
        near.setblocking(False)
        clients.append(Client(near))
        connections.adopt(far, CONNECTION)
        return clients[-1]

    yield connections, connect
    for client in clients:
        client.close()
    await connections.drain(GUARD_SECONDS)


async def test_an_adopted_connection_is_served_and_counted() -> None:
    counts: list[float] = []
    async with served(report=counts.append) as (connections, connect):
        first, second = connect(), connect()
        assert (await first.ask()).startswith(b"HTTP/1.1 200 ")
        assert (await second.ask()).endswith(b"hello")
        assert connections.count == 2
        first.close()
        await wait_until(lambda: connections.count == 1)
    assert counts == [1.0, 2.0, 1.0, 0.0]


async def test_connection_over_the_limit_gets_an_error_and_is_not_counted() -> None:
    async with served(limit=2) as (connections, connect):
        kept = [connect(), connect()]
        for client in kept:
            await client.ask()
        refused = [connect(), connect()]
        for client in refused:
            answer = await client.receive()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"Connection: close" in answer
        assert (await kept[0].ask()).startswith(b"HTTP/1.1 200 ")
        # Refused connections that are still open do not count against the limit.
        kept[0].close()
        await wait_until(lambda: connections.count == 3)
        assert (await connect().ask()).startswith(b"HTTP/1.1 200 ")


async def test_connections_far_over_the_limit_are_closed_without_a_response() -> None:
    async with served(limit=1) as (connections, connect):
        await connect().ask()
        assert (await connect().receive()).startswith(b"HTTP/1.1 503 ")
        assert await connect().receive() == b""
        assert connections.count == 2


async def test_idle_connection_is_closed_after_its_timeout_and_not_before() -> None:
    async with served() as (connections, connect):
        client = connect()
        await client.ask()
        now = asyncio.get_running_loop().time()
        connections.close_stalled(now + IDLE_SECONDS - 1)
        assert (await client.ask()).startswith(b"HTTP/1.1 200 ")
        connections.close_stalled(asyncio.get_running_loop().time() + IDLE_SECONDS + 1)
        assert await client.receive() == b""
        await wait_until(lambda: connections.count == 0)


async def test_slow_response_is_not_an_idle_connection() -> None:
    turn = asyncio.Event()

    async def slow(request: Request) -> Response:
        await turn.wait()
        return Response(200, body=b"at last")

    async with served(slow) as (connections, connect):
        client = connect()
        await client.send()
        await wait_until(lambda: connections.count == 1)
        await asyncio.sleep(0)
        connections.close_stalled(asyncio.get_running_loop().time() + 10 * IDLE_SECONDS)
        turn.set()
        assert (await client.receive()).endswith(b"at last")


async def test_connection_that_stalls_within_a_request_body_is_closed() -> None:
    async def read(request: Request) -> Response:
        await request.body.read(100)
        return Response(200)

    async with served(read) as (connections, connect):
        client = connect()
        await client.send(b"PUT / HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\nhalf")
        await wait_until(lambda: connections.count == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        connections.close_stalled(asyncio.get_running_loop().time() + IDLE_SECONDS + 1)
        assert await client.receive() == b""


async def test_connection_is_closed_soon_after_its_last_response() -> None:
    async def refuse(request: Request) -> Response:
        return Response(403)

    async with served(refuse) as (connections, connect):
        client = connect()
        await client.send(b"PUT / HTTP/1.1\r\nHost: here\r\nContent-Length: 10000000\r\n\r\n")
        assert (await client.receive()).startswith(b"HTTP/1.1 403 ")
        connections.close_stalled(asyncio.get_running_loop().time() + LINGER_SECONDS + 1)
        await wait_until(lambda: connections.count == 0)


async def test_draining_closes_idle_connections_and_waits_for_busy_ones() -> None:
    turn = asyncio.Event()

    async def slow(request: Request) -> Response:
        await turn.wait()
        return Response(200, body=b"done")

    async with served(slow) as (connections, connect):
        busy, idle = connect(), connect()
        await busy.send()
        await wait_until(lambda: connections.count == 2)
        for _ in range(10):
            await asyncio.sleep(0)
        draining = asyncio.create_task(connections.drain(GUARD_SECONDS))
        assert await idle.receive() == b""
        assert not draining.done()
        turn.set()
        answer = await busy.receive()
        assert b"Connection: close" in answer
        assert answer.endswith(b"done")
        await draining
        assert connections.count == 0
        # No further connections are accepted.
        assert await connect().receive() == b""


async def test_draining_ends_after_its_grace_period(caplog: pytest.LogCaptureFixture) -> None:
    async def never(request: Request) -> Response:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable: the future is never resolved")

    async with served(never) as (connections, connect):
        client = connect()
        await client.send()
        await wait_until(lambda: connections.count == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        await connections.drain(0.01)
        assert await client.receive() == b""
        await wait_until(lambda: connections.count == 0)
    assert "shutdown grace exceeded" in caplog.text


async def test_connection_opened_while_draining_is_closed(tmp_path: Path) -> None:
    async with served() as (connections, connect):
        client = connect()
        await connections.drain(GUARD_SECONDS)
        assert await client.receive() == b""
        assert connections.count == 0


async def test_garbage_in_place_of_a_handshake_closes_the_connection_without_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    with caplog.at_level(logging.INFO):
        async with served(tls=context) as (connections, connect):
            client = connect()
            await client.send(b"\x80\x00noise")
            while await client.receive():
                pass
            client.close()
            silent = connect()
            await asyncio.sleep(0)
            silent.close()
            await wait_until(lambda: not connections._opening)
            assert connections.count == 0
    assert [record for record in caplog.records if record.name.startswith("lakebed")] == []


async def test_plain_http_on_a_tls_port_gets_an_error_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    requests: list[Request] = []

    async def application(request: Request) -> Response:
        requests.append(request)
        return await hello(request)

    with caplog.at_level(logging.INFO):
        async with served(application, tls=context) as (connections, connect):
            client = connect()
            answer = await client.ask()
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.endswith(b"this port expects HTTPS: use https:// in place of http://")
            client.close()
            await wait_until(lambda: connections.count == 0)
    assert requests == []
    assert [record.getMessage() for record in caplog.records if record.name == "lakebed.server"] == [
        "plain HTTP request on a port that serves HTTPS"
    ]


async def test_tls_client_is_served_after_protocol_detection(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    trusting = ssl.create_default_context(cafile=str(made.certificate))
    async with served(tls=context) as (_, connect):
        reader, writer = await asyncio.open_connection(
            sock=connect().detach(), ssl=trusting, server_hostname="127.0.0.1"
        )
        writer.write(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await writer.wait_closed()
