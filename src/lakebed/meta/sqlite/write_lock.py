"""A fair lock for writers of one SQLite file, without polling.

On a taken write lock SQLite sleeps and retries, which lets the last writer win repeatedly. Here a writer first takes a
kernel lock on a side file; the kernel wakes the next one on its release, also when the holder dies.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class WriteLock:
    """The lock of one process. Not reentrant; `acquire` blocks and belongs on a thread.

    Two kernel locks: the write lock, and the head of its queue. A waiting process holds the head, so that a process
    that has just released the lock cannot acquire it again first.
    """

    def __init__(self, database: Path) -> None:
        self._head = _open(database.with_name(database.name + "-queue"))
        self._lock = _open(database.with_name(database.name + "-turn"))

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free and has no waiters."""
        if not _lock_nowait(self._head):
            return False
        try:
            return _lock_nowait(self._lock)
        finally:
            fcntl.flock(self._head, fcntl.LOCK_UN)

    def acquire(self) -> None:
        """Wait for the lock. Blocks."""
        fcntl.flock(self._head, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._head, fcntl.LOCK_UN)

    def has_waiters(self) -> bool:
        """Whether another process or thread waits for the lock."""
        if not _lock_nowait(self._head):
            return True
        fcntl.flock(self._head, fcntl.LOCK_UN)
        return False

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the side files, which releases both locks."""
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
