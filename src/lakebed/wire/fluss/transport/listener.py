"""The connections of stream clients: taken from a listening socket, watched, and drained at the end."""

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
"""How long a client may be silent in the middle of a frame, or not take an answer. See `intake` for whole frames."""

STRANGER_SECONDS: Final = 30.0
"""How long a client may be connected before it has said who it is."""

IDLE_SECONDS: Final = 600.0
"""How long a connection may be open without a word on either side."""

MAX_HELD_BYTES: Final = 512 * 1024 * 1024
"""Of the frames of all connections."""

_WATCH_SECONDS: Final = 5.0


class FlussListener:
    """All connections of this process. Implements `connection.ConnectionSet`."""

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
        """`report` is told how many are open whenever that changes."""
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
        self._max_strangers = max(1, max_connections // 2)
        self._strangers: dict[FlussConnection, None] = {}  # in the order in which they came
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Take connections from now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: FlussConnection(self), sock=listener)

    def opened(self, connection: FlussConnection) -> bool:
        """A connection began; whether there is room for it."""
        is_full = len(self._open) >= self._max_connections or len(self._strangers) >= self._max_strangers
        if is_full and not self._make_way():
            log.warning("too many connections of stream clients", extra={"connections": len(self._open)})
            return False
        self._open.add(connection)
        self._strangers[connection] = None
        self._tell()
        return True

    def _make_way(self) -> bool:
        """End the oldest of those who have not said who they are and have asked nothing that is being answered.

        Every client is a stranger first. Were new ones refused instead, whoever opens connections and keeps silent
        would keep everybody out.
        """
        for stranger in self._strangers:
            if stranger.is_idle:
                log.warning("a stream client has not said in time who it is", extra={"connections": len(self._open)})
                stranger.abort()
                self.closed(stranger)
                return True
        return False

    def known(self, connection: FlussConnection) -> None:
        """It has said who it is."""
        self._strangers.pop(connection, None)

    def closed(self, connection: FlussConnection) -> None:
        """A connection ended."""
        self._open.discard(connection)
        self._strangers.pop(connection, None)
        self._tell()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def _tell(self) -> None:
        if self._report is not None:
            self._report(float(len(self._open)))

    async def watch(self) -> None:
        """End what the other side has forgotten, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            self.close_stalled(loop.time())

    def close_stalled(self, now: float) -> None:
        """End the connections whose other side has not moved for too long before `now`."""
        for connection in list(self._open):
            quiet = now - connection.last_activity
            is_stalled = quiet > STALLED_SECONDS and connection.awaits_client
            is_strange = connection in self._strangers and now - connection.opened_at > STRANGER_SECONDS
            if is_stalled or is_strange or connection.is_late(now):
                connection.abort()
            elif quiet > IDLE_SECONDS and connection.is_idle and not connection.is_held_back:
                connection.close()

    async def drain(self, grace_seconds: float) -> None:
        """Take no more, let what is under way be answered for a time, and close everything."""
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
    answer = pb.ApiVersionsResponse()
    for key in (API_VERSIONS, AUTHENTICATE):
        answer.api_versions.add(api_key=key, min_version=0, max_version=0)
    for call in calls:
        answer.api_versions.add(api_key=call.key, min_version=0, max_version=call.max_version)
    # Without a kind of server: this one is both.
    return answer.SerializeToString()
