"""Stable storage for the write-ahead log: commits write it without waiting, one sync then covers all before it.

SQLite's own sync inside COMMIT would stop the event loop for as long as the disk takes. The log is only ever appended
to between checkpoints, so syncing it a moment later keeps exactly the commits made before the sync began.

A sync that failed is never simply tried again: the kernel may have dropped what it could not write, and would report
success for the rest. Before the next caller is answered, the whole log is copied to the database file and begun anew.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from .call_thread import CallThread, Report


class WalSync:
    """Syncs of one log file: at most one in flight; those who ask meanwhile share the next."""

    def __init__(self, wal: Path, loop: asyncio.AbstractEventLoop, *, start_over: Callable[[], None]) -> None:
        self._path = wal
        # The log carries none of SQLite's POSIX locks, so a descriptor of our own is safe to open and close.
        self._descriptor = os.open(wal, os.O_RDWR | os.O_CLOEXEC)
        self._start_over = start_over
        self._suspect = False
        self._thread = CallThread("lakebed-wal-sync", loop)
        self._in_flight: list[Report] = []
        self._waiting: list[Report] = []

    def after_sync(self, report: Report) -> None:
        """Call `report` when all that was written before now is on stable storage, or could not be put there."""
        self._waiting.append(report)
        if not self._in_flight:
            self._start()

    def close(self) -> None:
        """End the thread and close the descriptor."""
        self._thread.close()
        os.close(self._descriptor)

    def _start(self) -> None:
        self._in_flight, self._waiting = self._waiting, []
        self._thread.call(self._sync, self._finish)

    def _finish(self, failure: BaseException | None) -> None:
        reports, self._in_flight = self._in_flight, []
        if self._waiting:
            self._start()
        for report in reports:
            report(failure)

    def _sync(self) -> None:
        self._follow_file()
        if self._suspect:
            self._start_over()
            self._suspect = False
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            self._suspect = True
            raise

    def _follow_file(self) -> None:
        found = os.stat(self._path)
        held = os.fstat(self._descriptor)
        if (found.st_ino, found.st_dev) != (held.st_ino, held.st_dev):
            # Somebody removed the log after the last connection closed and it was made anew: follow it.
            fresh = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(fresh, self._descriptor, inheritable=False)
            os.close(fresh)
            sync_folder(self._path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in `folder` on stable storage."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
