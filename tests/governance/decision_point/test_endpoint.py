from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from lakebed.core.errors import Unavailable
from lakebed.core.secrets import Secret
from lakebed.governance.decision_point import DecisionEndpoint
from lakebed.governance.decision_point.client import MAX_RESPONSE_BYTES
from tests.fixtures.scripted_http import ScriptedResponse, scripted_server

TOKEN = "a-token-for-the-decision-point"


@asynccontextmanager
async def connected(url: str, *, timeout: float = 10, token: str = "") -> AsyncIterator[DecisionEndpoint]:
    endpoint = DecisionEndpoint(url, timeout_seconds=timeout, token=Secret(token) if token else None)
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def test_documents_are_posted_with_the_token() -> None:
    with scripted_server(lambda _: ScriptedResponse(200, b"{}")) as server:
        async with connected(f"{server.url}/v1/data/lakebed/allow?x=1", token=TOKEN) as endpoint:
            answer = await endpoint.post(b'{"input": 1}')
    (request,) = server.requests
    assert (answer.status, answer.body) == (200, b"{}")
    assert (request.method, request.path, request.body) == ("POST", "/v1/data/lakebed/allow?x=1", b'{"input": 1}')
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/json"


async def test_errors_do_not_contain_the_token() -> None:
    endpoint = DecisionEndpoint("http://127.0.0.1:1/", timeout_seconds=1, token=Secret(TOKEN))
    assert TOKEN not in repr(vars(endpoint))
    with pytest.raises(Unavailable) as refused:
        await endpoint.post(b"{}")
    assert TOKEN not in str(refused.value)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    """A server with this handler. It closes all connections at the end."""
    served: list[asyncio.StreamWriter] = []
    tasks: list[asyncio.Task[None]] = []

    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.ensure_future(serve_and_close(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for writer in served:
            writer.close()
        await asyncio.gather(*tasks, return_exceptions=True)


class Counting:
    """Counts connections, and closes each after a number of requests."""

    def __init__(self, *, a_connection: int = 1_000, answer: bytes = b"{}") -> None:
        self.connections = 0
        self.requests = 0
        self._a_connection = a_connection
        self._answer = answer

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with serving(self._serve) as url:
            yield url

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            for _ in range(self._a_connection):
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
                self.requests += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self._answer) + self._answer)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass


async def test_connections_are_reused() -> None:
    server = Counting()
    async with server.serving() as url, connected(url) as endpoint:
        for _ in range(20):
            assert (await endpoint.post(b"{}")).status == 200
        assert (server.connections, server.requests) == (1, 20)
        await asyncio.gather(*(endpoint.post(b"{}") for _ in range(20)))
        await asyncio.gather(*(endpoint.post(b"{}") for _ in range(20)))
    assert server.requests == 60
    assert server.connections <= 20


async def test_request_on_a_closed_connection_is_resent() -> None:
    server = Counting(a_connection=1)
    async with server.serving() as url, connected(url) as endpoint:
        for _ in range(3):
            assert (await endpoint.post(b"{}")).body == b"{}"
    assert (server.connections, server.requests) == (3, 3)


async def test_refused_connection_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with connected(f"http://127.0.0.1:{taken.getsockname()[1]}/") as endpoint:
            with pytest.raises(Unavailable, match=r"no response\. host=127\.0\.0\.1 reason=ConnectionRefusedError"):
                await endpoint.post(b"{}")


async def test_timeout_is_unavailable() -> None:
    async def never_respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(never_respond) as url, connected(url, timeout=0.05) as endpoint:
        with pytest.raises(Unavailable, match="no response in time"):
            await endpoint.post(b"{}")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b" " * (MAX_RESPONSE_BYTES + 1),
    ],
)
async def test_incomplete_response_is_unavailable(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with serving(serve) as url, connected(url) as endpoint:
        with pytest.raises(Unavailable, match="no response"):
            await endpoint.post(b"{}")


async def test_chunked_responses_are_read() -> None:
    body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(body)

    async with serving(serve) as url, connected(url) as endpoint:
        assert (await endpoint.post(b"{}")).body == b"{}"
