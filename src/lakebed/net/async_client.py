"""The async HTTP client, with keep-alive connections, for one event loop.

A request on a kept connection costs no task, lock or timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult

import httptools

from lakebed.core.errors import Unavailable

from .async_connection import HttpConnection, message_of
from .http import (
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

_SYSTEM: Final = TlsFiles()
_CLOSE_SECONDS: Final = 1.0

_Origin = tuple[str, str, bool]
_FAILURES: Final = (
    OSError,
    EOFError,
    UnicodeError,
    httptools.HttpParserError,
    httptools.HttpParserUpgrade,
    ResponseTooLong,
    Unsendable,
)


class AsyncHttpClient:
    """Sends requests to any number of servers. Implements `Http`."""

    def __init__(
        self,
        tls: TlsFiles = _SYSTEM,
        *,
        max_idle: int = 32,
        idle_seconds: float = 30.0,
        max_concurrency: int | None = None,
        connect_timeout_seconds: float | None = None,
        resends: bool = False,
        link_local: bool = True,
    ) -> None:
        """Connects lazily. All limits are per server.

        Keeps `max_idle` connections for up to `idle_seconds`. Requests above `max_concurrency` wait, within their
        timeout. `resends`: repeats a request whose kept connection the server closed; for idempotent requests only.
        Without `link_local`, rejects names that resolve to a link-local address (169.254.0.0/16, fe80::/10), where
        clouds serve instance credentials.
        """
        self._tls = TlsContexts(tls)
        self._max_idle = max_idle
        self._idle_seconds = idle_seconds
        self._max_concurrency = max_concurrency
        self._connect_timeout_seconds = connect_timeout_seconds
        self._resends = resends
        self._link_local = link_local
        self._idle: dict[_Origin, list[HttpConnection]] = {}
        self._limits: dict[_Origin, asyncio.Semaphore] = {}
        self._is_closed = False

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """The response. Raises Unavailable when none arrives, InvalidSetting when the request cannot be sent."""
        try:
            return await self.send(request)
        except HttpFailure as failure:
            raise unavailable(failure) from None

    async def send(self, request: HttpRequest) -> HttpResponse:
        """The response. Raises HttpFailure; Unavailable if the client is closed or the TLS files cannot be used."""
        if self._is_closed:
            raise Unavailable("the HTTP client is closed")
        destination = split_url(request.url)
        origin = destination.scheme, destination.netloc, request.through_proxy
        deadline = asyncio.get_running_loop().time() + request.timeout_seconds
        limit = None
        is_sent = False
        try:
            message = message_of(request, destination)
            if self._max_concurrency is not None:
                limit = await self._acquire_limit(origin, deadline)
            connection = self._take(origin)
            while connection is not None:
                is_sent = True
                try:
                    return await self._exchange(connection, origin, request, message, deadline)
                except (OSError, EOFError) as error:
                    if not self._resends or connection.has_begun or isinstance(error, TimeoutError):
                        raise
                    connection = self._take(origin)
            connection = await self._connect(destination, deadline, through_proxy=request.through_proxy)
            is_sent = True
            return await self._exchange(connection, origin, request, message, deadline)
        except _FAILURES as error:
            raise HttpFailure(request, error, is_sent=is_sent) from error
        finally:
            if limit is not None:
                limit.release()

    async def close(self) -> None:
        """Close the idle connections; those in use are closed after their response. Idempotent."""
        self._is_closed = True
        idle = [connection for connections in self._idle.values() for connection in connections]
        self._idle.clear()
        for connection in idle:
            connection.close()
        if idle:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    for connection in idle:
                        await connection.wait_closed()

    # -- connections ------------------------------------------------------------------------------------------------

    async def _acquire_limit(self, origin: _Origin, deadline: float) -> asyncio.Semaphore:
        limit = self._limits.get(origin)
        if limit is None:
            limit = self._limits[origin] = asyncio.Semaphore(self._max_concurrency or 1)
        if limit.locked():
            async with asyncio.timeout_at(deadline):
                await limit.acquire()
        else:
            await limit.acquire()
        return limit

    def _take(self, origin: _Origin) -> HttpConnection | None:
        """A kept connection that this side believes to be open."""
        idle = self._idle.get(origin)
        if not idle:
            return None
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if now - connection.used_at < self._idle_seconds and connection.is_usable:
                return connection
            connection.close()
        return None

    async def _exchange(
        self, connection: HttpConnection, origin: _Origin, request: HttpRequest, message: bytes, deadline: float
    ) -> HttpResponse:
        try:
            return await connection.exchange(request.method, message, request.max_response_bytes, deadline)
        finally:
            idle = self._idle.setdefault(origin, [])
            if connection.is_usable and not self._is_closed and len(idle) < self._max_idle:
                connection.used_at = asyncio.get_running_loop().time()
                idle.append(connection)
            else:
                connection.close()

    async def _connect(self, destination: UrlParts, deadline: float, *, through_proxy: bool) -> HttpConnection:
        if self._connect_timeout_seconds is not None:
            deadline = min(deadline, asyncio.get_running_loop().time() + self._connect_timeout_seconds)
        async with asyncio.timeout_at(deadline):
            if destination.scheme == "http":
                return await self._open(destination, None)
            context = self._tls.current()
            if context is None:
                # Off the loop: reading the CA certificates takes milliseconds.
                context = await asyncio.to_thread(self._tls.load)
            proxy = proxy_for(destination.host) if through_proxy else None
            if proxy is not None:
                return await _open_tunneled(destination, proxy, context, deadline)
            return await self._open(destination, context)

    async def _open(self, destination: UrlParts, context: ssl.SSLContext | None) -> HttpConnection:
        host, port = destination.host, destination.port
        server_name = host if context is not None else None
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        for address in [host] if self._link_local else await _resolved(host, port):
            try:
                made = loop.create_connection(HttpConnection, address, port, ssl=context, server_hostname=server_name)
                return (await made)[1]
            except OSError as error:
                failure = error
        raise failure or ConnectionRefusedError("the host name resolves to no address")


async def _open_tunneled(
    destination: UrlParts, proxy: SplitResult, context: ssl.SSLContext, deadline: float
) -> HttpConnection:
    loop = asyncio.get_running_loop()
    _, outside = await loop.create_connection(HttpConnection, proxy.hostname or "", proxy.port or 8080)
    try:
        where = f"{destination.host}:{destination.port}"
        tunnel = await outside.open_tunnel(where, proxy_authorization(proxy), deadline)
        if tunnel is None:
            raise Unavailable(f"the proxy refused the connection. host={destination.host}")
        inside = HttpConnection()
        secured = await loop.start_tls(tunnel, inside, context, server_hostname=destination.host)
        if secured is None:
            raise EOFError
    except BaseException:
        outside.close()
        raise
    inside.connection_made(secured)
    return inside


async def _resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a host; without link-local ones, unless the host is such an address itself."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    allowed = [address for address in addresses if address == host or not _is_link_local(address)]
    if addresses and not allowed:
        raise ConnectionRefusedError("the host name resolves to a link-local address")
    return allowed


def _is_link_local(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return ip_address(address.partition("%")[0]).is_link_local
    return False
