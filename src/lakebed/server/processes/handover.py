"""Passes accepted connections to workers, round-robin.

A connection that a worker has not received from its channel is not lost with the worker: it goes to another one.
"""

from __future__ import annotations

import errno
import logging
import socket
import struct
import time
from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from .child import DESCRIPTORS_A_MESSAGE, marks_of
from .roles import ChildProcess

log = logging.getLogger("lakebed.server")

_BUSY_PAUSE_SECONDS: Final = 0.05
_INT: Final = struct.Struct("=i")


class WorkerListener(NamedTuple):
    """A listener whose connections are passed to workers."""

    listener: socket.socket
    mark: bytes
    """Sent with each connection, so that workers know its listener."""


class ConnectionHandover:
    """The listeners of workers, and the accepted connections that no worker has yet."""

    def __init__(self, accepting: Sequence[WorkerListener]) -> None:
        self.accepting = tuple(accepting)
        self._waiting: deque[tuple[socket.socket, bytes]] = deque()
        self._turn = 0

    @property
    def is_pending(self) -> bool:
        """Whether an accepted connection waits for a worker."""
        return bool(self._waiting)

    def accept(self, accepting: WorkerListener, workers: Collection[ChildProcess]) -> None:
        """Pass on the waiting connections, then accept all others."""
        while self.pass_on(workers):
            try:
                connection = accepting.listener.accept()[0]
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    log.warning("accept failed: out of descriptors or memory, retrying", exc_info=error)
                    time.sleep(_BUSY_PAUSE_SECONDS)
                    return
                continue
            self._waiting.append((connection, accepting.mark))

    def pass_on(self, workers: Collection[ChildProcess]) -> bool:
        """Pass on the waiting connections; True if none is left."""
        while self._waiting:
            connection, mark = self._waiting[0]
            if not self._hand_over(connection, mark, workers):
                # Every channel is full. This connection waits here, further ones in the listen backlog.
                time.sleep(_BUSY_PAUSE_SECONDS)
                return False
            self._waiting.popleft()
            connection.close()
        return True

    def take_back(self, process: ChildProcess) -> None:
        """Take back the connections that a process has not received from its channel."""
        while True:
            try:
                # Not `recv_fds`, which ignores its flags and would block.
                message, ancillary, _, _ = process.far_end.recvmsg(
                    DESCRIPTORS_A_MESSAGE, socket.CMSG_LEN(DESCRIPTORS_A_MESSAGE * _INT.size), socket.MSG_DONTWAIT
                )
            except OSError:
                return
            if not message:
                return
            descriptors = [descriptor for _, _, packed in ancillary for (descriptor,) in _INT.iter_unpack(packed)]
            for descriptor, mark in zip(descriptors, marks_of(message, len(descriptors)), strict=True):
                self._waiting.append((socket.socket(fileno=descriptor), mark))

    def close(self) -> None:
        """Stop accepting, and close the waiting connections."""
        for each in self.accepting:
            each.listener.close()
        while self._waiting:
            self._waiting.popleft()[0].close()

    def _hand_over(self, connection: socket.socket, mark: bytes, workers: Collection[ChildProcess]) -> bool:
        """Pass the connection to the next worker with room in its channel; False if there is none."""
        candidates = candidates_of(workers)
        for _ in range(len(candidates)):
            self._turn += 1
            chosen = candidates[self._turn % len(candidates)]
            try:
                socket.send_fds(chosen.channel, [mark], [connection.fileno()])
            except OSError:
                # Its channel is full.
                continue
            return True
        return False


def candidates_of(workers: Collection[ChildProcess]) -> list[ChildProcess]:
    """The workers that get connections: responsive ones; else starting ones; else all, since they may recover."""
    return (
        [each for each in workers if each.ready and each.pulse.is_responsive]
        or [each for each in workers if not each.ready]
        or list(workers)
    )
