"""The HTTP server on a real loop and real sockets, with a client that can misbehave."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from lakebed.core.ids import RequestIds
from lakebed.wire.http.message import HeadFault, Request, Response
from lakebed.wire.http.protocol import Application, HttpProtocol, tune_socket

GUARD_SECONDS: Final = 30.0
"""A test that waits longer fails."""


@dataclass(frozen=True, slots=True)
class ReceivedResponse:
    """A response as the client received it."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The only value of a header."""
        found = [value for candidate, value in self.headers if candidate == name]
        assert len(found) <= 1, f"{name} was sent {len(found)} times"
        return found[0] if found else None


class RecordedConnections:
    """A connection set that records connections."""

    def __init__(self) -> None:
        self.request_ids = RequestIds()
        self.draining = False
        self.protocols: list[HttpProtocol] = []
        self.ended: list[HttpProtocol] = []

    def opened(self, connection: HttpProtocol) -> None:
        self.protocols.append(connection)

    def closed(self, connection: HttpProtocol) -> None:
        self.ended.append(connection)


def reject(fault: HeadFault, request_id: str) -> Response:
    """A response to a rejected head."""
    return Response(fault.status, [("X-Request-Id", request_id)], fault.reason.encode())


@dataclass
class Serving:
    """An application and its connections."""

    application: Application
    tls: ssl.SSLContext | None = None
    connections: RecordedConnections = field(default_factory=RecordedConnections)

    async def connect(self, *, receive_buffer: int | None = None, client_tls: ssl.SSLContext | None = None) -> Client:
        """Open a connection to the application."""
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.socket()
            if receive_buffer is not None:
                near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            near.connect(listener.getsockname())
            far, _ = listener.accept()
        tune_socket(far)
        near.setblocking(False)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        serve = loop.connect_accepted_socket(self._protocol, far, ssl=self.tls)
        if client_tls is None:
            await serve
            return Client(_PlainEnd(near))
        serving = loop.create_task(serve)
        reader, writer = await asyncio.open_connection(sock=near, ssl=client_tls, server_hostname="127.0.0.1")
        await serving
        return Client(_TlsEnd(reader, writer))

    def _protocol(self) -> HttpProtocol:
        return HttpProtocol(self.application, reject, self.connections, secure=self.tls is not None)

    @property
    def protocol(self) -> HttpProtocol:
        """The server's side of the last connection."""
        return self.connections.protocols[-1]

    async def wait_ended(self) -> None:
        """Wait until the server's side of every connection has ended."""
        await wait_until(lambda: len(self.connections.ended) == len(self.connections.protocols))


@asynccontextmanager
async def serving(application: Application, tls: ssl.SSLContext | None = None) -> AsyncIterator[Serving]:
    """Serve during a block; open connections are aborted at its end."""
    made = Serving(application, tls)
    try:
        yield made
    finally:
        for protocol in made.connections.protocols:
            if protocol not in made.connections.ended:
                protocol.abort()
        await made.wait_ended()


