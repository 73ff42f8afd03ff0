"""HTTP/1.1 connections to one server that are kept between requests.

A request that finds its kept connection closed by the other side is sent once more, on a fresh one: to receivers of
events a message that comes twice is nothing new. Redirects are never followed.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httptools

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.storage.credentials.http import HttpAnswer, HttpRequest, proxy_authorization, proxy_for

_READ_BYTES: Final = 65536
_IDLE_SECONDS: Final = 30.0
_MOST_IDLE: Final = 32


class TlsFiles(NamedTuple):
    """What a connection is secured with: files that are read again when they change."""

    authorities: str = ""
    """In place of the system's."""
    certificate: str = ""
    key: str = ""
    verifies: bool = True

    def context(self) -> ssl.SSLContext:
        """As the files are now. Raises OSError, ssl.SSLError."""
        context = ssl.create_default_context(cafile=self.authorities or None)
        if not self.verifies:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            # With a password for a key that has one, OpenSSL does not ask for it on the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        return context

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """What differs when a file was replaced. Raises OSError."""
        found = (os.stat(path) for path in (self.authorities, self.certificate, self.key) if path)
        return tuple((one.st_mtime_ns, one.st_size) for one in found)


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
        self._stamp: object = None
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
        try:
            stamp = self._tls.stamp()
            if self._context is None or stamp != self._stamp:
                # Off the loop: reading the authorities takes milliseconds.
                self._context = await asyncio.to_thread(self._tls.context)
                self._stamp = stamp
        except OSError as error:
            raise Unavailable(f"the certificates cannot be used: {error.strerror or type(error).__name__}") from error
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
