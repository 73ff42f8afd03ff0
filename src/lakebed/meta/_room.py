"""Space kept back on the disk, so that a store that was filled can be emptied again.

Removing rows writes to the log before it frees anything. So the file may not grow into the last of the disk: past that
point whatever needs new pages is refused as on a full disk, and what only changes or frees pages goes on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

RESERVE_BYTES: Final = 64 << 20
"""For the log until it starts over, and for what it holds and the file does not yet; or a quarter of a small disk."""

_WATCH_BYTES: Final = 2 * RESERVE_BYTES
"""With more space than this no batch can reach the reserve, and nothing has to be limited."""

_UNLIMITED_PAGES: Final = 0xFFFFFFFE


class DiskReserve:
    """Limits one connection's file to what the disk has beyond the reserve."""

    def __init__(self, database: Path, page_bytes: int) -> None:
        self._folder = database.parent
        self._page_bytes = page_bytes
        self._is_limited = False

    def apply(self, connection: apsw.Connection) -> None:
        """Set the limit anew, before a transaction begins. One system call while there is enough space."""
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        if free > _WATCH_BYTES:
            if self._is_limited:
                self._limit(connection, _UNLIMITED_PAGES)
                self._is_limited = False
            return
        reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 4)
        (pages,) = connection.execute("PRAGMA page_count").fetchall()[0]
        self._limit(connection, max(1, pages + max(0, free - reserve) // self._page_bytes))
        self._is_limited = True

    def _limit(self, connection: apsw.Connection, pages: int) -> None:
        # SQLite takes a limit below the file's present size for that size.
        connection.execute(f"PRAGMA max_page_count={pages}").fetchall()