async def wait_until(condition: Callable[[], bool]) -> None:
    """Run the loop until the condition holds."""
    async with asyncio.timeout(GUARD_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def settle() -> None:
    """Run the loop until nothing is left to do.

    For claims that something does not happen. Local sockets deliver at once, so a few iterations are enough.
    """
    for _ in range(50):
        await asyncio.sleep(0)


async def later() -> float:
    """The loop's time, after waiting until it is later than all previous events: uvloop counts in milliseconds."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await wait_until(lambda: loop.time() > before)
    return loop.time()


class _PlainEnd:
    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    async def receive(self, limit: int) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._socket, limit)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def send_now(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    def finish_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool) -> None:
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


class _TlsEnd:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, limit: int) -> bytes:
        return await self._reader.read(limit)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def send_now(self, data: bytes) -> int:
        raise NotImplementedError("bytes in transit through TLS cannot be counted")

    def finish_sending(self) -> None:
        raise NotImplementedError("TLS connections cannot be half-closed")

    def close(self, *, reset: bool) -> None:
        if reset:
            self._writer.transport.abort()
        else:
            self._writer.close()


class Client:
    """The client's side of a connection. Raises ConnectionError if the server closed it, TimeoutError for waits."""

    def __init__(self, end: _PlainEnd | _TlsEnd) -> None:
        self._end = end
        self._buffer = b""

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def send(self, *pieces: bytes) -> None:
        """Send raw bytes, piece by piece."""
        async with asyncio.timeout(GUARD_SECONDS):
            for piece in pieces:
                await self._end.send(piece)

    async def send_until_stuck(self, data: bytes, limit: int) -> int:
        """Send until the server stops reading, or `limit` bytes are sent; the number of bytes sent."""
        sent = idle = 0
        while idle < 20 and sent < limit:
            now = self._end.send_now(data)
            sent += now
            idle = 0 if now else idle + 1
            await settle()
        return sent

    async def receive(self, *, bare: bool = False) -> ReceivedResponse:
        """The next response; `bare` if it has no body despite its headers."""
        lines = (await self.until(b"\r\n\r\n")).decode("utf-8", "surrogateescape").split("\r\n")
        assert lines[0].startswith("HTTP/1.1 ")
        status = int(lines[0].split(" ")[1])
        pairs = [line.split(": ", 1) for line in lines[1:]]
        headers = tuple((name.lower(), value) for name, value in pairs)
        by_name = dict(headers)
        if bare or status in (204, 304) or status < 200:
            body = b""
        elif by_name.get("transfer-encoding") == "chunked":
            body = await self._chunks()
        elif "content-length" in by_name:
            body = await self.exactly(int(by_name["content-length"]))
        else:
            body = await self.rest()
        return ReceivedResponse(status, headers, body)

    async def exchange(self, request: bytes, *, bare: bool = False) -> ReceivedResponse:
        """Send a request and receive its response."""
        await self.send(request)
        return await self.receive(bare=bare)

    async def until(self, mark: bytes) -> bytes:
        """The bytes before a mark, which is skipped."""
        while (end := self._buffer.find(mark)) < 0:
            await self._more()
        found, self._buffer = self._buffer[:end], self._buffer[end + len(mark) :]
        return found

    async def exactly(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        pieces, have = [self._buffer[:count]], min(count, len(self._buffer))
        self._buffer = self._buffer[count:]
        while have < count:
            async with asyncio.timeout(GUARD_SECONDS):
                piece = await self._end.receive(min(count - have, 1 << 20))
            if not piece:
                raise ConnectionError("the connection ended")
            pieces.append(piece)
            have += len(piece)
        return b"".join(pieces)

    async def rest(self) -> bytes:
        """All bytes up to the end of the connection. Raises ConnectionResetError if it was reset."""
        pieces = [self._buffer]
        self._buffer = b""
        while True:
            async with asyncio.timeout(GUARD_SECONDS):
                piece = await self._end.receive(1 << 20)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)

    async def is_ended(self) -> bool:
        """Wait until the server closes; whether it did so without sending more."""
        try:
            return await self.rest() == b""
        except ConnectionResetError:
            return True

    def finish_sending(self) -> None:
        """Half-close the connection."""
        self._end.finish_sending()

    def close(self) -> None:
        self._end.close(reset=False)

    def reset(self) -> None:
        """Close the connection with a reset."""
        self._end.close(reset=True)

    async def _chunks(self) -> bytes:
        pieces = []
        while size := int(await self.until(b"\r\n"), 16):
            pieces.append(await self.exactly(size))
            assert await self.exactly(2) == b"\r\n"
        assert await self.exactly(2) == b"\r\n"
        return b"".join(pieces)

    async def _more(self) -> None:
        async with asyncio.timeout(GUARD_SECONDS):
            data = await self._end.receive(1 << 16)
        if not data:
            raise ConnectionError("the connection ended")
        self._buffer += data


def request_of(method: str, target: str = "/", body: bytes | None = None, **headers: str) -> bytes:
    """The bytes of a request; underscores in header names become hyphens."""
    lines = [f"{method} {target} HTTP/1.1", "Host: here"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + (body or b"")


async def echo(request: Request) -> Response:
    """Respond with the body, the method and the path of the request."""
    body = await request.body.read(1 << 30)
    return Response(200, [("X-Method", request.method), ("X-Path", request.raw_path)], body)


def responding(*responses: Response) -> Callable[[Request], Awaitable[Response]]:
    """An application that returns these responses in order."""
    left = list(responses)

    async def application(request: Request) -> Response:
        return left.pop(0)

    return application
