"""Accepts connections of Fluss clients, closes stalled and idle ones, and drains them on shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Final

from lakebed.core.ids import RequestIds

from .. import messages_pb2 as pb
from ..calls import API_VERSIONS, AUTHENTICATE, AnyCall, call_table
from .connection import FlussConnection, Observe
from .frame_budget import FrameBudget
from .sasl import SaslAuthenticator

__all__ = ["FlussListener"]

log = logging.getLogger("lakebed.streams")

STALLED_SECONDS: Final = 60.0
"""Longest silence of a client in the middle of a frame or a response. `frame_reader` limits whole frames."""

AUTHENTICATION_SECONDS: Final = 30.0
"""Connections that do not authenticate within this time are closed."""

IDLE_SECONDS: Final = 600.0
"""Connections without calls for this time are closed."""

MAX_HELD_BYTES: Final = 512 * 1024 * 1024
"""Bytes of frames of all connections."""

_WATCH_SECONDS: Final = 5.0


class FlussListener:
    """All connections of this process. Implements `connection.FlussConnectionSet`."""

    def __init__(
        self,
        calls: Iterable[AnyCall],
        authenticator: SaslAuthenticator,
        *,
        max_connections: int,
        max_frame_bytes: int,
        observe: Observe,
        report: Callable[[float], None] | None = None,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        """`report` is called with the number of open connections when it changes."""
        self.calls = call_table(calls)
        self.versions = _versions(self.calls.values())
        self.authenticator = authenticator
        self.request_ids = RequestIds()
        self.max_frame_bytes = max_frame_bytes
        self.budget = FrameBudget(max_held_bytes)
        self.observe = observe
        self._max_connections = max_connections
        self._report = report
        self._open: set[FlussConnection] = set()
        self._max_unauthenticated = max(1, max_connections // 2)
        self._unauthenticated: dict[FlussConnection, None] = {}  # oldest first
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Accept connections."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: FlussConnection(self), sock=listener)

    def opened(self, connection: FlussConnection) -> bool:
        """Register a new connection; False if there are too many."""
        is_full = len(self._open) >= self._max_connections or len(self._unauthenticated) >= self._max_unauthenticated
        if is_full and not self._evict_unauthenticated():
            log.warning("too many stream connections, refused one", extra={"connections": len(self._open)})
            return False
        self._open.add(connection)
        self._unauthenticated[connection] = None
        self._report_count()
        return True

    def _evict_unauthenticated(self) -> bool:
        """Close the oldest idle connection that has not authenticated; False without one.

        Refusing new connections instead would let unauthenticated clients exhaust the connection limit.
        """
        for connection in self._unauthenticated:
            if connection.is_idle:
                log.warning("too many stream connections, closing an unauthenticated one")
                connection.abort()
                self.closed(connection)
                return True
        return False

    def authenticated(self, connection: FlussConnection) -> None:
        """Note that the client has authenticated."""
        self._unauthenticated.pop(connection, None)

    def closed(self, connection: FlussConnection) -> None:
        """Remove a closed connection."""
        self._open.discard(connection)
        self._unauthenticated.pop(connection, None)
        self._report_count()

    @property
    def count(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def _report_count(self) -> None:
        if self._report is not None:
            self._report(float(len(self._open)))

    async def watch(self) -> None:
        """Close stalled, unauthenticated and idle connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            self.close_stalled(loop.time())

    def close_stalled(self, now: float) -> None:
        """Close the connections that exceed a time limit at `now`."""
        for connection in list(self._open):
            idle = now - connection.last_activity
            is_stalled = idle > STALLED_SECONDS and connection.awaits_client
            is_unauthenticated = (
                connection in self._unauthenticated and now - connection.opened_at > AUTHENTICATION_SECONDS
            )
            if is_stalled or is_unauthenticated or connection.is_late(now):
                connection.abort()
            elif idle > IDLE_SECONDS and connection.is_idle and not connection.is_paused:
                connection.close()

    async def drain(self, grace_seconds: float) -> None:
        """Stop accepting connections, wait up to `grace_seconds` for calls in flight, and close all."""
        if self._server is not None:
            self._server.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        while loop.time() < deadline and any(not each.is_idle for each in self._open):  # noqa: ASYNC110 - once
            await asyncio.sleep(0.05)
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)


def _versions(calls: Iterable[AnyCall]) -> bytes:
    response = pb.ApiVersionsResponse()
    for key in (API_VERSIONS, AUTHENTICATE):
        response.api_versions.add(api_key=key, min_version=0, max_version=0)
    for call in calls:
        response.api_versions.add(api_key=call.key, min_version=0, max_version=call.max_version)
    # Without a server type: this server is coordinator and tablet server.
    return response.SerializeToString()
