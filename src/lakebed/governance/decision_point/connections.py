"""Connections to a decision point that stay open: HTTP/1.1, one question at a time on each.

A question changes nothing, so that it may be sent again: a connection that the other side closed while nobody used it
is found out only by sending, and costs one more try on a new one.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httptools

from lakebed.core.errors import Unavailable
from lakebed.core.secrets import Secret

AT_ONCE: Final = 32
"""Questions under way at once in one process. Further ones wait their turn, and not longer than for an answer."""

MAX_ANSWER_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes


class Connections:
    """Posts documents to one URL."""

    def __init__(
        self, url: str, *, timeout_seconds: float, token: Secret | None = None, ca_bundle: str | None = None
    ) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = ssl.create_default_context(cafile=ca_bundle) if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {target} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: application/json"]
        if token is not None:
            lines.append(f"Authorization: Bearer {token.reveal()}")
        self._head: Final = Secret("\r\n".join(lines))
        self._timeout = timeout_seconds
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._idle: list[_Connection] = []

    async def post(self, body: bytes) -> Answer:
        """The answer to a document. Raises Unavailable when none came in time."""
        try:
            async with asyncio.timeout(self._timeout), self._turns:
                if self._idle:
                    kept = self._idle.pop()
                    try:
                        return await self._exchange(kept, body)
                    except (OSError, EOFError):
                        # Closed while nobody used it; those that are idle for longer are as well, most likely.
                        self.close()
                return await self._exchange(await self._open(), body)
        except TimeoutError as error:
            raise Unavailable(f"no answer in time. host={self._host} seconds={self._timeout:g}") from error
        except (OSError, EOFError, httptools.HttpParserError) as error:
            # Only the class is told: some of these errors quote what was sent or received.
            raise Unavailable(f"no answer. host={self._host} reason={type(error).__name__}") from None

    def close(self) -> None:
        """Close what nobody uses. Connections in use are closed by who uses them, or kept for the next."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def _open(self) -> _Connection:
        return _Connection(
            *await asyncio.open_connection(
                self._host, self._port, ssl=self._tls, server_hostname=self._host if self._tls else None
            )
        )

    async def _exchange(self, connection: _Connection, body: bytes) -> Answer:
        try:
            head = f"{self._head.reveal()}\r\nContent-Length: {len(body)}\r\n\r\n"
            answer = await connection.exchange(head.encode(), body)
        except BaseException:
            connection.close()
            raise
        if connection.stays_open:
            self._idle.append(connection)
        else:
            connection.close()
        return answer


class _Connection:
    """One of them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.stays_open = True

    def close(self) -> None:
        self._writer.close()

    async def exchange(self, head: bytes, body: bytes) -> Answer:
        self._writer.write(head + body)
        await self._writer.drain()
        reading = _Reading()
        parser = reading.parser
        while not reading.is_complete:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise EOFError
            parser.feed_data(data)
        self.stays_open = reading.stays_open
        return Answer(parser.get_status_code(), bytes(reading.body))


class _Reading:
    """An answer being read. Its methods are called by the parser."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.is_complete = False
        self.stays_open = False

    def on_body(self, data: bytes) -> None:
        self.body += data
        if len(self.body) > MAX_ANSWER_BYTES:
            raise OSError("the answer is too long")

    def on_message_complete(self) -> None:
        self.is_complete = True
        # It can be told at this moment only.
        self.stays_open = self.parser.should_keep_alive()
