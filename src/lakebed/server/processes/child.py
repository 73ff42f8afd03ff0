"""The common part of all child processes of the server.

A child has an event loop, metrics, and a channel to its supervisor. Over the channel it reports that it is ready, or
why it failed, and receives connections if its role serves them. It ends on SIGTERM, or when the supervisor ends.
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
"""Message to the supervisor: the child is ready. A failure may follow."""

CRASHED: Final = b"!"
"""Prefix of a message about an unexpected exception."""

CONNECTION: Final = b"C"
"""Mark of a connection that `server.listen` accepted."""

CATALOG_CONNECTION: Final = b"A"
"""Mark of a connection that `server.catalog_listen` accepted."""

DESCRIPTORS_A_MESSAGE: Final = 16
"""The maximum of descriptors, and of bytes, in one read from a channel."""

_FAILURE_BYTES: Final = 8192

Adopt = Callable[[socket.socket, bytes], None]
"""Serves a connection that the supervisor accepted; takes the mark CONNECTION or CATALOG_CONNECTION."""


@dataclass(frozen=True, slots=True)
class ChildContext:
    """What a child gets from the supervisor at its start."""

    settings: Settings
    identity: Identity
    number: int
    """Unique among running children. A restarted child gets the same number and continues its counters."""
    channel: socket.socket
    run_folder: str
    """A temporary folder of this run of the server."""
    processes: ProcessTable
    """State and heartbeats of all processes of the server."""
    reloaded: Reloaded
    """The values of the last reload before this child was started."""
    certificate: ssl.SSLContext | None = None
    """The TLS context of new connections; None for plain HTTP."""
    listener: socket.socket | None = None
    """The listener of a role with its own port."""

    @property
    def server(self) -> str:
        """A name for this run of the server, unique among all servers that share a store."""
        return f"{socket.gethostname()}:{Path(self.run_folder).name}"


class Child:
    """A child process, as its role uses it."""

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
        # An earlier signal was ignored.
        self._reload()

    def when_certificate_changes(self, use: Callable[[ssl.SSLContext], None]) -> None:
        """Register `use`, called with each reloaded certificate."""
        self._use_certificate = use
        self._reload()

    def _beat(self) -> None:
        """Count heartbeats for as long as the event loop runs."""
        self.context.processes.beat(self.context.number)
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def _reload(self) -> None:
        """Apply the values that the supervisor published."""
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
        """Report that this child is ready, receive connections, and return on a stop."""
        loop, channel = asyncio.get_running_loop(), self.context.channel
        channel.setblocking(False)
        loop.add_reader(channel, self._listen, adopt)
        settle_memory()
        with suppress(BrokenPipeError):
            # The supervisor ended: the reader detects that, too.
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
            # The supervisor ended with unread messages.
            message, descriptors = b"", []
        if not message:
            # The supervisor ended.
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
    """The marks of `count` connections received with a channel message.

    Each connection is sent with one byte; bytes without a connection may precede them.
    """
    marks = message[len(message) - count :]
    return [marks[position : position + 1] for position in range(count)]


def run_child(context: ChildContext, work: Callable[[Child], Awaitable[None]]) -> int:
    """Run a role until the supervisor stops it; returns the exit status. Raises what `work` raises."""
    supervisor = os.getppid()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(context, work))
    if os.getppid() != supervisor:
        # The supervisor was killed and did not remove the folder.
        shutil.rmtree(context.run_folder, ignore_errors=True)
    return 0


async def _live(context: ChildContext, work: Callable[[Child], Awaitable[None]]) -> None:
    metrics = Metrics(Path(context.run_folder), context.number)
    await work(Child(context, metrics))
    metrics.close()


async def cancel_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def send_failure(channel: socket.socket, error: LakebedError) -> None:
    """Report the error that ended this child to the supervisor."""
    with suppress(OSError):
        channel.send(f"{type(error).__name__}\n{error}".encode(errors="backslashreplace")[:_FAILURE_BYTES])


def send_crash(channel: socket.socket, error: BaseException) -> None:
    """Report the unexpected exception that ended this child to the supervisor."""
    with suppress(OSError):
        channel.send(CRASHED + f"{type(error).__name__}: {error}".encode(errors="backslashreplace")[:_FAILURE_BYTES])


def parse_crash(message: bytes) -> str:
    """The exception that ended a child, in one line."""
    return " ".join(message.removeprefix(CRASHED).decode(errors="replace").split())


def parse_failure(message: bytes) -> LakebedError:
    """The error that ended a child."""
    name, _, text = message.decode(errors="replace").partition("\n")
    kind = getattr(errors, name, None)
    return kind(text) if isinstance(kind, type) and issubclass(kind, LakebedError) else LakebedError(text)
