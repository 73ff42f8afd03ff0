"""An `Http` for servers that are asked often: connections stay open for a moment, and nothing waits in a thread.

Redirects are never followed. An address on the link itself (169.254.0.0/16, fe80::/10) is refused unless it is named as
such: that is where clouds keep the keys of machines, and a name that leads there is a trick.

A request that changes something and whose answer is lost raises `Unavailable` with `undecided`: it may have happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import defaultdict
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httptools

from lakebed.net.http import HttpRequest, HttpResponse
from lakebed.net.proxy import proxy_authorization, proxy_for

from ..core.errors import InvalidSetting, Unavailable

IDLE_SECONDS: Final = 4.0
"""How long an unused connection is kept: less than servers do, so that none is closed under a request."""

CONNECT_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 1.0

_SAFE: Final = frozenset({"GET", "HEAD"})
_READ_BYTES: Final = 256 * 1024
_NO_BODY: Final = frozenset({204, 304})
_FAILURES: Final = (OSError, UnicodeError, asyncio.IncompleteReadError, httptools.HttpParserError)


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int
    through_proxy: bool


class _Kept(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    since: float


class _Answering:
    """One answer as it comes in: what the parser calls."""

    def __init__(self, method: str, limit: int) -> None:
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.size = 0
        self.has_head = False
        self.is_whole = False
        self.keeps_open = False
        self._is_head = method == "HEAD"
        self._limit = limit
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """The head is whole."""
        status = self.parser.get_status_code()
        self.has_head = status >= 200
        if self.has_head and (self._is_head or status in _NO_BODY):
            self._finish()

    def on_body(self, piece: bytes) -> None:
        """Some of the body."""
        self.size += len(piece)
        if self.size <= self._limit:
            self.pieces.append(piece)

    def on_message_complete(self) -> None:
        """All of it; of a first `100 Continue`, nothing that counts."""
        if self.parser.get_status_code() < 200:
            self.headers.clear()
        else:
            self._finish()

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body has no length, so that the end of the connection is its own."""
        return not {"content-length", "transfer-encoding"} & self.headers.keys()

    @property
    def is_too_long(self) -> bool:
        """Whether it is refused."""
        return self.size > self._limit

    def _finish(self) -> None:
        if not self.is_whole:
            self.is_whole = True
            self.keeps_open = "close" not in self.headers.get("connection", "").lower() and (
                self.parser.get_http_version() == "1.1"
            )


