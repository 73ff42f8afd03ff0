"""One connection: heads are parsed, bodies are streamed, answers go out in order.

Small requests are the hot path. A handler is started inside the callback that received its head, and runs until it
first has to wait; most reads never do, so most requests cost neither a task nor a turn of the event loop.

Invariant: at most one handler runs on a connection; bytes of a following request wait in `_pending` until its answer
has been written. What may wait there is bounded, as is what waits for the reader of a body: beyond that the socket is
not read.
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
from .head import MAX_HEAD_BYTES, HeadRefused, RequestHead
from .message import HeadFault, Rejecter, Request, Response
from .responder import Responder

log = logging.getLogger("lakebed.http")

MAX_PENDING_BYTES: Final = 2 * MAX_HEAD_BYTES
"""How much a client may send ahead of our answers before reading from it pauses."""

SKIP_BYTES: Final = 64 * 1024
"""An unread body with no more than this to come is passed over, and the connection goes on."""

LINGER_BYTES: Final = 64 * 1024 * 1024
"""How much of an unread body is thrown away so that the client reads our answer before it sees a reset."""

_TLS_HANDSHAKE: Final = b"\x16\x03"
"""How a TLS client begins: a handshake record, of any version since 3.0."""

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
        """Keep the transport and note who is on the other side."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        tls = transport.get_extra_info("ssl_object")
        self._tls_version = "" if tls is None else tls.version() or ""
        self._responder = Responder(self._transport, zero_copy=self._scheme == "http")
        self._connections.opened(self)

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
        # TLS cannot be closed by half.
        return (self._request is not None or self._pending_is_due) and self._scheme == "http"

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a body's own buffer while a large body arrives, the shared one otherwise."""
        if self._fill is not None:
            return self._fill[self._fill_used :]
        return self._scratch_view

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived in the buffer that `get_buffer` gave."""
        if self._request is not None or not self._pending:
            # Not for every further byte of a head: it must be whole in time.
            self.last_activity = self._now()
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
        elif self._skip_left:
            self._skip(data)
        elif self._body is not None and not self._body.finished:
            self._feed_body(data)
        elif self._request is not None or self._pending_is_due or self._closing:
            self._keep(data)
        else:
            self._feed_head(self._pending + data if self._pending else data)

    def _keep(self, data: bytes) -> None:
        """Bytes of the next request, sent ahead of our answer."""
        self._pending += data
        if len(self._pending) > MAX_PENDING_BYTES:
            self._pause_reading()

    def _feed_head(self, data: bytes) -> None:
        if data[:1] in (b"\r", b"\n"):
            # Blank lines before a request are passed over (RFC 9112 §2.2).
            data = data.lstrip(b"\r\n")
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._pending = data
            if len(data) > MAX_HEAD_BYTES:
                self._refuse(HeadFault(431, "the request head is too large"))
            elif data.startswith(_TLS_HANDSHAKE):
                # Clients show no answer to this, only that the server does not speak TLS: the log has to say it.
                log.info("TLS handshake on a port that serves plain HTTP", extra={"peer": self._peer})
                self._refuse(HeadFault(400, "this port serves plain HTTP: use http:// in place of https://"))
            elif data and not data[:1].isalpha():
                # Noise: its end would never come.
                self._refuse(HeadFault(400, "the request head is malformed"))
            return
        end += 4
        if end > MAX_HEAD_BYTES:
            self._refuse(HeadFault(431, "the request head is too large"))
            return
        self._pending = b""
        try:
            head = RequestHead(data, end)
            body = head.body()
        except HeadRefused as refused:
            self._refuse(refused.fault)
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
                self._keep(data[end:])
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
        assert body is not None  # noqa: S101  # callers have checked; keeps the type checker honest
        if self._chunks is not None:
            self._feed_chunks(self._chunks, body, data)
            return
        assert body.length is not None  # noqa: S101  # a body that is not chunked has a length
        missing = body.length - body.received
        if len(data) >= missing:
            self._body = None
            if len(data) > missing:
                self._keep(data[missing:])
                data = data[:missing]
            body.push(data)
            body.finish()
            return
        if missing - len(data) > _SCRATCH_BYTES:
            self._begin_filling(missing, data)
            return
        body.push(data)
        if body.is_full:
            self._pause_reading()

    def _feed_chunks(self, chunks: ChunkDecoder, body: RequestBody, data: bytes) -> None:
        try:
            pieces, used = chunks.feed(data)
        except MalformedChunks:
            # Whatever follows is read as part of this body, and thrown away with it.
            self._body = self._chunks = None
            body.abort()
            return
        if pieces:
            # As one: what waits for the reader is counted in pieces, and chunks can be of a byte each.
            body.push(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if chunks.is_done:
            self._body = self._chunks = None
            self._keep(data[used:])
            body.finish()
        elif body.is_full:
            self._pause_reading()

    def _begin_filling(self, missing: int, data: bytes) -> None:
        # What is here goes into the first buffer, so that all buffers but the last hold whole pages of the body: those
        # a disk takes as they are.
        self._start_fill(missing)
        while data and self._fill is not None:
            count = min(len(data), len(self._fill) - self._fill_used)
            self._fill[self._fill_used : self._fill_used + count] = data[:count]
            self._fill_used += count
            data = data[count:]
            if self._fill_used == len(self._fill):
                self._hand_over_fill()

    def _start_fill(self, missing: int) -> None:
        self._fill = BODY_BUFFERS.take()[: min(missing, CHUNK_BYTES)]
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

    # -- answering ------------------------------------------------------------------------------------------------

    async def _respond(self, request: Request) -> None:
        """Answer one request. Never raises but for cancellation: nobody is there to take it."""
        try:
            response = await self._application(request)
        except Exception:
            log.exception("a handler failed", extra={"request_id": request.request_id})
            response = self._crash_answer(request)
        except BaseException:
            # The server ends, or the handler waited for something that was given up: nobody will answer.
            self._give_up()
            if request.record is not None:
                request.record.end(request, None)
            raise
        if request.record is not None:
            request.record.answer()
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
            log.exception("an answer could not be sent", extra={"request_id": request.request_id})
            response = self._cut_short(request) or response
        except BaseException:
            self._give_up()
            raise
        finally:
            if request.record is not None:
                request.record.end(request, response, self._responder.sent_bytes)
        self._finish(request)

    def _crash_answer(self, request: Request) -> Response:
        response = self._reject(HeadFault(500, "internal error; please try again"), request.request_id)
        response.close = True
        return response

    def _cut_short(self, request: Request) -> Response | None:
        """An answer broke: another one in its place if nothing of it was sent."""
        if self._responder.started or self._transport.is_closing():
            # Its head has promised a body that will not come: only the connection's end tells the client.
            self._give_up()
            return None
        self._responder.keep_alive = False
        answer = self._crash_answer(request)
        self._responder.send_now(answer)
        return answer

    def _give_up(self) -> None:
        self._closing = True
        self._transport.abort()

    def _finish(self, request: Request) -> None:
        """The answer has been written: go on with the next request, or end."""
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
            assert request.body.length is not None  # noqa: S101  # `_can_skip` has said so
            self._skip_left = request.body.length - request.body.received
            self._body = None
        if self._pending:
            # On the next turn: a client that sends many requests ahead must not starve the others.
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
            # What is left of the client's bytes is no request.
            self._transport.close()
        elif len(self._pending) <= MAX_PENDING_BYTES and (self._body is None or not self._body.is_full):
            self._resume_reading()

    def _can_skip(self, body: RequestBody) -> bool:
        """Whether so little of an unread body is to come, and surely comes, that the connection can go on behind it."""
        if body.length is None or body.awaits_continue or self._fill is not None or self._eof:
            return False
        return body.length - body.received <= SKIP_BYTES

    def _skip(self, data: bytes) -> None:
        skipped = min(self._skip_left, len(data))
        self._skip_left -= skipped
        if skipped < len(data):
            self._feed_head(data[skipped:])

    def _linger(self) -> None:
        """The client still sends what nobody will read: let it finish, so that it reads our answer, then close."""
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
        """Answer before anything was asked, and close."""
        self._refuse(fault)

    def _refuse(self, fault: HeadFault) -> None:
        """Answer a head that cannot be read, and close: where the next request begins is unknown."""
        self._send_fault(fault)
        self._linger()

    def _send_fault(self, fault: HeadFault) -> None:
        self._responder.begin(keep_alive=False, version_1_0=False)
        response = self._reject(fault, self._connections.request_ids.next())
        self._responder.send_now(response)

    # -- flow control and life ------------------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    def _may_wait(self) -> bool:
        """Whether somebody waits for an answer, and the server has the time for it."""
        return not (self._eof or self._closing or self._connections.draining)

    def is_stalled(self, since: float) -> bool:
        """Whether the other side has let us wait since then: for a request, for more of a body, or to take our bytes.

        To be asked from time to time: a client that takes what we have buffered shows only by what is left of it.
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
        """Whether all is said, and the other side is only let finish."""
        return self._discarding

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
