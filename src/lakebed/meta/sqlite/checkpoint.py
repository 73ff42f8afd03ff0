"""Checkpoints: move what the log holds into the database file, so that the log neither grows nor is slow to recover.

Two steps, both on a thread with its own connection. Past a first size, a passive checkpoint copies what it can while
reads and writes go on; writers never notice. Under steady writing that alone never catches up with the end of the
log, so past a second size the rest (little, after a passive one) is copied under the write turn and the log starts
over.
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
"""How long a restart waits, holding the turn, for readers of old log pages. Ours are gone in microseconds."""


class Checkpointer:
    """Checkpoints of one file by one process; one process at a time does it."""

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
        """Take note of the log's length after a commit; start a checkpoint when it is due."""
        if pages < self._passive_pages:
            self._next_pages = self._passive_pages  # it started over
        elif pages >= self._next_pages and not self._running:
            self._running = True
            # Also when it does not succeed the next try waits for more log, so that a long reader costs little.
            self._next_pages = pages + self._passive_pages
            self._thread.call(lambda: self._checkpoint(pages), self._done)

    @property
    def is_running(self) -> bool:
        """Whether a checkpoint is under way."""
        return self._running

    @contextmanager
    def duty(self) -> Iterator[bool]:
        """Be the process that does it, if no other is."""
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
        """Finish what is under way; close. Blocks."""
        self._thread.close()
        self._connection.close()
        self._write_lock.close()
        os.close(self._duty)

    def _done(self, failure: BaseException | None) -> None:
        self._running = False
        if failure is not None:
            # Nothing is lost: the log keeps what was not copied, and the next size triggers another try.
            _log.warning("checkpoint failed, the log keeps growing. error=%s", failure)

    def _checkpoint(self, pages: int) -> None:
        with self.duty() as has_duty:
            if not has_duty:
                return
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if pages >= self._restart_pages:
                # SQLite syncs the database file only when the log starts over, which would be under the turn. Done
                # here, and once more copied what was written meanwhile, little is left for the writers to wait for.
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
            _log.info("a long read keeps the log from starting over")
        finally:
            self._write_lock.release()


def start_over(database: Path) -> None:
    """Copy all of the log into the database file, sync that, and empty the log; or raise. Blocks.

    For when the log itself can no longer be trusted to be on stable storage.
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
    """The descriptor under which SQLite has the file open; None where the system does not tell.

    Opening the file anew is no way: closing that descriptor would drop this process's POSIX locks on it.
    """
    wanted = os.stat(database)
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the listing's own descriptor is closed again
                found = os.fstat(int(name))
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return int(name)
    return None
