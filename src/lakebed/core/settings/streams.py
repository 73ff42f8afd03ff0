"""The part of the tree that is about streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..sizes import KIB, MIB
from .address import HostPort
from .kinds import BYTES, SECONDS, Within


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """Log tables and primary-key tables, served to clients of Apache Fluss by a process of their own."""

    listen: HostPort | None = None
    """Where to serve them. Not set: they are not served."""

    advertise: HostPort | None = None
    """The address by which clients and other servers reach this one. Not set: clients of this server stay at the host
    that they have reached; other servers send theirs to the host of `listen`, or to this machine's name where `listen`
    is every interface."""

    max_connections: Annotated[int, Within(1)] = 1024
    """Connections open at once. Half of them may be of clients that have not said who they are, of which the oldest is
    closed when another comes; of those that have, more are closed at once."""

    max_frame: Annotated[int, BYTES, Within(64 * KIB, 1024 * MIB)] = 32 * MIB
    """Largest request. Clients send no more than 10 MiB unless told otherwise."""

    lease: Annotated[float, SECONDS, Within(1, 600)] = 15.0
    """How long a server that gives no sign of life is the home of streams; then another takes over."""

    scan_ttl: Annotated[float, SECONDS, Within(1, 86_400)] = 600.0
    """How long the rows of a scan are held that its client does not go on with: it may have died."""

    ack_after_upload: bool | None = None
    """Acknowledge records only once the object store has them, so that none is lost with this machine. Each group of
    appends waits for an upload then; without it records are on this server's disk alone until their segment is sealed,
    and no other server serves their bucket. Not set: on with PostgreSQL, which several servers can share; off with
    SQLite."""

    segment: Annotated[int, BYTES, Within(64 * KIB, 1536 * MIB)] = 1024 * MIB
    """From which size on a part of a log is sealed, and goes to the byte store."""

    hand_over: bool = False
    """At a regular stop, upload what only this server's disk has, so that another server can continue at once. Of use
    where `ack_after_upload` is off."""

    warehouse: str | None = None
    """The table bucket into which the pipeline tiers stream tables that have `table.datalake.enabled`, as fresh as each
    says. Not set: they wait for a job that asks for them."""

    remote_address: str | None = None
    """Where clients read old segments and snapshots of keys themselves: `s3://BUCKET/PREFIX` of the byte store, which
    has to be S3 for that. Not set: the server reads for them."""

    remote_role: str | None = None
    """The role, by its ARN, whose temporary keys they get for it, confined to the tables that each may read. Not set:
    they need access of their own."""

    remote_sts_endpoint: str | None = None
    """Where that role is assumed. Not set: at the endpoint of the byte store, or that of AWS for its region."""