class PooledHttp:
    """Implements `Http`. Used from one event loop. `at_once` is the most requests under way to one server."""

    def __init__(self, *, ca_bundle: str | None = None, at_once: int = 64) -> None:
        self._ca_bundle = ca_bundle
        self._context: ssl.SSLContext | None = None
        self._idle: dict[_Origin, list[_Kept]] = defaultdict(list)
        self._turns: dict[_Origin, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))
        self._is_closed = False

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """Send one request, once. Raises Unavailable when no answer came, InvalidSetting when it cannot be sent."""
        parts = urlsplit(request.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        origin = _Origin(parts.scheme, parts.hostname or "", port, request.through_proxy and parts.scheme == "https")
        head = _head(request, parts.netloc, f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}")
        sent = False
        try:
            async with asyncio.timeout(request.timeout_seconds), self._turns[origin]:
                kept = self._take(origin) or await self._connect(origin)
                sent = True
                answer = await self._exchange(origin, kept, head, request)
        except (*_FAILURES, TimeoutError) as error:
            # Only the class is told: some of these errors quote what was sent or received.
            raise Unavailable(
                f"no answer. host={parts.netloc} path={parts.path} reason={type(error).__name__}",
                undecided=sent and request.method not in _SAFE,
            ) from None
        if answer.is_too_long:
            raise Unavailable(
                f"answer too long. host={parts.netloc} maximum={request.max_response_bytes}",
                undecided=request.method not in _SAFE,
            )
        return HttpResponse(answer.parser.get_status_code(), b"".join(answer.pieces), answer.headers)

    async def close(self) -> None:
        """Close the connections that nobody uses, and see them closed; those in use close with their request."""
        self._is_closed = True
        unused = [kept.writer for idle in self._idle.values() for kept in idle]
        self._idle.clear()
        await asyncio.gather(*(_see_closed(writer) for writer in unused))

    # -- connections ----------------------------------------------------------------------------------------------

    def _take(self, origin: _Origin) -> _Kept | None:
        """An open connection that the other side has not closed, nor said something on that nobody asked for."""
        idle = self._idle[origin]
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while idle:
            kept = idle.pop()
            if kept.since >= oldest and not kept.reader.at_eof() and not kept.writer.is_closing():
                return kept
            kept.writer.close()
        return None

    async def _connect(self, origin: _Origin) -> _Kept:
        async with asyncio.timeout(CONNECT_SECONDS):
            proxy = proxy_for(origin.host) if origin.through_proxy else None
            if proxy is not None:
                reader, writer = await asyncio.open_connection(proxy.hostname or "", proxy.port or 8080)
                try:
                    await _open_tunnel(reader, writer, origin, proxy_authorization(proxy))
                    await writer.start_tls(self._tls(), server_hostname=origin.host)
                except BaseException:
                    writer.close()
                    raise
            else:
                reader, writer = await _open_directly(origin, self._tls() if origin.scheme == "https" else None)
        return _Kept(reader, writer, 0.0)

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self._ca_bundle)
        return self._context

    async def _exchange(self, origin: _Origin, kept: _Kept, head: bytes, request: HttpRequest) -> _Answering:
        answer = _Answering(request.method, request.max_response_bytes)
        reader, writer = kept.reader, kept.writer
        try:
            writer.write(head + request.body)
            await writer.drain()
            while not (answer.is_whole or answer.is_too_long):
                piece = await reader.read(_READ_BYTES)
                if not piece:
                    if answer.has_head and answer.ends_with_connection:
                        break
                    raise asyncio.IncompleteReadError(b"", None)
                answer.parser.feed_data(piece)
        except BaseException:
            writer.close()
            raise
        if answer.is_whole and answer.keeps_open and not (answer.is_too_long or self._is_closed):
            self._idle[origin].append(_Kept(reader, writer, asyncio.get_running_loop().time()))
        else:
            writer.close()
        return answer


async def _see_closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection. TLS is taken leave of in both directions: who does not answer to that is not waited for."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


async def _open_directly(
    origin: _Origin, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first of the host's addresses that takes one."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    failure: OSError | None = None
    for *_, address in found:
        if _is_on_the_link(str(address[0])) and str(address[0]) != origin.host:
            failure = ConnectionRefusedError("the name leads to an address on the link")
            continue
        try:
            return await asyncio.open_connection(
                str(address[0]), origin.port, ssl=context, server_hostname=origin.host if context is not None else None
            )
        except OSError as error:
            failure = error
    raise failure or ConnectionRefusedError("the name leads nowhere")


def _is_on_the_link(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return ip_address(address.partition("%")[0]).is_link_local
    return False


async def _open_tunnel(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, origin: _Origin, headers: dict[str, str]
) -> None:
    target = f"{origin.host}:{origin.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    await writer.drain()
    told = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in told.split(b"\r\n", 1)[0] + b" ":
        raise ConnectionRefusedError("the proxy opens no way")


def _head(request: HttpRequest, netloc: str, target: str) -> bytes:
    """The head of a request. Raises InvalidSetting for what HTTP cannot carry, without quoting it."""
    headers = {"host": netloc} | {name.lower(): value for name, value in request.headers.items()}
    if request.body or request.method not in _SAFE:
        headers["content-length"] = str(len(request.body))
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any(character in line for line in lines for character in "\r\n\0"):
        raise InvalidSetting(f"a header or path that HTTP cannot carry. host={netloc}")
    try:
        return "\r\n".join([*lines, "", ""]).encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidSetting(f"a header or path that HTTP cannot carry. host={netloc}") from None
