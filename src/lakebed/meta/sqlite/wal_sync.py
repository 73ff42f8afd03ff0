"""Group commit on SQLite: commits write the WAL without a sync, and one sync then covers all earlier ones.

SQLite's own sync inside COMMIT would block the event loop for as long as the disk takes. Between checkpoints the WAL is
append-only, so a later sync makes exactly the commits before it durable.

A failed sync is never simply repeated: the kernel may have dropped dirty pages, and would report success for the rest.
Before the next caller returns, the whole WAL is checkpointed into the database file and restarted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from .call_thread import CallThread, Report


class WalSync:
    """Syncs of one WAL: at most one in flight; later callers share the next."""

    def __init__(self, wal: Path, loop: asyncio.AbstractEventLoop, *, start_over: Callable[[], None]) -> None:
        self._path = wal
        # SQLite has no POSIX locks on the WAL, so a separate descriptor is safe to open and close.
        self._descriptor = os.open(wal, os.O_RDWR | os.O_CLOEXEC)
        self._start_over = start_over
        self._suspect = False
        self._thread = CallThread("lakebed-wal-sync", loop)
        self._in_flight: list[Report] = []
        self._waiting: list[Report] = []

    def after_sync(self, report: Report) -> None:
        """Call `report` once everything written before is on stable storage, or the sync failed."""
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
            # The WAL was removed after the last connection closed, and created again.
            fresh = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(fresh, self._descriptor, inheritable=False)
            os.close(fresh)
            sync_folder(self._path.parent)


def sync_folder(folder: Path) -> None:
    """Sync the directory entries of `folder`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
