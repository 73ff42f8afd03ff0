"""The turn to write: processes that share one SQLite file write it one after another, in order, without polling.

SQLite's own answer to a taken write lock is to sleep and try again, which lets the process that just wrote win again
and again. Here a writer first takes a kernel lock on a side file; the kernel wakes the next one when it is given back,
also when its holder dies.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class WriteLock:
    """One process's hold on the turn. Not reentrant; `take` blocks and belongs on a thread.

    Two locks: the turn itself, and the place at the head of the queue. Whoever waits for the turn holds that place,
    so that a process which gave the turn back a moment ago cannot snatch it before the one that waits.
    """

    def __init__(self, database: Path) -> None:
        self._head = _open(database.with_name(database.name + "-queue"))
        self._lock = _open(database.with_name(database.name + "-turn"))

    def try_acquire(self) -> bool:
        """Take the turn if it is free and nobody waits for it."""
        if not _lock_nowait(self._head):
            return False
        try:
            return _lock_nowait(self._lock)
        finally:
            fcntl.flock(self._head, fcntl.LOCK_UN)

    def acquire(self) -> None:
        """Wait for the turn. Blocks."""
        fcntl.flock(self._head, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._head, fcntl.LOCK_UN)

    def has_waiters(self) -> bool:
        """Whether another process or thread stands at the head of the queue."""
        if not _lock_nowait(self._head):
            return True
        fcntl.flock(self._head, fcntl.LOCK_UN)
        return False

    def release(self) -> None:
        """Let the next one write."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the side files, which gives back whatever is held."""
        os.close(self._lock)
        os.close(self._head)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock_nowait(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
