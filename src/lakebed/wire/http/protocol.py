"""One connection: heads are parsed, bodies are streamed, answers go out in order.

Small requests are the hot path. A handler is started inside the callback that received its head, and runs until it
first has to wait; most reads never do, so most requests cost neither a task nor a turn of the event loop.

Invariant: at most one handler runs on a connection; bytes of a following request wait in `_pending` until its answer
has been written.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast

import httptools

from lakebed.core.ids import RequestIds

from .body import CHUNK_BYTES, RequestBody
from .eager import start_eagerly
from .message import RAW_ERRORS, HeadFault, Rejecter, Request, Response
from .responder import Responder

log = logging.getLogger("lakebed.http")

MAX_HEAD_BYTES: Final = 64 * 1024
"""Largest request head: 8 KiB of headers is S3's own limit, presigned URLs with session tokens are longer."""

LINGER_BYTES: Final = 64 * 1024 * 1024
"""How much of an unread body is thrown away so that the client reads our answer before it sees a reset."""

_SCRATCH_BYTES: Final = 256 * 1024

Application = Callable[[Request], Awaitable[Response]]


class ConnectionSet(Protocol):
    """Who watches the connections: for idle closing and graceful shutdown."""

    request_ids: RequestIds
    draining: bool

    def opened(self, connection: HttpProtocol) -> None:
        """A connection began."""
        ...

    def closed(self, connection: HttpProtocol) -> None:
        """A connection ended."""
        ...


