"""Settings of streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..sizes import KIB, MIB
from .address import HostPort
from .kinds import BYTES, SECONDS, Within


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """Log tables and primary-key tables, served to Apache Fluss clients by a process of their own."""

    listen: HostPort | None = None
    """Listening address. Not set: streams are disabled."""

    advertise: HostPort | None = None
    """The address by which clients reach this server. Not set: clients of this server stay on the host that they
    connected to; other servers send clients to the host of `listen`, or to this machine's name if `listen` is every
    interface."""

    max_connections: Annotated[int, Within(1)] = 1024
    """Maximum number of open connections. Unauthenticated connections are at most half of them, and the oldest is
    closed when another arrives; further authenticated connections are closed at once."""

    max_frame: Annotated[int, BYTES, Within(64 * KIB, 1024 * MIB)] = 32 * MIB
    """Largest request. By default clients send no more than 10 MiB."""

    lease: Annotated[float, SECONDS, Within(1, 600)] = 15.0
    """Time without a renewal after which another server becomes the leader."""

    scan_ttl: Annotated[float, SECONDS, Within(1, 86_400)] = 600.0
    """Time after which an idle KV scanner expires: its client may have died."""

    ack_after_upload: bool | None = None
    """Acknowledge records only once the object store has them, so that none is lost with this machine. Each group of
    appends then waits for an upload; without it records are on this server's disk alone until their segment is sealed,
    and no other server serves their bucket. Not set: on with PostgreSQL, which several servers can share; off with
    SQLite."""

    segment: Annotated[int, BYTES, Within(64 * KIB, 1536 * MIB)] = 1024 * MIB
    """Size at which a log segment is sealed and uploaded to the object store."""

    upload_on_stop: bool = False
    """On a regular stop, upload the records that only this server's disk has, so that another server can continue at
    once. Useful where `ack_after_upload` is off."""

    warehouse: str | None = None
    """The table bucket into which the pipeline tiers stream tables with `table.datalake.enabled`, within the freshness
    of each. Not set: they wait for a tiering service that requests them."""

    remote_address: str | None = None
    """Where clients read remote segments and KV snapshots directly: `s3://BUCKET/PREFIX` of the object store, which has
    to be S3. Not set: the server reads for them."""

    remote_role: str | None = None
    """ARN of the role whose temporary credentials clients get for that, restricted to the tables that they may read.
    Not set: they need their own access."""

    remote_sts_endpoint: str | None = None
    """STS endpoint for that role. Not set: the endpoint of the object store, or AWS's for its region."""
