"""The roles of a server's processes, and its processes as the supervisor sees them."""

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
    """Its name for operators: in `/health/ready` and in the log."""
    process_name: str
    """The process name that `ps` and `top` show, in at most 15 characters."""
    run: Callable[[ChildContext], int]
    """Runs a child until it is stopped; returns its exit status."""
    died: str
    """The log message when one of its processes ends."""
    takes_connections: bool = False
    """Whether its processes are handed connections. The server runs as long as one of these does."""
    listener: socket.socket | None = None
    """Bound by the supervisor, so that clients wait while a child is replaced; the child itself accepts connections."""


@dataclass(slots=True)
class ChildProcess:
    """A child process."""

    role: ProcessRole
    number: int
    pid: int
    channel: socket.socket
    """The supervisor's end."""
    far_end: socket.socket
    """The child's end. Kept open, so that connections that the child did not take can be taken back."""
    started: float
    pulse: Pulse = field(default_factory=lambda: Pulse(0))
    ready: bool = False
    is_reported: bool = False
    """Whether it was logged that it does not respond."""
    is_killed: bool = False
    failure: LakebedError | None = None
    crash: str = ""
    """The exception that ended it, if that is none of ours."""

    def close(self) -> None:
        """Close both ends of its channel."""
        self.channel.close()
        self.far_end.close()


def roles_of(settings: Settings, streams: socket.socket | None) -> tuple[ProcessRole, ...]:
    """The role of each process of a server; the index is the number of the process."""
    works = ProcessRole(
        "workers", "lakebed-worker", worker.serve, "a worker died and is replaced", takes_connections=True
    )
    delivers = ProcessRole(
        "event delivery",
        "lakebed-events",
        delivery_process.serve,
        "the process that delivers events died and is replaced",
    )
    roles = (*(works for _ in range(settings.server.workers)), delivers)
    if streams is None:
        return roles
    died = "the process that serves streams died and is replaced"
    return (*roles, ProcessRole("streams", "lakebed-streams", _serve_streams, died, listener=streams))


def _serve_streams(context: ChildContext) -> int:
    # Here, because a server without streams does without the libraries that they need.
    from ..streams import process

    return process.serve(context)
