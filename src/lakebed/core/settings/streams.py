"""The part of the tree that is about streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..sizes import KIB, MIB
from .address import Address
from .kinds import BYTES, SECONDS, Within


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """Log tables and primary-key tables, served to clients of Apache Fluss by a process of their own."""

    listen: Address | None = None
    """Where to serve them. Not set: they are not served."""

    advertise: Address | None = None
    """Where clients are told to come. Not set: to the address that they have reached."""

    max_connections: Annotated[int, Within(1)] = 1024
    """Connections open at once; more are closed at once."""

    max_frame: Annotated[int, BYTES, Within(64 * KIB, 1024 * MIB)] = 32 * MIB
    """Largest request. Clients send no more than 10 MiB unless told otherwise."""

    lease: Annotated[float, SECONDS, Within(1, 600)] = 15.0
    """How long a server that gives no sign of life is the home of streams; then another takes over."""
