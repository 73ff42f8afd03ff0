"""Checkpoints of the WAL into the database file, which bound its size and recovery time.

Two steps, both on a thread with its own connection. Above a first size, a passive checkpoint copies pages concurrently
with reads and writes. Under steady writes that never reaches the end of the WAL, so above a second size the remaining
pages (few, after a passive checkpoint) are copied under the write lock, and the WAL restarts.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from .call_thread import CallThread
from .file import PAGE_BYTES, beside, connect
from .write_lock import WriteLock

_log = logging.getLogger(__name__)

PASSIVE_BYTES = 8 << 20
RESTART_BYTES = 32 << 20

_READERS_MS = 100
"""How long a restart waits, holding the write lock, for readers of old WAL pages. Our reads take microseconds."""


class Checkpointer:
    """Checkpoints of one file; one process at a time runs them."""

    def __init__(
        self,
        database: Path,
        loop: asyncio.AbstractEventLoop,
        *,
        passive_bytes: int = PASSIVE_BYTES,
        restart_bytes: int = RESTART_BYTES,
    ) -> None:
        self._passive_pages = passive_bytes // PAGE_BYTES
        self._restart_pages = restart_bytes // PAGE_BYTES
        self._write_lock = WriteLock(database)
        self._duty = os.open(beside(database, "-checkpoint"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._connection = connect(database)
        self._connection.set_busy_timeout(_READERS_MS)
        self._database = _descriptor_of(database)
        self._thread = CallThread("lakebed-checkpoint", loop)
        self._running = False
        self._next_pages = self._passive_pages

    def log_has(self, pages: int) -> None:
        """Record the length of the WAL after a commit; start a checkpoint if due."""
        if pages < self._passive_pages:
            self._next_pages = self._passive_pages  # the WAL restarted
        elif pages >= self._next_pages and not self._running:
            self._running = True
            # Even after a failure the next attempt waits for more WAL, so that a long reader costs little.
            self._next_pages = pages + self._passive_pages
            self._thread.call(lambda: self._checkpoint(pages), self._done)

    @property
    def is_running(self) -> bool:
        """Whether a checkpoint is running."""
        return self._running

    @contextmanager
    def exclusive(self) -> Iterator[bool]:
        """Become the process that runs checkpoints; False if another process is."""
        try:
            fcntl.flock(self._duty, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._duty, fcntl.LOCK_UN)

    def close(self) -> None:
        """Finish a running checkpoint and close. Blocks."""
        self._thread.close()
        self._connection.close()
        self._write_lock.close()
        os.close(self._duty)

    def _done(self, failure: BaseException | None) -> None:
        self._running = False
        if failure is not None:
            # Nothing is lost: the WAL keeps the pages, and its growth triggers another attempt.
            _log.warning("checkpoint failed, the WAL keeps growing. error=%s", failure)

    def _checkpoint(self, pages: int) -> None:
        with self.exclusive() as is_exclusive:
            if not is_exclusive:
                return
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if pages >= self._restart_pages:
                # SQLite syncs the database file only when the WAL restarts, which would be under the write lock. Syncs
                # and a second pass before leave little for writers to wait for.
                self._sync_database()
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._sync_database()
                self._restart()

    def _sync_database(self) -> None:
        if self._database is not None:
            os.fdatasync(self._database)

    def _restart(self) -> None:
        self._write_lock.acquire()
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        except apsw.BusyError:
            _log.info("WAL not restarted: a long read is running")
        finally:
            self._write_lock.release()


def start_over(database: Path) -> None:
    """Checkpoint the whole WAL into the database file, sync, and truncate the WAL; or raise. Blocks.

    For a WAL that may not be on stable storage after a failed sync.
    """
    write_lock = WriteLock(database)
    try:
        write_lock.acquire()
        connection = connect(database)
        try:
            connection.set_busy_timeout(_READERS_MS)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.close()
    finally:
        write_lock.close()


def _descriptor_of(database: Path) -> int | None:
    """The descriptor under which SQLite has the file open; None if the system does not expose it.

    A new descriptor is no alternative: closing it would drop this process's POSIX locks on the file.
    """
    wanted = os.stat(database)
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the listing's own descriptor is closed again
                found = os.fstat(int(name))
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return int(name)
    return None
