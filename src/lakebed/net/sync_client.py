"""The sync HTTP client, with keep-alive connections, for any number of threads.

Uses the standard library alone, so that the client package needs no other dependency.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from .http import (
    Http,
    HttpFailure,
    HttpRequest,
    HttpResponse,
    ResponseTooLong,
    Unsendable,
    UrlParts,
    split_url,
    unavailable,
)
from .proxy import proxy_authorization, proxy_for
from .tls import TlsContexts, TlsFiles

_PIECE_BYTES: Final = 256 * 1024
_UNSENDABLE: Final = re.compile(r"[\r\n\0\u0100-\U0010ffff]")
_SYSTEM: Final = TlsFiles()

_Origin = tuple[str, str, bool]
_FAILURES: Final = (OSError, UnicodeError, http.client.HTTPException, ResponseTooLong, Unsendable)


@dataclass(frozen=True, slots=True)
class StreamedResponse:
    """A response whose head has arrived."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterator[bytes]
    """The body as it arrives. Raises HttpFailure."""


class SyncHttpClient:
    """Sends requests. Safe for threads: each request has its own connection.

    Skips kept connections that the server has closed; never sends a request twice.
    """

    def __init__(
        self,
        tls: TlsFiles = _SYSTEM,
        *,
        max_idle: int = 0,
        idle_seconds: float = 60.0,
        connect_timeout_seconds: float | None = None,
    ) -> None:
        """Connects lazily. Keeps `max_idle` connections per server for up to `idle_seconds`.

        Without `connect_timeout_seconds`, connecting may take the request's own timeout.
        """
        self._tls = TlsContexts(tls)
        self._max_idle = max_idle
        self._idle_seconds = idle_seconds
        self._connect_timeout_seconds = connect_timeout_seconds
        self._idle: dict[_Origin, list[tuple[http.client.HTTPConnection, float]]] = {}
        self._lock = threading.Lock()

    def load_tls(self) -> None:
        """Read the TLS files now instead of at the first connection. Raises Unavailable if they are unusable."""
        self._tls.load()

    def send(self, request: HttpRequest) -> HttpResponse:
        """The response. Raises HttpFailure; Unavailable if the TLS files are unusable."""
        connection = self._connection(request)
        with _closing_on_failure(connection, request):
            response = _exchange(connection, request)
            body = response.read(request.max_response_bytes + 1)
            if len(body) > request.max_response_bytes:
                raise ResponseTooLong
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
        self._release(connection, request, response)
        return HttpResponse(response.status, body, _headers_of(response))

    @contextmanager
    def stream(self, request: HttpRequest) -> Iterator[StreamedResponse]:
        """The response with a streamed body. Leaving early closes the connection. Raises as `send`."""
        connection = self._connection(request)
        with _closing_on_failure(connection, request):
            response = _exchange(connection, request)
        is_whole = False

        def pieces() -> Iterator[bytes]:
            nonlocal is_whole
            while True:
                with _closing_on_failure(connection, request):
                    piece = response.read1(_PIECE_BYTES)
                    if not piece and response.length:
                        raise http.client.IncompleteRead(b"", response.length)
                if not piece:
                    is_whole = True
                    return
                yield piece

        try:
            yield StreamedResponse(response.status, _headers_of(response), pieces())
        finally:
            response.close()
            if is_whole:
                self._release(connection, request, response)
            else:
                connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection, _ in connections:
                connection.close()

    # -- connections ------------------------------------------------------------------------------------------------

    def _connection(self, request: HttpRequest) -> http.client.HTTPConnection:
        destination = split_url(request.url)
        _check_headers(request)
        return self._take(_origin(destination, request)) or self._open(destination, request)

    def _open(self, destination: UrlParts, request: HttpRequest) -> http.client.HTTPConnection:
        connection = None
        try:
            connection = self._unconnected(destination, request)
            connection.connect()
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            if connection is not None:
                connection.close()
            raise HttpFailure(request, error, is_sent=False) from error
        return connection

    def _unconnected(self, destination: UrlParts, request: HttpRequest) -> http.client.HTTPConnection:
        host, port = destination.host, destination.port
        timeout = self._connect_timeout_seconds or request.timeout_seconds
        if destination.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        context = self._tls.current() or self._tls.load()
        proxy = proxy_for(host) if request.through_proxy else None
        if proxy is None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        tunnel = http.client.HTTPSConnection(proxy.hostname or "", proxy.port or 8080, timeout=timeout, context=context)
        tunnel.set_tunnel(host, port, headers=proxy_authorization(proxy))
        return tunnel

    def _take(self, origin: _Origin) -> http.client.HTTPConnection | None:
        """A kept connection that the server has not closed, or None."""
        while True:
            with self._lock:
                idle = self._idle.get(origin)
                if not idle:
                    return None
                connection, since = idle.pop()
            if time.monotonic() - since < self._idle_seconds and _is_open(_socket_of(connection)):
                return connection
            connection.close()

    def _release(
        self, connection: http.client.HTTPConnection, request: HttpRequest, response: http.client.HTTPResponse
    ) -> None:
        if not response.will_close and self._max_idle:
            with self._lock:
                idle = self._idle.setdefault(_origin(split_url(request.url), request), [])
                if len(idle) < self._max_idle:
                    idle.append((connection, time.monotonic()))
                    return
        connection.close()


