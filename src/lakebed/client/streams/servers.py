"""The servers of streams: which one leads, what none can serve, and how a lost one is given up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lakebed.core.sigv4 import encode_segment

from ..connection import ServerConnection

__all__ = ["ForgottenServer", "StrandedBucket", "StreamLeader", "StreamServer", "StreamServers", "StreamStatus"]

_BASE: Final = "/lakebed/v1/streams"


class StreamLeader(msgspec.Struct, frozen=True, rename="kebab"):
    """The server that serves all buckets."""

    server: str
    number: int
    address: str
    epoch: int


class StreamServer(msgspec.Struct, frozen=True, rename="kebab"):
    """A server that serves streams, as it last reported."""

    server: str
    number: int
    address: str
    is_running: bool
    last_seen_ms: int
    ack_after_upload: bool
    failure: str | None = None


class StrandedBucket(msgspec.Struct, frozen=True, rename="kebab"):
    """A bucket of which one server's disk alone has acknowledged records."""

    database: str
    table: str
    bucket: int
    server: str
    reason: str
    partition: str | None = None
    uploaded_end: int | None = None
    """Records from this offset on are on that disk alone; None if it was not recorded."""
    recorded_end: int | None = None
    """They reached at least this far."""


class StreamStatus(msgspec.Struct, frozen=True, rename="kebab"):
    """How streams are."""

    servers: Sequence[StreamServer]
    stranded: Sequence[StrandedBucket]
    leader: StreamLeader | None = None


class ForgottenServer(msgspec.Struct, frozen=True, rename="kebab"):
    """A server that was given up, and the buckets that continue without its records."""

    server: str
    buckets: Sequence[StrandedBucket]


class StreamServers:
    """Servers of streams, over the wire."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def status(self) -> StreamStatus:
        """The leader, all servers, and the buckets that no server can serve."""
        return self._connection.read(StreamStatus, "GET", f"{_BASE}/status")

    def forget(self, server: str) -> ForgottenServer:
        """Give up the records that only a lost server's disk has. Raises NotFound, CommitConflict while it runs."""
        path = f"{_BASE}/servers/{encode_segment(server)}/forget"
        return self._connection.read(ForgottenServer, "POST", path)
