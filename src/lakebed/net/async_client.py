"""HTTP/1.1 connections to one server that are kept between requests.

A request that finds its kept connection closed by the other side is sent once more, on a fresh one: to receivers of
events a message that comes twice is nothing new. Redirects are never followed.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Final

import httptools

from lakebed.core.errors import Unavailable

from .async_connection import Destination, HttpConnection, destination_of
from .http import HttpRequest, HttpResponse, proxy_authorization, proxy_for
from .tls import Sight, TlsFiles, TlsWatch

log = logging.getLogger("lakebed.events")

_IDLE_SECONDS: Final = 30.0
_MOST_IDLE: Final = 32


_SYSTEM: Final = TlsFiles()


class AsyncHttpClient:
    """Sends requests, and keeps connections for the next. An `Http` of the seam that credentials have."""

    def __init__(self, tls: TlsFiles = _SYSTEM) -> None:
        self._tls = tls
        self._idle: dict[tuple[str, str], list[HttpConnection]] = {}
        self._context: ssl.SSLContext | None = None
        self._watch = TlsWatch(tls)
        self._is_closed = False

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        """The answer. Raises Unavailable when none came."""
        if self._is_closed:
            raise Unavailable("the target is closed")
        place = destination_of(request.url)
        deadline = asyncio.get_running_loop().time() + request.timeout_seconds
        try:
            kept = self._kept(place)
            while kept is not None:
                try:
                    return await self._ask(kept, place, request, deadline)
                except (OSError, EOFError) as error:
                    if kept.has_heard or isinstance(error, TimeoutError):
                        raise
                    kept = self._kept(place)
            async with asyncio.timeout_at(deadline):
                fresh = await self._connect(place, deadline, through_proxy=request.through_proxy)
            return await self._ask(fresh, place, request, deadline)
        except (OSError, EOFError, TimeoutError, ssl.SSLError, httptools.HttpParserError) as error:
            # Only the class is told: some of these errors quote what was sent or received.
            path = place.target.partition("?")[0]
            raise Unavailable(f"no answer. host={place.host} path={path} reason={_reason(error)}") from None

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        self._is_closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _kept(self, place: Destination) -> HttpConnection | None:
        now = asyncio.get_running_loop().time()
        idle = self._idle.get(place.origin, [])
        while idle:
            connection = idle.pop()
            if now - connection.used_at < _IDLE_SECONDS and connection.is_usable:
                return connection
            connection.close()
        return None

    async def _ask(
        self, connection: HttpConnection, place: Destination, request: HttpRequest, deadline: float
    ) -> HttpResponse:
        try:
            return await connection.ask(request, deadline)
        finally:
            idle = self._idle.setdefault(place.origin, [])
            if connection.is_usable and not self._is_closed and len(idle) < _MOST_IDLE:
                connection.used_at = asyncio.get_running_loop().time()
                idle.append(connection)
            else:
                connection.close()

    async def _connect(self, place: Destination, deadline: float, *, through_proxy: bool) -> HttpConnection:
        loop = asyncio.get_running_loop()
        if place.scheme == "http":
            return (await loop.create_connection(HttpConnection, place.host, place.port))[1]
        context = await self._secured()
        proxy = proxy_for(place.host) if through_proxy else None
        if proxy is None:
            made = loop.create_connection(
                HttpConnection, place.host, place.port, ssl=context, server_hostname=place.host
            )
            return (await made)[1]
        _, outside = await loop.create_connection(HttpConnection, proxy.hostname or "", proxy.port or 8080)
        try:
            where = f"{place.host}:{place.port}"
            tunnel = await outside.ask_for_tunnel(where, proxy_authorization(proxy), deadline)
            if tunnel is None:
                raise Unavailable(f"the proxy does not connect. host={place.host}")
            inside = HttpConnection()
            secured = await loop.start_tls(tunnel, inside, context, server_hostname=place.host)
            if secured is None:
                raise EOFError
        except BaseException:
            outside.close()
            raise
        inside.connection_made(secured)
        return inside

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


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused ({error.verify_message})"
    return type(error).__name__