def threaded_http(ca_bundle: str | None = None, threads: Executor | None = None) -> Http:
    """An `Http` for callers in any event loop: sends each request in a thread, on a new connection.

    `ca_bundle` replaces the system's CA certificates, `threads` the event loop's default executor.
    """
    return in_threads(SyncHttpClient(TlsFiles(ca_bundle)), threads)


def in_threads(client: SyncHttpClient, threads: Executor | None = None) -> Http:
    """An `Http` that sends each request of a client in a thread."""

    async def send(request: HttpRequest) -> HttpResponse:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, client.send, request)
        except HttpFailure as failure:
            raise unavailable(failure) from None

    return send


def _check_headers(request: HttpRequest) -> None:
    """Raise for headers that HTTP cannot carry: the standard library accepts some of them."""
    text = "".join(part for header in request.headers.items() for part in header)
    if _UNSENDABLE.search(text):
        raise HttpFailure(request, Unsendable(), is_sent=False)


def _exchange(connection: http.client.HTTPConnection, request: HttpRequest) -> http.client.HTTPResponse:
    """Send the request, and read the head of its response."""
    _socket_of(connection).settimeout(request.timeout_seconds)
    target = split_url(request.url).target
    try:
        connection.request(request.method, target, body=request.body or None, headers=dict(request.headers))
    except ssl.SSLError:
        raise
    except ValueError:
        # Not chained: its message quotes the header, which may hold a token.
        raise Unsendable from None
    return connection.getresponse()


@contextmanager
def _closing_on_failure(connection: http.client.HTTPConnection, request: HttpRequest) -> Iterator[None]:
    """Close the connection after any failure: the rest of its response would be taken for the next one."""
    try:
        yield
    except _FAILURES as error:
        connection.close()
        raise HttpFailure(request, error, is_sent=True) from error
    except BaseException:
        connection.close()
        raise


def _origin(destination: UrlParts, request: HttpRequest) -> _Origin:
    return destination.scheme, destination.netloc, request.through_proxy


def _headers_of(response: http.client.HTTPResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


def _is_open(connection: socket.socket) -> bool:
    """Whether there is nothing to read: between requests, that could only be the end of the connection."""
    watch = select.poll()
    watch.register(connection, select.POLLIN)
    return not watch.poll(0)


def _socket_of(connection: http.client.HTTPConnection) -> socket.socket:
    found = connection.sock
    if not isinstance(found, socket.socket):
        raise RuntimeError("a connection without a socket")
    return found
