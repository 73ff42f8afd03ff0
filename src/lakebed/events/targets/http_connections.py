"""HTTP/1.1 connections to one server that are kept between requests.

A request that finds its kept connection closed by the other side is sent once more, on a fresh one: to receivers of
events a message that comes twice is nothing new. Redirects are never followed.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httptools

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.storage.credentials.http import HttpAnswer, HttpRequest, proxy_authorization, proxy_for

from .tls import Sight, TlsFiles, TlsWatch

log = logging.getLogger("lakebed.events")

_READ_BYTES: Final = 65536
_IDLE_SECONDS: Final = 30.0
_MOST_IDLE: Final = 32


_SYSTEM: Final = TlsFiles()


@dataclass
class _Answer:
    """Filled by the parser, which calls these by name."""

    limit: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    is_complete: bool = False
    is_last: bool = True
    """Whether the connection ends with it."""
    parser: Any = None  # Any: httptools comes without types

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, piece: bytes) -> None:
        if len(self.body) <= self.limit:
            self.body += piece

    def on_message_complete(self) -> None:
        self.is_complete = True
        # Here and not later: the parser forgets it when it gets ready for the next answer.
        self.is_last = not self.parser.should_keep_alive()


class _Stale(Exception):
    """A kept connection was gone before anything came back."""


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    used_at: float = 0.0

    def close(self) -> None:
        # At once: there is nothing more to say, and nobody to wait for.
        self.writer.transport.abort()


class HttpConnections:
    """Sends requests, and keeps connections for the next. An `Http` of the seam that credentials have."""

    def __init__(self, tls: TlsFiles = _SYSTEM) -> None:
        self._tls = tls
        self._idle: dict[tuple[str, str], list[_Connection]] = {}
        self._context: ssl.SSLContext | None = None
        self._watch = TlsWatch(tls)
        self._is_closed = False

    async def __call__(self, request: HttpRequest) -> HttpAnswer:
        """The answer. Raises Unavailable when none came."""
        if self._is_closed:
            raise Unavailable("the target is closed")
        parts = urlsplit(request.url)
        place = parts.scheme, parts.netloc
        try:
            async with asyncio.timeout(request.timeout_seconds):
                kept = self._kept(place)
                while kept is not None:
                    try:
                        return await self._ask(kept, place, request, is_kept=True)
                    except _Stale:
                        kept = self._kept(place)
                fresh = await self._connect(request)
                return await self._ask(fresh, place, request, is_kept=False)
        except (OSError, EOFError, TimeoutError, ssl.SSLError, httptools.HttpParserError, _Stale) as error:
            # Only the class is told: some of these errors quote what was sent or received.
            raise Unavailable(f"no answer. host={parts.hostname} path={parts.path} reason={_reason(error)}") from None

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        self._is_closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _kept(self, place: tuple[str, str]) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        idle = self._idle.get(place, [])
        while idle:
            connection = idle.pop()
            if now - connection.used_at < _IDLE_SECONDS and not connection.reader.at_eof():
                return connection
            connection.close()
        return None

    async def _ask(
        self, connection: _Connection, place: tuple[str, str], request: HttpRequest, *, is_kept: bool
    ) -> HttpAnswer:
        is_reusable = False
        try:
            answer = _Answer(request.max_answer_bytes)
            parser = answer.parser = httptools.HttpResponseParser(answer)
            has_begun = False
            try:
                connection.writer.write(_head(request) + request.body)
                await connection.writer.drain()
                while not answer.is_complete:
                    piece = await connection.reader.read(_READ_BYTES)
                    if not piece:
                        break
                    has_begun = True
                    parser.feed_data(piece)
                    if request.method == "HEAD" and parser.get_status_code():
                        # Its answer ends with the headers, whatever length they tell: the connection is not used again.
                        return HttpAnswer(parser.get_status_code(), b"", answer.headers)
                    if len(answer.body) > request.max_answer_bytes:
                        raise Unavailable(
                            f"answer too long. host={urlsplit(request.url).hostname} maximum={request.max_answer_bytes}"
                        )
            except OSError:
                if is_kept and not has_begun:
                    raise _Stale from None
                raise
            if not has_begun:
                raise _Stale if is_kept else EOFError
            status: int = parser.get_status_code()
            if not answer.is_complete and ("content-length" in answer.headers or "transfer-encoding" in answer.headers):
                raise EOFError
            is_reusable = answer.is_complete and not answer.is_last
            return HttpAnswer(status, bytes(answer.body), answer.headers)
        finally:
            idle = self._idle.setdefault(place, [])
            if is_reusable and not self._is_closed and len(idle) < _MOST_IDLE:
                idle.append(connection._replace(used_at=asyncio.get_running_loop().time()))
            else:
                connection.close()

    async def _connect(self, request: HttpRequest) -> _Connection:
        parts = urlsplit(request.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return _Connection(*await asyncio.open_connection(host, parts.port or 80))
        port = parts.port or 443
        context = await self._secured()
        proxy = proxy_for(host) if request.through_proxy else None
        if proxy is None:
            return _Connection(*await asyncio.open_connection(host, port, ssl=context, server_hostname=host))
        reader, writer = await asyncio.open_connection(proxy.hostname or "", proxy.port or 8080)
        connection = _Connection(reader, writer)
        try:
            headers = "".join(f"{name}: {value}\r\n" for name, value in proxy_authorization(proxy).items())
            writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{headers}\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            words = head.split(None, 2)
            if len(words) < 2 or not words[1].startswith(b"2"):
                raise Unavailable(f"the proxy does not connect. host={host}")
            await writer.start_tls(context, server_hostname=host)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _secured(self) -> ssl.SSLContext:
        """What connections are made with. Files that were replaced by some that are no good leave it as it was."""
        context = self._context
        if context is not None and self._watch.look() is not Sight.OTHER:
            return context
        # Before the files are read: what is written meanwhile is seen as a change.
        self._watch.remember()
        try:
            # Off the loop: reading the authorities takes milliseconds.
            self._context = await asyncio.to_thread(self._tls.context)
        except Unavailable as error:
            if context is None:
                raise
            log.warning("certificates that were replaced cannot be used: %s", error)
            return context
        return self._context


def _head(request: HttpRequest) -> bytes:
    parts = urlsplit(request.url)
    path = parts.path or "/"
    headers: dict[str, Any] = {"Host": parts.netloc, **request.headers}
    if request.method != "HEAD":
        headers["Content-Length"] = len(request.body)
    lines = [f"{request.method} {path}{'?' + parts.query if parts.query else ''} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise InvalidSetting(f"a header or path that HTTP cannot carry. host={parts.hostname}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused ({error.verify_message})"
    return type(error).__name__
