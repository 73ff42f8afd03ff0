"""One HTTP/1.1 connection: a request is written, its answer is parsed as it comes, then the next.

Without asyncio's streams: an event is a request, and buffers, locks and timers of its own for each were a third of what
it cost to send one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httptools

from lakebed.core.errors import InvalidSetting, Unavailable

from .http import HttpRequest, HttpResponse

_HEAD: Final = "HEAD"
_CONNECT: Final = "CONNECT"
_WITHOUT_BODY: Final = frozenset({_HEAD, _CONNECT})
"""Their answers end with the headers, whatever length these tell; no other request follows on the connection."""


class Destination(NamedTuple):
    """Where requests to a URL go."""

    scheme: str
    host: str
    port: int
    netloc: str
    target: str
    """The path, with its query."""

    @property
    def origin(self) -> tuple[str, str]:
        """Whom connections are to."""
        return self.scheme, self.netloc


@lru_cache(maxsize=64)
def destination_of(url: str) -> Destination:
    """Where a URL leads."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    return Destination(
        parts.scheme, parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443), parts.netloc, target
    )


class HttpConnection(asyncio.Protocol):
    """A connection. One request at a time is on it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None  # Any: asyncio and uvloop have kinds of their own, also over TLS
        self._waiter: asyncio.Future[HttpResponse] | None = None
        self._parser: Any = None  # Any: httptools comes without types
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._is_over = False
        self.used_at = 0.0
        self._begin("", 0)

    def _begin(self, method: str, limit: int) -> None:
        self._method, self._limit = method, limit
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._has_begun = self._has_head = False

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return not self._is_over

    @property
    def has_heard(self) -> bool:
        """Whether something of the last answer came."""
        return self._has_begun

    def close(self) -> None:
        """At once: there is nothing more to say, and nobody to wait for."""
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()

    async def ask(self, request: HttpRequest, deadline: float) -> HttpResponse:
        """The answer. Raises OSError, TimeoutError and EOFError, Unavailable for one too long, HttpParserError."""
        return await self._exchange(request.method, _head(request) + request.body, request.max_answer_bytes, deadline)

    async def ask_for_tunnel(self, where: str, headers: Mapping[str, str], deadline: float) -> asyncio.Transport | None:
        """Have a proxy connect this with another place: what is to be secured then; None if it does not.

        Raises as `ask`.
        """
        lines = (
            f"{_CONNECT} {where} HTTP/1.1",
            f"Host: {where}",
            *(f"{name}: {value}" for name, value in headers.items()),
        )
        answer = await self._exchange(_CONNECT, _joined(lines, where), 0, deadline)
        transport: asyncio.Transport = self._transport
        return transport if 200 <= answer.status < 300 else None

    async def _exchange(self, method: str, message: bytes, limit: int, deadline: float) -> HttpResponse:
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

    # -- what asyncio calls -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there, or it is secured now."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Something of the answer came."""
        if self._waiter is None or self._waiter.done():
            # Nobody has asked: what it says next would be taken for the answer to another request.
            self.close()
            return
        self._has_begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        """The other side has gone, or we have."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if error is not None:
            self._fail(error)
        elif not self._has_head or "content-length" in self._headers or "transfer-encoding" in self._headers:
            self._fail(EOFError())
        else:
            self._complete()

    # -- what the parser calls ----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer."""
        if self._waiter is None or self._waiter.done():
            # One too many.
            self._is_over = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the answer."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All of them."""
        self._has_head = True
        if self._method in _WITHOUT_BODY:
            self._is_over = True
            self._complete()

    def on_body(self, piece: bytes) -> None:
        """A part of the body."""
        self._body += piece
        if len(self._body) > self._limit:
            self._fail(Unavailable(f"answer too long. maximum={self._limit}"))

    def on_message_complete(self) -> None:
        """The whole answer is there."""
        # Here and not later: the parser forgets it when it gets ready for the next answer.
        if not self._parser.should_keep_alive():
            self._is_over = True
        self._complete()

    def _complete(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(HttpResponse(self._parser.get_status_code(), bytes(self._body), self._headers))

    def _fail(self, error: BaseException) -> None:
        self._is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    # -- time ---------------------------------------------------------------------------------------------------

    def _expect_until(self, deadline: float) -> None:
        """Have the answer be late after that moment. A timer stays when the answer is in time, and serves the next."""
        self._deadline = deadline
        if self._timer is None or self._timer.when() > deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._loop.time() >= self._deadline:
            self._fail(TimeoutError())
        else:
            self._expect_until(self._deadline)


def _head(request: HttpRequest) -> bytes:
    place = destination_of(request.url)
    lines = [f"{request.method} {place.target} HTTP/1.1", f"Host: {place.netloc}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if request.method != _HEAD:
        lines.append(f"Content-Length: {len(request.body)}")
    return _joined(lines, place.host)


def _joined(lines: Sequence[str], host: str) -> bytes:
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
        raise InvalidSetting(f"a header or path that HTTP cannot carry. host={host}")
    return f"{text}\r\n\r\n".encode("latin-1")
