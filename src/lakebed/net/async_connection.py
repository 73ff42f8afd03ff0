"""One HTTP/1.1 connection of the async client, which carries one request at a time.

An asyncio protocol instead of asyncio streams: the buffers, locks and timers of streams were a third of the cost of an
event delivery (ADR 28).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httptools

from .http import SAFE_METHODS, HttpRequest, HttpResponse, ResponseTooLong, Unsendable, UrlParts

_CONNECT: Final = "CONNECT"
_BODILESS: Final = frozenset({"HEAD", _CONNECT})
_NO_BODY: Final = frozenset({204, 304})
"""Methods and statuses whose responses have no body, whatever Content-Length says."""


class HttpConnection(asyncio.Protocol):
    """A client connection."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None  # Any: asyncio and uvloop have different transport classes, also for TLS
        self._waiter: asyncio.Future[HttpResponse] | None = None
        self._lost: asyncio.Future[None] | None = None
        self._parser: Any = None  # Any: httptools comes without types
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._is_finished = False
        self._is_lost = False
        self.used_at = 0.0
        self._begin("", 0)

    def _begin(self, method: str, limit: int) -> None:
        self._method, self._limit = method, limit
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._size = self._status = 0
        self._has_begun = self._has_head = False

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return not self._is_finished

    @property
    def has_begun(self) -> bool:
        """Whether any byte of the last response arrived."""
        return self._has_begun

    def close(self) -> None:
        """Close at once, without waiting for the TLS closing handshake."""
        self._is_finished = True
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the event loop has closed the socket. For one waiter, after `close`."""
        if self._transport is not None and not self._is_lost:
            self._lost = self._loop.create_future()
            await self._lost

    async def exchange(self, method: str, message: bytes, limit: int, deadline: float) -> HttpResponse:
        """The response to a message, of at most `limit` bytes.

        Raises OSError, TimeoutError, EOFError, ResponseTooLong, HttpParserError, HttpParserUpgrade.
        """
        self._begin(method, limit)
        self._parser = httptools.HttpResponseParser(self)
        waiter: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._waiter = waiter
        self._expect_until(deadline)
        self._transport.write(message)
        try:
            return await waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._waiter = None

    async def open_tunnel(self, where: str, headers: Mapping[str, str], deadline: float) -> asyncio.Transport | None:
        """Open a tunnel through a proxy with CONNECT: the transport for TLS; None if the proxy refuses.

        Raises as `exchange`.
        """
        lines = (
            f"{_CONNECT} {where} HTTP/1.1",
            f"Host: {where}",
            *(f"{name}: {value}" for name, value in headers.items()),
        )
        response = await self.exchange(_CONNECT, _joined(lines), 0, deadline)
        transport: asyncio.Transport = self._transport
        return transport if 200 <= response.status < 300 else None

    # -- called by asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open, or has TLS now."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """A part of the response arrived."""
        if self._waiter is None or self._waiter.done():
            # An unrequested response would be taken for that of the next request.
            self.close()
            return
        self._has_begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(error)

    def eof_received(self) -> None:
        """The server closes the connection: no other request may be sent before `connection_lost` is called."""
        self._is_finished = True

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._is_finished = self._is_lost = True
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if error is not None:
            self._fail(error)
        elif not self._has_head or "content-length" in self._headers or "transfer-encoding" in self._headers:
            self._fail(EOFError())
        else:
            self._complete()

    # -- called by the parser ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A response."""
        if self._waiter is None or self._waiter.done():
            # An unrequested response.
            self._is_finished = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the response."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.setdefault(key, text)
        if known is not text:
            self._headers[key] = f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """All headers."""
        self._has_head = True
        status = self._status = self._parser.get_status_code()
        if status in _NO_BODY or (self._method in _BODILESS and status >= 200):
            self._end_without_body()

    def on_body(self, piece: bytes) -> None:
        """A part of the body."""
        self._size += len(piece)
        if self._size > self._limit:
            self._fail(ResponseTooLong())
        else:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """The whole response."""
        if self._status < 200:
            # 100 Continue or 103 Early Hints: the response is still to come.
            self._headers.clear()
            self._has_head = False
            return
        # Here and not later: the parser resets it for the next response.
        if not self._parser.should_keep_alive():
            self._is_finished = True
        self._complete()

    def _end_without_body(self) -> None:
        """Complete a response without a body, although the parser may expect one."""
        stays_open = "close" not in self._headers.get("connection", "").lower()
        if self._method == _CONNECT or not stays_open or self._parser.get_http_version() != "1.1":
            self._is_finished = True
        self._limit = -1  # any body ends the connection
        self._complete()

    def _complete(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(HttpResponse(self._status, b"".join(self._pieces), self._headers))

    def _fail(self, error: BaseException) -> None:
        self._is_finished = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    # -- time -------------------------------------------------------------------------------------------------------

    def _expect_until(self, deadline: float) -> None:
        """Fail the request at the deadline. The timer survives a timely response and serves the next request."""
        self._deadline = deadline
        if self._timer is None or self._timer.when() > deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._loop.time() >= self._deadline:
            self._fail(TimeoutError())
        else:
            self._expect_until(self._deadline)


def message_of(request: HttpRequest, destination: UrlParts) -> bytes:
    """The bytes of a request. Raises Unsendable."""
    headers = request.headers
    lines = [f"{request.method} {destination.target} HTTP/1.1"]
    if "host" not in headers:
        lines.append(f"Host: {destination.netloc}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if request.body or request.method not in SAFE_METHODS:
        lines.append(f"Content-Length: {len(request.body)}")
    return _joined(lines) + request.body


def _joined(lines: Sequence[str]) -> bytes:
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise Unsendable
    try:
        return f"{text}\r\n\r\n".encode("latin-1")
    except UnicodeEncodeError:
        raise Unsendable from None
