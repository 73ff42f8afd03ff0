"""One HTTP/1.1 connection: parses heads, streams bodies, and sends responses in order.

Small requests are the hot path. A handler starts inside the callback that received its head, and runs until it first
suspends. Most reads never do, so most requests cost neither a task nor an iteration of the event loop.

Invariant: at most one handler runs per connection. Bytes of pipelined requests wait in `_pending` until the response
has been written. These bytes, and those that wait for the reader of a body, are bounded: beyond that the socket is not
read.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

from lakebed.core.buffers import BODY_BUFFERS
from lakebed.core.ids import RequestIds

from .body import CHUNK_BYTES, RequestBody
from .chunks import ChunkDecoder, MalformedChunks
from .eager import start_eagerly
from .head import MAX_HEAD_BYTES, HeadRejected, RequestHead
from .message import HeadFault, Rejecter, Request, Response
from .responder import Responder

log = logging.getLogger("lakebed.http")

MAX_PENDING_BYTES: Final = 2 * MAX_HEAD_BYTES
"""Bytes of pipelined requests that may wait; more of them pause reading from the socket."""

SKIP_BYTES: Final = 64 * 1024
"""If at most this much of an unread body is missing, it is skipped and the connection stays open."""

LINGER_BYTES: Final = 64 * 1024 * 1024
"""Bytes of an unread body that are discarded before closing, so that the client reads the response before a reset."""

_TLS_HANDSHAKE: Final = b"\x16\x03"
"""The start of a TLS handshake record, of any version since SSL 3.0."""

_SCRATCH_BYTES: Final = 256 * 1024

Application = Callable[[Request], Awaitable[Response]]


class ConnectionSet(Protocol):
    """The open connections of a server, for idle timeouts and graceful shutdown."""

    request_ids: RequestIds
    draining: bool

    def opened(self, connection: HttpProtocol) -> None:
        """Add a connection."""
        ...

    def closed(self, connection: HttpProtocol) -> None:
        """Remove a connection."""
        ...


class HttpProtocol(asyncio.BufferedProtocol):
    """The server's side of one HTTP/1.1 connection."""

    # All connections of the loop share one buffer: its bytes are consumed before the callback returns.
    _scratch = bytearray(_SCRATCH_BYTES)
    _scratch_view = memoryview(_scratch)

    def __init__(self, application: Application, reject: Rejecter, connections: ConnectionSet, *, secure: bool) -> None:
        self._application = application
        self._rejecter = reject
        self._connections = connections
        self._scheme = "https" if secure else "http"
        self._peer = ""
        self._tls_version = ""
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made before any use
        self._responder: Responder = None  # type: ignore[assignment]  # likewise
        self._pending = b""
        self._pending_is_due = False
        self._request: Request | None = None
        self._body: RequestBody | None = None
        self._chunks: ChunkDecoder | None = None
        self._fill: memoryview | None = None
        self._fill_used = 0
        self._reading_paused = False
        self._discarding = False
        self._discard_left = 0
        self._skip_left = 0
        self._closing = False
        self._eof = False
        self._unsent = 0
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self.last_activity = self._now()

    # -- asyncio callbacks ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, the client's address and the TLS version."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        tls = transport.get_extra_info("ssl_object")
        self._tls_version = "" if tls is None else tls.version() or ""
        self._responder = Responder(self._transport, zero_copy=self._scheme == "http")
        self._connections.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Fail pending reads and writes."""
        self._closing = True
        self._connections.closed(self)
        if self._body is not None and not self._body.finished:
            self._body.abort()
        self._responder.lost()

    def pause_writing(self) -> None:
        """Pause the responder: the transport's buffer is full."""
        self._responder.pause()

    def resume_writing(self) -> None:
        """Resume the responder: the transport's buffer has drained."""
        self._responder.resume()

    def eof_received(self) -> bool:
        """Handle a half-closed connection: the current response is still sent."""
        self._eof = True
        if self._body is not None and not self._body.finished:
            self._body.abort()
        # TLS connections cannot be half-closed.
        return (self._request is not None or self._pending_is_due) and self._scheme == "http"

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes: one of the body while a large body arrives, otherwise the shared one."""
        if self._fill is not None:
            return self._fill[self._fill_used :]
        return self._scratch_view

    def buffer_updated(self, nbytes: int) -> None:
        """Process the received bytes."""
        if self._request is not None or not self._pending:
            # Not for later bytes of a head: the whole head must arrive within the idle timeout.
            self.last_activity = self._now()
        if self._fill is not None:
            self._fill_used += nbytes
            if self._fill_used == len(self._fill):
                self._push_fill()
            return
        self._received(bytes(self._scratch_view[:nbytes]))

    # -- receiving ------------------------------------------------------------------------------------------------

    def _received(self, data: bytes) -> None:
        if self._discarding:
            self._discard(data)
        elif self._skip_left:
            self._skip(data)
        elif self._body is not None and not self._body.finished:
            self._feed_body(data)
        elif self._request is not None or self._pending_is_due or self._closing:
            self._buffer_pending(data)
        else:
            self._feed_head(self._pending + data if self._pending else data)

    def _buffer_pending(self, data: bytes) -> None:
        """Keep bytes of a pipelined request until the response has been sent."""
        self._pending += data
        if len(self._pending) > MAX_PENDING_BYTES:
            self._pause_reading()

    def _feed_head(self, data: bytes) -> None:
        if data[:1] in (b"\r", b"\n"):
            # Empty lines before a request are ignored (RFC 9112 §2.2).
            data = data.lstrip(b"\r\n")
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._pending = data
            if len(data) > MAX_HEAD_BYTES:
                self.reject(HeadFault(431, "the request head is too large"))
            elif data.startswith(_TLS_HANDSHAKE):
                # TLS clients do not show the response, so it is logged.
                log.info("TLS handshake on a port that serves plain HTTP", extra={"peer": self._peer})
                self.reject(HeadFault(400, "this port serves plain HTTP: use http:// in place of https://"))
            elif data and not data[:1].isalpha():
                # Not HTTP: reject it now rather than wait for the end of a head.
                self.reject(HeadFault(400, "the request head is malformed"))
            return
        end += 4
        if end > MAX_HEAD_BYTES:
            self.reject(HeadFault(431, "the request head is too large"))
            return
        self._pending = b""
        try:
            head = RequestHead(data, end)
            body = head.body()
        except HeadRejected as rejected:
            self.reject(rejected.fault)
            return
        request = Request(
            head.method,
            head.path,
            head.query,
            head.headers,
            body,
            self._scheme,
            self._peer,
            self._connections.request_ids.next(),
            self._tls_version,
            self._may_wait,
        )
        self._request = request
        self._responder.begin(
            keep_alive=head.keep_alive and not self._connections.draining, version_1_0=head.version_1_0
        )
        if body.finished:
            self._body = None
            if len(data) > end:
                self._buffer_pending(data[end:])
        else:
            self._body = body
            if body.chunked:
                self._chunks = ChunkDecoder()
            body.attach(self._responder.send_continue if head.expects_continue else None, self._resume_reading)
            if len(data) > end:
                self._feed_body(data[end:])
        start_eagerly(self._respond(request), self._loop)

    def _feed_body(self, data: bytes) -> None:
        body = self._body
        assert body is not None  # noqa: S101  # callers have checked
        if self._chunks is not None:
            self._feed_chunks(self._chunks, body, data)
            return
        assert body.length is not None  # noqa: S101  # a body that is not chunked has a length
        missing = body.length - body.received
        if len(data) >= missing:
            self._body = None
            if len(data) > missing:
                self._buffer_pending(data[missing:])
                data = data[:missing]
            body.push(data)
            body.finish()
            return
        if missing - len(data) > _SCRATCH_BYTES:
            self._fill_buffers(missing, data)
            return
        body.push(data)
        if body.is_full:
            self._pause_reading()

    def _feed_chunks(self, chunks: ChunkDecoder, body: RequestBody, data: bytes) -> None:
        try:
            pieces, used = chunks.feed(data)
        except MalformedChunks:
            # All following bytes are treated as part of this body and discarded.
            self._body = self._chunks = None
            body.abort()
            return
        if pieces:
            # Joined: the limit counts pieces, and a chunk can be a single byte.
            body.push(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if chunks.is_done:
            self._body = self._chunks = None
            self._buffer_pending(data[used:])
            body.finish()
        elif body.is_full:
            self._pause_reading()

    def _fill_buffers(self, missing: int, data: bytes) -> None:
        # The received bytes go into the first buffer, so that all buffers but the last hold whole pages of the body,
        # which can be written to disk without copying.
        self._start_fill(missing)
        while data and self._fill is not None:
            count = min(len(data), len(self._fill) - self._fill_used)
            self._fill[self._fill_used : self._fill_used + count] = data[:count]
            self._fill_used += count
            data = data[count:]
            if self._fill_used == len(self._fill):
                self._push_fill()

    def _start_fill(self, missing: int) -> None:
        self._fill = BODY_BUFFERS.take()[: min(missing, CHUNK_BYTES)]
        self._fill_used = 0

    def _push_fill(self) -> None:
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

    # -- responding -----------------------------------------------------------------------------------------------

    async def _respond(self, request: Request) -> None:
        """Respond to one request. Raises nothing but cancellation, since nothing awaits it."""
        try:
            response = await self._application(request)
        except Exception:
            log.exception("request handler failed", extra={"request_id": request.request_id})
            response = self._crash_response(request)
        except BaseException:
            # The server stops, or the handler awaited a cancelled future: there will be no response.
            self._give_up()
            if request.record is not None:
                request.record.end(request, None)
            raise
        if request.record is not None:
            request.record.response_ready()
        if not request.body.finished and not self._can_skip(request.body):
            self._responder.keep_alive = False
        is_head = request.method == "HEAD"
        try:
            if response.files or response.stream is not None:
                await self._responder.send_long(response, is_head=is_head)
            else:
                self._responder.send_now(response, is_head=is_head)
                if self._responder.is_blocked:
                    await self._responder.drained()
        except ConnectionError:
            self._give_up()
        except Exception:
            log.exception("sending the response failed", extra={"request_id": request.request_id})
            response = self._replace_response(request) or response
        except BaseException:
            self._give_up()
            raise
        finally:
            if request.record is not None:
                request.record.end(request, response, self._responder.sent_bytes)
        self._finish(request)

    def _crash_response(self, request: Request) -> Response:
        response = self._rejecter(HeadFault(500, "internal error; please try again"), request.request_id)
        response.close = True
        return response

    def _replace_response(self, request: Request) -> Response | None:
        """Send an error in place of a failed response; None, after closing, if part of that was already sent."""
        if self._responder.started or self._transport.is_closing():
            # The body does not match the head that was sent: only closing the connection shows this to the client.
            self._give_up()
            return None
        self._responder.keep_alive = False
        response = self._crash_response(request)
        self._responder.send_now(response)
        return response

    def _give_up(self) -> None:
        self._closing = True
        self._transport.abort()

    def _finish(self, request: Request) -> None:
        """Continue with the next request after a response, or close the connection."""
        self.last_activity = self._now()
        self._request = None
        if self._closing:
            self._transport.close()
            return
        if not self._responder.keep_alive or (self._eof and not self._pending):
            if request.body.finished or self._eof:
                self._transport.close()
            else:
                self._linger()
            return
        if not request.body.finished:
            assert request.body.length is not None  # noqa: S101  # checked by `_can_skip`
            self._skip_left = request.body.length - request.body.received
            self._body = None
        if self._pending:
            # In the next iteration: a client that pipelines many requests must not starve the others.
            self._pending_is_due = True
            self._loop.call_soon(self._next_pending)
        else:
            self._resume_reading()

    def _next_pending(self) -> None:
        self._pending_is_due = False
        if self._closing:
            return
        data, self._pending = self._pending, b""
        self._feed_head(data)
        if self._eof and self._request is None and not self._pending_is_due:
            # The remaining bytes are not a complete request.
            self._transport.close()
        elif len(self._pending) <= MAX_PENDING_BYTES and (self._body is None or not self._body.is_full):
            self._resume_reading()

    def _can_skip(self, body: RequestBody) -> bool:
        """Whether so little of an unread body is missing that the connection can stay open."""
        if body.length is None or body.awaits_continue or self._fill is not None or self._eof:
            return False
        return body.length - body.received <= SKIP_BYTES

    def _skip(self, data: bytes) -> None:
        skipped = min(self._skip_left, len(data))
        self._skip_left -= skipped
        if skipped < len(data):
            self._feed_head(data[skipped:])

    def _linger(self) -> None:
        """Discard the rest of the body so that the client reads the response, then close (lingering close)."""
        self._fill = None
        self._body = None
        self._chunks = None
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

    def reject(self, fault: HeadFault) -> None:
        """Respond to a rejected head or connection, and close: the start of the next request is unknown."""
        self._responder.begin(keep_alive=False, version_1_0=False)
        self._responder.send_now(self._rejecter(fault, self._connections.request_ids.next()))
        self._linger()

    # -- flow control and shutdown --------------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    def _may_wait(self) -> bool:
        """Whether a long poll may continue: the client is connected, and the server does not stop."""
        return not (self._eof or self._closing or self._connections.draining)

    def is_stalled(self, since: float) -> bool:
        """Whether the client has made no progress since then: no request, no more of a body, no bytes read.

        Called periodically: reading of buffered bytes shows only as a smaller write buffer.
        """
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent = unsent
            self.last_activity = self._now()
        if self.last_activity >= since or self._responder.last_progress >= since:
            return False
        request = self._request
        return request is None or request.body.is_awaited or self._responder.is_blocked

    @property
    def is_lingering(self) -> bool:
        """Whether the response was sent, and the rest of the request is being discarded."""
        return self._discarding

    @property
    def is_idle(self) -> bool:
        """Whether no request is being handled."""
        return self._request is None

    def close_when_idle(self) -> None:
        """Close the connection: now if it is idle, otherwise after the response."""
        self._responder.keep_alive = False
        if self.is_idle:
            self._transport.close()

    def abort(self) -> None:
        """Abort the connection."""
        self._transport.abort()


def tune_socket(connection: socket.socket) -> None:
    """Set buffer sizes for large bodies and many slow clients; disable Nagle's algorithm."""
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 * 1024)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
