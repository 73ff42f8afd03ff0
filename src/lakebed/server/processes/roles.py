"""The roles of a server's processes, and the supervisor's record of each process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from lakebed.core.errors import LakebedError
from lakebed.core.settings import Settings

from ..events import delivery_process
from . import worker
from .child import ChildContext
from .responsiveness import Pulse


@dataclass(frozen=True, slots=True)
class ProcessRole:
    """The work of one kind of child."""

    title: str
    """Its name in `/health/ready` and in the log."""
    process_name: str
    """The process name in `ps` and `top`, of at most 15 characters."""
    run: Callable[[ChildContext], int]
    """Runs a child until it is stopped; returns its exit status."""
    died: str
    """The log message when one of its processes ends."""
    takes_connections: bool = False
    """Whether its processes serve HTTP connections. The server runs as long as one of these does."""
    listener: socket.socket | None = None
    """Bound by the supervisor, so that clients wait during a restart; the child itself accepts connections."""


@dataclass(slots=True)
class ChildProcess:
    """A child process."""

    role: ProcessRole
    number: int
    pid: int
    channel: socket.socket
    """The supervisor's end."""
    far_end: socket.socket
    """The child's end. Kept open, so that the supervisor can take back connections that the child did not receive."""
    started: float
    pulse: Pulse = field(default_factory=lambda: Pulse(0))
    ready: bool = False
    is_reported: bool = False
    """Whether its unresponsiveness was logged."""
    is_killed: bool = False
    failure: LakebedError | None = None
    crash: str = ""
    """The unexpected exception that ended it."""

    def close(self) -> None:
        """Close both ends of its channel."""
        self.channel.close()
        self.far_end.close()


def roles_of(settings: Settings, streams: socket.socket | None) -> tuple[ProcessRole, ...]:
    """The role of each process of a server, by process number."""
    works = ProcessRole(
        "workers", "lakebed-worker", worker.serve, "worker ended, restarting it", takes_connections=True
    )
    delivers = ProcessRole(
        "event delivery",
        "lakebed-events",
        delivery_process.serve,
        "event delivery process ended, restarting it",
    )
    roles = (*(works for _ in range(settings.server.workers)), delivers)
    if streams is None:
        return roles
    died = "streams process ended, restarting it"
    return (*roles, ProcessRole("streams", "lakebed-streams", _serve_streams, died, listener=streams))


def _serve_streams(context: ChildContext) -> int:
    # Here, because a server without streams does not need the extra's libraries.
    from ..streams import process

    return process.serve(context)