class HttpProtocol(asyncio.BufferedProtocol):
    """The server's side of one HTTP/1.1 connection."""

    # One scratch buffer serves every connection of the loop: its bytes are consumed before the callback returns.
    _scratch = bytearray(_SCRATCH_BYTES)
    _scratch_view = memoryview(_scratch)

    def __init__(self, application: Application, reject: Rejecter, connections: ConnectionSet, *, secure: bool) -> None:
        self._application = application
        self._reject = reject
        self._connections = connections
        self._scheme = "https" if secure else "http"
        self._peer = ""
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made before any use
        self._responder: Responder = None  # type: ignore[assignment]  # likewise
        self._pending = b""
        self._request: Request | None = None
        self._body: RequestBody | None = None
        self._chunk_parser: Any = None  # httptools has no types
        self._fill: memoryview | None = None
        self._fill_used = 0
        self._reading_paused = False
        self._discarding = False
        self._discard_left = 0
        self._closing = False
        self._eof = False
        self.last_activity = 0.0
        # Filled by the parser's callbacks.
        self._url = b""
        self._headers: dict[str, str] = {}

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport and note who is on the other side."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        self._responder = Responder(self._transport, zero_copy=self._scheme == "http")
        self._connections.opened(self)
        self.touch()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the reader and the writer that the other side is gone."""
        self._closing = True
        self._connections.closed(self)
        if self._body is not None and not self._body.finished:
            self._body.abort()
        self._responder.lost()

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        self._responder.pause()

    def resume_writing(self) -> None:
        """The transport's buffer has drained."""
        self._responder.resume()

    def eof_received(self) -> bool:
        """The client will send no more; an answer under way is still delivered."""
        self._eof = True
        if self._body is not None and not self._body.finished:
            self._body.abort()
        return self._request is not None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a body's own buffer while a large body arrives, the shared one otherwise."""
        if self._fill is not None:
            return self._fill[self._fill_used :]
        return self._scratch_view

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived in the buffer that `get_buffer` gave."""
        self.touch()
        if self._fill is not None:
            self._fill_used += nbytes
            if self._fill_used == len(self._fill):
                self._hand_over_fill()
            return
        self._received(bytes(self._scratch_view[:nbytes]))

    # -- receiving ------------------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        if self._discarding:
            self._discard(data)
        elif self._body is not None and not self._body.finished:
            self._feed_body(data)
        elif self._request is not None or self._closing:
            # The next request, sent ahead of our answer. More than a head's worth is a client we do not serve.
            self._pending += data
            if len(self._pending) > 2 * MAX_HEAD_BYTES:
                self._pause_reading()
        else:
            self._feed_head(self._pending + data if self._pending else data)

    def _feed_head(self, data: bytes) -> None:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._pending = data.lstrip(b"\r\n") if data[:1] in (b"\r", b"\n") else data
            if len(data) > MAX_HEAD_BYTES:
                self._refuse(HeadFault(431, "the request head is too large"))
            return
        end += 4
        if end > MAX_HEAD_BYTES:
            self._refuse(HeadFault(431, "the request head is too large"))
            return
        self._pending = b""
        self._headers = {}
        self._url = b""
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(memoryview(data)[:end])
        except httptools.HttpParserUpgrade:
            self._refuse(HeadFault(400, "protocol upgrades are not supported"))
            return
        except httptools.HttpParserError as error:
            self._refuse(HeadFault(400, f"the request head is malformed: {error}"))
            return
        body = self._make_body(parser)
        if body is None:
            return
        path, _, query = self._url.decode("utf-8", RAW_ERRORS).partition("?")
        if not path.startswith("/"):
            path = _path_of_absolute(path)
        request = Request(
            parser.get_method().decode(),
            path,
            query,
            self._headers,
            body,
            self._scheme,
            self._peer,
            self._connections.request_ids.next(),
        )
        self._request = request
        self._responder.begin(
            keep_alive=parser.should_keep_alive() and not self._connections.draining,
            version_1_0=parser.get_http_version() == "1.0",
        )
        if body.finished:
            self._body = None
            self._pending = data[end:]
        else:
            self._body = body
            if body.chunked:
                self._chunk_parser = parser
            self._expect_body(request, body)
            if len(data) > end:
                self._feed_body(data[end:])
        start_eagerly(self._respond(request))

    def _make_body(self, parser: Any) -> RequestBody | None:  # Any: httptools has no types
        headers = self._headers
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].strip().lower() != "chunked":
                self._refuse(HeadFault(501, "this transfer coding is not supported"))
                return None
            return RequestBody(None, chunked=True)
        length = headers.get("content-length")
        if length is None:
            return RequestBody(0)
        if not (length.isascii() and length.isdigit()):
            self._refuse(HeadFault(400, "the content length is not a number"))
            return None
        return RequestBody(int(length))

    def _expect_body(self, request: Request, body: RequestBody) -> None:
        announce = None
        if "expect" in request.headers and request.headers["expect"].strip().lower() == "100-continue":
            announce = self._responder.send_continue
        body.attach(announce, self._resume_reading)

    def _feed_body(self, data: bytes) -> None:
        body = self._body
        assert body is not None  # noqa: S101  # callers have checked; keeps the type checker honest
        if self._chunk_parser is not None:
            try:
                self._chunk_parser.feed_data(data)
            except httptools.HttpParserError:
                body.abort()
                self._closing = True
            return
        assert body.length is not None  # noqa: S101  # a body that is not chunked has a length
        missing = body.length - body.received
        if len(data) >= missing:
            self._body = None
            self._pending = data[missing:]
            body.push(data[:missing] if len(data) > missing else data)
            body.finish()
            return
        body.push(data)
        if missing - len(data) > _SCRATCH_BYTES:
            self._start_fill(missing - len(data))
        if body.is_full:
            self._pause_reading()

    def _start_fill(self, missing: int) -> None:
        self._fill = memoryview(bytearray(min(missing, CHUNK_BYTES)))
        self._fill_used = 0

    def _hand_over_fill(self) -> None:
        body, fill = self._body, self._fill
        assert body is not None and body.length is not None and fill is not None  # noqa: S101,PT018  # a fill has a body
        self._fill = None
        body.push(fill)
        missing = body.length - body.received
        if missing == 0:
            self._body = None
            body.finish()
            return
        self._start_fill(missing)
        if body.is_full:
            self._pause_reading()

    # -- the parser's callbacks -----------------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; repeated ones are joined as RFC 9110 §5.3 says."""
        field = name.decode("latin-1").lower()
        text = value.decode("utf-8", RAW_ERRORS)
        headers = self._headers
        headers[field] = f"{headers[field]},{text}" if field in headers else text

    def on_body(self, data: bytes) -> None:
        """A piece of a chunked body."""
        body = self._body
        if body is not None and data:
            body.push(data)
            if body.is_full:
                self._pause_reading()

    def on_message_complete(self) -> None:
        """The end of a chunked body."""
        if self._chunk_parser is not None and self._body is not None:
            self._chunk_parser = None
            body, self._body = self._body, None
            body.finish()

    # -- answering ------------------------------------------------------------------------------------------------

    async def _respond(self, request: Request) -> None:
        response = await self._application(request)
        try:
            await self._responder.send(response, is_head=request.method == "HEAD")
        except ConnectionError:
            self._closing = True
        self._finish(request)

    def _finish(self, request: Request) -> None:
        """The answer has been written: go on with the next request, or end."""
        self.touch()
        self._request = None
        if self._closing:
            self._transport.close()
            return
        if not request.body.finished:
            self._linger(request)
            return
        if not self._responder.keep_alive or self._eof:
            self._transport.close()
            return
        self._resume_reading()
        if self._pending:
            # On the next turn: a client that sends many requests ahead must not starve the others.
            asyncio.get_running_loop().call_soon(self._next_pending)

    def _next_pending(self) -> None:
        if self._request is None and not self._closing and self._pending:
            data, self._pending = self._pending, b""
            self._feed_head(data)

    def _linger(self, request: Request) -> None:
        """The client still sends a body that nobody will read: let it finish, then close."""
        self._fill = None
        self._body = None
        self._chunk_parser = None
        if request.body.awaits_continue or self._eof:
            self._transport.close()
            return
        self._discarding = True
        self._pending = b""
        self._discard_left = LINGER_BYTES
        if not self._transport.is_closing():
            if self._scheme == "http":
                self._transport.write_eof()
            self._resume_reading()

    def _discard(self, data: bytes) -> None:
        self._discard_left -= len(data)
        if self._discard_left <= 0:
            self._transport.close()

    def turn_away(self, fault: HeadFault) -> None:
        """Answer before anything was asked, and close."""
        self._refuse(fault)

    def _refuse(self, fault: HeadFault) -> None:
        """Answer a head that cannot be read, and close: where the next request begins is unknown."""
        self._pending = b""
        self._closing = True
        self._responder.begin(keep_alive=False, version_1_0=False)
        response = self._reject(fault, self._connections.request_ids.next())
        self._responder.send_now(response)
        self._transport.close()

    # -- flow control and life ------------------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    def touch(self) -> None:
        """Something happened on this connection."""
        self.last_activity = asyncio.get_running_loop().time()

    @property
    def is_stalled(self) -> bool:
        """Whether the other side is who we wait for: for a request, for more of a body, or to take our bytes."""
        request = self._request
        return request is None or not request.body.finished or self._responder.is_blocked

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._request is None

    def close_when_idle(self) -> None:
        """End the connection: now if nothing is under way, else after the answer."""
        self._responder.keep_alive = False
        if self.is_idle:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()


def tune_socket(connection: socket.socket) -> None:
    """Buffers large enough for large bodies, small enough that many slow clients cost little; no Nagle delay."""
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 * 1024)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _path_of_absolute(target: str) -> str:
    """The path of an absolute-form target (`http://host/path`), as proxies send it."""
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return target
    slash = rest.find("/")
    return "/" if slash < 0 else rest[slash:]
