"""The client of stream server administration: leader, servers, stranded buckets, and forgetting lost servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lakebed.core.sigv4 import encode_segment

from ..connection import ServerConnection

__all__ = ["ForgottenServer", "StrandedBucket", "StreamLeader", "StreamServer", "StreamServers", "StreamStatus"]

_BASE: Final = "/lakebed/v1/streams"


class StreamLeader(msgspec.Struct, frozen=True, rename="kebab"):
    """The leader of all buckets."""

    server: str
    number: int
    address: str
    epoch: int


class StreamServer(msgspec.Struct, frozen=True, rename="kebab"):
    """A tablet server, as it last reported."""

    server: str
    number: int
    address: str
    is_running: bool
    last_seen_ms: int
    ack_after_upload: bool
    failure: str | None = None


class StrandedBucket(msgspec.Struct, frozen=True, rename="kebab"):
    """A bucket with acknowledged records that exist only on the disk of an absent leader."""

    database: str
    table: str
    bucket: int
    server: str
    reason: str
    partition: str | None = None
    uploaded_end: int | None = None
    """Records from this offset on exist only on that disk; None if not recorded."""
    recorded_end: int | None = None
    """The records end at or after this offset."""


class StreamStatus(msgspec.Struct, frozen=True, rename="kebab"):
    """Leader, servers and stranded buckets."""

    servers: Sequence[StreamServer]
    stranded: Sequence[StrandedBucket]
    leader: StreamLeader | None = None


class ForgottenServer(msgspec.Struct, frozen=True, rename="kebab"):
    """A forgotten server, and the buckets that continue without its records."""

    server: str
    buckets: Sequence[StrandedBucket]


class StreamServers:
    """The stream server API."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def status(self) -> StreamStatus:
        """The leader, all servers, and the stranded buckets."""
        return self._connection.read(StreamStatus, "GET", f"{_BASE}/status")

    def forget(self, server: str) -> ForgottenServer:
        """Give up records that exist only on a lost server's disk. Raises NotFound, CommitConflict while it runs."""
        path = f"{_BASE}/servers/{encode_segment(server)}/forget"
        return self._connection.read(ForgottenServer, "POST", path)
