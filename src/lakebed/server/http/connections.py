"""The HTTP connections of one worker: opened from passed descriptors, closed when idle, drained at shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from lakebed.core.ids import RequestIds
from lakebed.wire.http.message import HeadFault, Rejecter
from lakebed.wire.http.protocol import Application, HttpProtocol, tune_socket

log = logging.getLogger("lakebed.server")

IDLE_SECONDS: Final = 120.0
"""Closes connections without any traffic for so long: idle ones, and clients that stopped in the middle."""

LINGER_SECONDS: Final = 10.0
"""How long a client may take to close its connection after the last response."""

HANDSHAKE_SECONDS: Final = 60.0
"""How long a client may take to start TLS."""

_WATCH_SECONDS: Final = 5.0


class ListenerApp(NamedTuple):
    """The application of one listener, and its response to unreadable request heads."""

    application: Application
    reject: Rejecter


class WorkerConnections:
    """All connections of this worker. Implements `ConnectionSet`."""

    def __init__(
        self,
        apps: Mapping[bytes, ListenerApp],
        *,
        limit: int,
        tls: ssl.SSLContext | None = None,
        report: Callable[[float], None] | None = None,
    ) -> None:
        """Serve up to `limit` connections; `report` is called with their number whenever it changes.

        `apps` are by the marks of the listeners' connections.
        """
        self.request_ids = RequestIds()
        self.draining = False
        self._apps = apps
        self._limit = limit
        self._tls = tls
        self._report = report
        self._open: set[HttpProtocol] = set()
        self._turned_away: set[HttpProtocol] = set()
        self._misdirected: set[HttpProtocol] = set()
        """Plain HTTP connections to a server with TLS."""
        self._empty = asyncio.Event()
        self._empty.set()
        self._opening: set[asyncio.Task[None]] = set()

    def adopt(self, connection: socket.socket, mark: bytes) -> None:
        """Serve a connection that the listener with this mark accepted."""
        if self.draining:
            connection.close()
            return
        task = asyncio.get_running_loop().create_task(self._adopt(connection, self._apps[mark]))
        self._opening.add(task)

        def adopted(task: asyncio.Task[None]) -> None:
            self._opening.discard(task)
            if task.cancelled():
                connection.close()

        task.add_done_callback(adopted)

    def use_certificate(self, tls: ssl.SSLContext) -> None:
        """Use this TLS context for new connections; open ones keep theirs."""
        self._tls = tls

    async def _adopt(self, connection: socket.socket, app: ListenerApp) -> None:
        loop = asyncio.get_running_loop()
        try:
            tune_socket(connection)
            tls = self._tls
            if tls is not None and await _speaks_plain_http(connection):
                log.info("plain HTTP request on a port that serves HTTPS", extra={"peer": _host_of(connection)})
                tls = None
            protocol = partial(self._protocol, app, has_tls=tls is not None)
            await loop.connect_accepted_socket(protocol, connection, ssl=tls)
        except (OSError, ssl.SSLError) as error:
            log.debug("connection failed to open", exc_info=error)
            connection.close()

    def _protocol(self, app: ListenerApp, *, has_tls: bool) -> HttpProtocol:
        protocol = HttpProtocol(app.application, app.reject, self, secure=has_tls)
        if self._tls is not None and not has_tls:
            self._misdirected.add(protocol)
        return protocol

    def opened(self, connection: HttpProtocol) -> None:
        """Register a new connection. Above the limit it gets a 503 and is closed."""
        self._open.add(connection)
        self._empty.clear()
        self._report_count()
        if connection in self._misdirected:
            # Before it is read: a server with TLS serves nothing over plain HTTP.
            self._turned_away.add(connection)
            connection.reject(HeadFault(400, "this port expects HTTPS: use https:// in place of http://"))
        elif self.draining:
            connection.close_when_idle()
        elif len(self._open) - len(self._turned_away) > self._limit:
            self._turn_away(connection)

    def closed(self, connection: HttpProtocol) -> None:
        """Unregister a closed connection."""
        self._open.discard(connection)
        self._turned_away.discard(connection)
        self._misdirected.discard(connection)
        self._report_count()
        if not self._open:
            self._empty.set()

    def _turn_away(self, connection: HttpProtocol) -> None:
        if len(self._turned_away) >= self._limit:
            # So many that even the 503 responses cost too much.
            connection.abort()
            return
        self._turned_away.add(connection)
        connection.reject(HeadFault(503, "too many connections; please try again"))

    def _report_count(self) -> None:
        if self._report is not None:
            self._report(float(len(self._open)))

    @property
    def count(self) -> int:
        """The number of open connections."""
        return len(self._open)

    async def watch(self) -> None:
        """Close idle connections, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            self.close_stalled(loop.time())

    def close_stalled(self, now: float) -> None:
        """Close the connections whose client was inactive for too long before `now`."""
        for connection in list(self._open):
            patience = LINGER_SECONDS if connection.is_lingering else IDLE_SECONDS
            if connection.is_stalled(now - patience):
                connection.abort()

    async def drain(self, grace_seconds: float) -> None:
        """Let requests in flight finish, then close all connections."""
        self.draining = True
        for task in self._opening:
            task.cancel()
        for connection in list(self._open):
            connection.close_when_idle()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._empty.wait()
        except TimeoutError:
            log.warning("shutdown grace exceeded, closing connections", extra={"connections": len(self._open)})
            for connection in list(self._open):
                connection.abort()


async def _speaks_plain_http(connection: socket.socket) -> bool:
    """Whether the client begins with a letter, as HTTP methods do and TLS records do not. Consumes nothing.

    Raises TimeoutError for a client that sends nothing, after the time of the TLS handshake.
    """
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(connection, arrived.set)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await arrived.wait()
    finally:
        loop.remove_reader(connection)
    return connection.recv(1, socket.MSG_PEEK).isalpha()


def _host_of(connection: socket.socket) -> str:
    peer = connection.getpeername()
    return str(peer[0]) if isinstance(peer, tuple) else ""
