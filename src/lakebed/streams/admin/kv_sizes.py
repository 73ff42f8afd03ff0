"""How much keys take: indexes on this server's disk, and snapshots of them in the byte store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakebed.core.clock import Clock

from ..kv.snapshots import KvSnapshots
from ..partitions import StreamPartitions
from ..table import StreamTable

__all__ = ["KvSizeCollector", "KvSizes"]

REFRESH_SECONDS: Final = 60.0
"""How long what was found is told again: a look reads every file's size, and rows for each table with keys."""


@dataclass(frozen=True, slots=True)
class KvSizes:
    """What was found."""

    index_bytes: Mapping[int, int] = field(default_factory=dict)
    """On disk, by table."""

    snapshots: int = 0
    snapshot_bytes: int = 0
    """A file that several have is counted once."""


class KvSizeCollector:
    """Looks at what there is, now and then."""

    def __init__(self, folder: Path, partitions: StreamPartitions, snapshots: KvSnapshots, clock: Clock) -> None:
        """`folder` has the indexes: those of each table in a folder with its id for a name."""
        self._folder = folder
        self._partitions = partitions
        self._snapshots = snapshots
        self._clock = clock
        self._found = KvSizes()
        self._looked_at: float | None = None

    async def of(self, tables: Sequence[StreamTable]) -> KvSizes:
        """What these take; as it was a minute ago at most."""
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= REFRESH_SECONDS:
            self._found = await self._look([table for table in tables if table.has_primary_key])
            self._looked_at = now
        return self._found

    async def _look(self, tables: Sequence[StreamTable]) -> KvSizes:
        files: dict[str, int] = {}
        count = 0
        for table in tables:
            parts: list[int | None] = [None]
            if table.is_partitioned:
                parts = [each.id for each in await self._partitions.of(table)]
            for partition_id in parts:
                for snapshot in await self._snapshots.listed(table.id, partition_id):
                    count += 1
                    files.update((file.key, file.size_bytes) for file in snapshot.files)
        folders = {table.id: self._folder / str(table.id) for table in tables}
        return KvSizes(await asyncio.to_thread(_sizes, folders), count, sum(files.values()))


def _sizes(folders: Mapping[int, Path]) -> dict[int, int]:
    return {table_id: _size(str(folder)) for table_id, folder in folders.items()}


def _size(folder: str) -> int:
    """What the files below take. RocksDB removes some while they are gone through: those take nothing."""
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                size += _size(entry.path) if entry.is_dir(follow_symlinks=False) else entry.stat().st_size
    return size
