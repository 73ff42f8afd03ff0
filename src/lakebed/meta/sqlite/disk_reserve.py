"""Reserves disk space of an embedded store for deletes, so that a full disk can be freed.

A delete writes to the WAL and the outbox before it frees anything. So writers of large rows check the reserve first,
and are rejected while some space is left; deletes do not check.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lakebed.core.errors import StorageFull

from ..seam import MetaStore

RESERVE_BYTES: Final = 64 << 20
"""Space for the WAL until it restarts, and for its pages in the database file; a quarter of a small disk at most."""

_UNCHECKED_BYTES: Final = 1 << 20
"""Bytes that may be added between two checks of the disk."""

_FREE_PAGES: Final = "PRAGMA freelist_count"
_PAGE_SIZE: Final = "PRAGMA page_size"


class DiskReserve:
    """Checks the free space of one SQLite file's disk."""

    def __init__(self, store: MetaStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._unchecked = _UNCHECKED_BYTES

    async def check(self, size: int) -> None:
        """Raise StorageFull unless a row of `size` bytes can be added. One system call per MiB."""
        self._unchecked += size
        if self._unchecked < _UNCHECKED_BYTES:
            return
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 4)
        # Free pages of the file count as free space: the file never shrinks.
        if free - reserve < size + _UNCHECKED_BYTES and await self._reusable() < size + _UNCHECKED_BYTES:
            raise StorageFull(f"no space left for metadata. wanted={size} free={free} reserve={reserve}")
        self._unchecked = 0

    async def _reusable(self) -> int:
        pages, page_size = await self._store.row(_FREE_PAGES), await self._store.row(_PAGE_SIZE)
        return int(pages[0]) * int(page_size[0]) if pages and page_size else 0
