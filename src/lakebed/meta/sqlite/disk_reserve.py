"""Space kept back on the disk of an embedded store, so that one that was filled can be emptied again.

Removing rows writes to the log, and tells of itself in the outbox, before it frees anything. So whoever adds large rows
asks here first, and is refused while there is still some space; whoever removes rows does not ask.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from lakebed.core.errors import StorageFull

from ..seam import MetaStore

RESERVE_BYTES: Final = 64 << 20
"""For the log until it starts over, and for what it holds and the file does not yet; or a quarter of a small disk."""

_UNLOOKED_BYTES: Final = 1 << 20
"""What may be added between two looks at the disk."""

_FREE_PAGES: Final = "PRAGMA freelist_count"
_PAGE_SIZE: Final = "PRAGMA page_size"


class DiskReserve:
    """Watches the disk of one SQLite file."""

    def __init__(self, store: MetaStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._unlooked = _UNLOOKED_BYTES

    async def check(self, size: int) -> None:
        """Raise StorageFull unless a row of so many bytes may be added. A system call for every MiB of them."""
        self._unlooked += size
        if self._unlooked < _UNLOOKED_BYTES:
            return
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 4)
        # Pages that removed rows left in the file are as good as free space, and the file never shrinks.
        if free - reserve < size + _UNLOOKED_BYTES and await self._reusable() < size + _UNLOOKED_BYTES:
            raise StorageFull(f"no space left for metadata. wanted={size} free={free} reserve={reserve}")
        self._unlooked = 0

    async def _reusable(self) -> int:
        pages, page_size = await self._store.row(_FREE_PAGES), await self._store.row(_PAGE_SIZE)
        return int(pages[0]) * int(page_size[0]) if pages and page_size else 0
