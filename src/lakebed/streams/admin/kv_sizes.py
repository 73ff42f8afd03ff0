"""Sizes of KV indexes on this server's disk, and of KV snapshots in the object store."""

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
"""How long sizes are cached: collecting them stats every file, and reads rows for each KV table."""


@dataclass(frozen=True, slots=True)
class KvSizes:
    """The sizes."""

    index_bytes: Mapping[int, int] = field(default_factory=dict)
    """On disk, by table."""

    snapshots: int = 0
    snapshot_bytes: int = 0
    """A file shared by several snapshots counts once."""


class KvSizeCollector:
    """Collects the sizes at intervals."""

    def __init__(self, folder: Path, partitions: StreamPartitions, snapshots: KvSnapshots, clock: Clock) -> None:
        """`folder` has a folder of indexes for each table id."""
        self._folder = folder
        self._partitions = partitions
        self._snapshots = snapshots
        self._clock = clock
        self._sizes = KvSizes()
        self._collected_at: float | None = None

    async def of(self, tables: Sequence[StreamTable]) -> KvSizes:
        """The sizes, at most a minute old."""
        now = self._clock.monotonic()
        if self._collected_at is None or now - self._collected_at >= REFRESH_SECONDS:
            self._sizes = await self._collect([table for table in tables if table.has_primary_key])
            self._collected_at = now
        return self._sizes

    async def _collect(self, tables: Sequence[StreamTable]) -> KvSizes:
        files: dict[str, int] = {}
        count = 0
        for table in tables:
            for partition_id in await self._partitions.ids(table):
                for snapshot in await self._snapshots.listed(table.id, partition_id):
                    count += 1
                    files.update((file.key, file.size_bytes) for file in snapshot.files)
        folders = {table.id: self._folder / str(table.id) for table in tables}
        return KvSizes(await asyncio.to_thread(_sizes, folders), count, sum(files.values()))


def _sizes(folders: Mapping[int, Path]) -> dict[int, int]:
    return {table_id: _size(str(folder)) for table_id, folder in folders.items()}


def _size(folder: str) -> int:
    """Bytes of the files below. Files that RocksDB removes meanwhile count as 0."""
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                size += _size(entry.path) if entry.is_dir(follow_symlinks=False) else entry.stat().st_size
    return size
