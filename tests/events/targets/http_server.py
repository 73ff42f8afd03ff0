"""An HTTP server in the test's own loop, that answers with the bytes it is told to and counts connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class RawServer:
    """Where it is, and what came."""

    port: int = 0
    answer: Callable[[bytes], bytes | None] = lambda head: OK
    """What is sent for a request's head; None to hang up, an empty text to say nothing."""
    bodies: list[bytes] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    hangs_up: bool = False
    """End each connection after its answer, without saying so."""
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await asyncio.sleep(0.01)

    def url(self, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/events?a=b"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
                length = {name: value for name, _, value in lines}.get(b"content-length", b"0")
                body = await reader.readexactly(int(length))
                answer = self.answer(head)
                if answer is None:
                    return
                self.heads.append(head)
                self.bodies.append(body)
                writer.write(answer)
                await writer.drain()
                is_last = b"Connection: close" in answer or not (b"Length" in answer or b"chunked" in answer)
                if answer and (self.hangs_up or is_last):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


@asynccontextmanager
async def raw_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    server = RawServer()
    await server.start(tls)
    try:
        yield server
    finally:
        await server.stop()
