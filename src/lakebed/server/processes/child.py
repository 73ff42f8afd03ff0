"""A child process of the server: what all of them have in common, whatever their role is.

A child has a loop, a place where it counts, and a channel to its supervisor. On the channel it says that it is ready,
or why it could not be; what comes the other way are connections, for roles that take them. It ends when it is told to,
or when the supervisor is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from lakebed.core import errors
from lakebed.core.errors import InvalidSetting, LakebedError
from lakebed.core.settings import Settings

from ..logs import set_log_level
from ..metrics import Metrics
from ..stores.identity import Identity
from .memory import settle_memory
from .process_table import ProcessTable
from .reloading import Reloaded, published, tls_context
from .responsiveness import BEAT_SECONDS

log = logging.getLogger("lakebed.server")

READY: Final = b"+"
"""What a child says to the supervisor when it can do its work; what follows is why it ended."""

CRASHED: Final = b"!"
"""What it says before the words of an error that is not ours."""

CONNECTION: Final = b"C"
"""What comes with the descriptor of a connection that `server.listen` accepted."""

CATALOG_CONNECTION: Final = b"A"
"""What comes with the descriptor of a connection that `server.catalog_listen` accepted."""

DESCRIPTORS_A_MESSAGE: Final = 16
"""The most descriptors, and bytes, of one read from a channel."""

_FAILURE_BYTES: Final = 8192

Adopt = Callable[[socket.socket, bytes], None]
"""Takes a connection that the supervisor accepted, and the mark of the listener: CONNECTION or CATALOG_CONNECTION."""


@dataclass(frozen=True, slots=True)
class ChildContext:
    """What a child is given for its life."""

    settings: Settings
    identity: Identity
    number: int
    """No other child has it at the same time. Its successor has it after it, and goes on with what it counted."""
    channel: socket.socket
    run_folder: str
    """Made anew for each run of a server, and gone with it."""
    processes: ProcessTable
    """State and heartbeats of all processes of the server."""
    reloaded: Reloaded
    """The values of the last reload before this child was started."""
    certificate: ssl.SSLContext | None = None
    """The TLS context of new connections; None for plain HTTP."""
    listener: socket.socket | None = None
    """What a role takes connections from itself, where its role has a port of its own."""

    @property
    def server(self) -> str:
        """A name for this run of this server, among all servers that share a store."""
        return f"{socket.gethostname()}:{Path(self.run_folder).name}"


class Child:
    """A child process, as its role sees it from inside."""

    def __init__(self, context: ChildContext, metrics: Metrics) -> None:
        self.context = context
        self.metrics = metrics
        self._stop = asyncio.Event()
        self._certificate = context.reloaded.certificate
        self._use_certificate: Callable[[ssl.SSLContext], None] | None = None
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        self._beat()
        # A signal that came before the handler was ignored.
        self._reload()

    def when_certificate_changes(self, use: Callable[[ssl.SSLContext], None]) -> None:
        """Have `use` called with each certificate that replaces the one of the context."""
        self._use_certificate = use
        self._reload()

    def _beat(self) -> None:
        """Count a heartbeat, again and again, for as long as the event loop runs."""
        self.context.processes.beat(self.context.number)
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def _reload(self) -> None:
        """Apply what the supervisor published."""
        fresh = published(self.context.run_folder)
        if fresh is None:
            return
        set_log_level(fresh.log_level)
        if self._use_certificate is None or fresh.certificate == self._certificate:
            return
        self._certificate = fresh.certificate
        try:
            certificate = tls_context(self.context.settings)
        except InvalidSetting as error:
            # The files changed since the supervisor read them.
            log.error("TLS certificate not reloaded; the previous one stays in use", extra={"reason": str(error)})
            return
        if certificate is not None:
            self._use_certificate(certificate)

    async def wait_for_stop(self, adopt: Adopt | None = None) -> None:
        """Say that this child is ready, take the connections that come, and return when it is to end."""
        loop, channel = asyncio.get_running_loop(), self.context.channel
        channel.setblocking(False)
        loop.add_reader(channel, self._listen, adopt)
        settle_memory()
        with suppress(BrokenPipeError):
            # Nobody hears it any more: the reader finds that, too.
            channel.send(READY)
        await self._stop.wait()
        loop.remove_reader(channel)

    def _listen(self, adopt: Adopt | None) -> None:
        channel = self.context.channel
        try:
            message, descriptors, _, _ = socket.recv_fds(channel, DESCRIPTORS_A_MESSAGE, DESCRIPTORS_A_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            # It went away with words of ours unread.
            message, descriptors = b"", []
        if not message:
            # The supervisor is gone: nobody would bring anything, or end us.
            self._stop.set()
            asyncio.get_running_loop().remove_reader(channel)
            return
        for descriptor, mark in zip(descriptors, marks_of(message, len(descriptors)), strict=True):
            connection = socket.socket(fileno=descriptor)
            if adopt is None:
                connection.close()
            else:
                adopt(connection, mark)


def marks_of(message: bytes, count: int) -> list[bytes]:
    """The marks of so many connections that came with a message of the channel.

    Each connection is sent with one byte; bytes without a connection may come before them.
    """
    marks = message[len(message) - count :]
    return [marks[position : position + 1] for position in range(count)]


def run_child(context: ChildContext, work: Callable[[Child], Awaitable[None]]) -> int:
    """Do the work of a role until the supervisor ends it; the exit status. Raises what the work raises."""
    supervisor = os.getppid()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(context, work))
    if os.getppid() != supervisor:
        # It was killed, and cannot clean up behind itself.
        shutil.rmtree(context.run_folder, ignore_errors=True)
    return 0


async def _live(context: ChildContext, work: Callable[[Child], Awaitable[None]]) -> None:
    metrics = Metrics(Path(context.run_folder), context.number)
    await work(Child(context, metrics))
    metrics.close()


async def cancel_tasks(chores: Sequence[asyncio.Task[None]]) -> None:
    """Have them end, and wait until they have."""
    for chore in chores:
        chore.cancel()
    await asyncio.gather(*chores, return_exceptions=True)


def send_failure(channel: socket.socket, error: LakebedError) -> None:
    """Tell the supervisor what this child ended of."""
    with suppress(OSError):
        channel.send(f"{type(error).__name__}\n{error}".encode(errors="backslashreplace")[:_FAILURE_BYTES])


def send_crash(channel: socket.socket, error: BaseException) -> None:
    """Tell the supervisor what this child ended of, where that is a mistake of ours or of a library."""
    with suppress(OSError):
        channel.send(CRASHED + f"{type(error).__name__}: {error}".encode(errors="backslashreplace")[:_FAILURE_BYTES])


def parse_crash(message: bytes) -> str:
    """In one line, what a child crashed of."""
    return " ".join(message.removeprefix(CRASHED).decode(errors="replace").split())


def parse_failure(message: bytes) -> LakebedError:
    """The error that a child told of."""
    name, _, text = message.decode(errors="replace").partition("\n")
    kind = getattr(errors, name, None)
    return kind(text) if isinstance(kind, type) and issubclass(kind, LakebedError) else LakebedError(text)
