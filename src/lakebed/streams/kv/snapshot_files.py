"""Uploads snapshots of KV indexes to the object store, and restores indexes from them.

A snapshot is a RocksDB folder; its row maps file names to object keys. Data files are immutable, so files of an earlier
snapshot are not uploaded again. The few other files belong to one snapshot each.

Object keys are never reused. So a former leader cannot overwrite files of its successor. What it deletes was listed
before it confirmed that it still led, and is not referenced.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
from pathlib import Path
from typing import Final

from lakebed.storage.ownership import Ownership, delete_listed
from lakebed.storage.seam import Key, ObjectHead, ObjectStorage
from lakebed.storage.writer import BufferedMultipartWriter
from lakebed.streams.seam import TableBucket

from .index.rocksdb import RocksIndex
from .snapshots import Fence, KvSnapshot, KvSnapshots, SnapshotFile

__all__ = ["KvSnapshotter"]

_logger = logging.getLogger(__name__)
_PIECE_BYTES: Final = 1024 * 1024
_DATA: Final = ".sst"


class KvSnapshotter:
    """Moves snapshots between local folders and the object store, under a prefix."""

    def __init__(
        self, snapshots: KvSnapshots, storage: ObjectStorage, ownership: Ownership, prefix: str, scratch: Path
    ) -> None:
        """`scratch` is a folder on the same disk as the indexes, for hard links to their files."""
        self._snapshots = snapshots
        self._storage = storage
        self._ownership = ownership
        self._prefix = prefix
        self._scratch = scratch

    async def take(self, bucket: TableBucket, index: RocksIndex, fence: Fence) -> KvSnapshot | None:
        """Take a snapshot; None if nothing changed since the last one. Not concurrently for the same bucket."""
        before = await self._snapshots.latest(bucket)
        if before is not None and before.lineage == index.lineage and before.log_offset == index.log_offset:
            return None
        folder = self._scratch / _name(bucket).replace("/", "-")
        await asyncio.to_thread(_clear, folder)
        try:
            log_offset, row_count = await asyncio.to_thread(index.checkpoint, folder)
            number = 1 if before is None else before.id + 1
            reusable = {}
            if before is not None and before.lineage == index.lineage:
                reusable = {file.name: file for file in before.files if file.name.endswith(_DATA)}
            target = f"{self._prefix}/{_name(bucket)}/snap-{number}-{secrets.token_hex(8)}"
            files = []
            for path in await asyncio.to_thread(_files, folder):
                files.append(await self._upload(target, path, reusable.get(path.name)))
            taken = KvSnapshot(bucket, number, log_offset, row_count, index.lineage, tuple(files))
            await self._snapshots.add(taken, fence)
        finally:
            await asyncio.to_thread(_clear, folder)
        await self._sweep(bucket, fence)
        return taken

    async def latest_offset(self, bucket: TableBucket) -> int:
        """The log offset of the newest snapshot; 0 without one."""
        latest = await self._snapshots.latest(bucket)
        return 0 if latest is None else latest.log_offset

    async def restore(self, bucket: TableBucket, folder: Path) -> bool:
        """Restore the index from the newest snapshot; False if there is none."""
        snapshot = await self._snapshots.latest(bucket)
        if snapshot is None:
            return False
        fresh = self._scratch / (_name(bucket).replace("/", "-") + "-restored")
        await asyncio.to_thread(_clear, fresh)
        await asyncio.to_thread(fresh.mkdir, parents=True)
        try:
            for file in snapshot.files:
                await self._download(Key(file.key), fresh / file.name)
            await asyncio.to_thread(RocksIndex.import_checkpoint, fresh, snapshot.log_offset, snapshot.row_count)
            await asyncio.to_thread(_move, fresh, folder)
        finally:
            await asyncio.to_thread(_clear, fresh)
        return True

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Delete the snapshot files of a table or partition. Idempotent."""
        found = await self._list(_folder(table_id, partition_id))
        await self._delete("KV snapshots of a dropped table deleted", found)

    async def _upload(self, target: str, path: Path, before: SnapshotFile | None) -> SnapshotFile:
        """Upload a file, unless the previous snapshot has it."""
        size = (await asyncio.to_thread(path.stat)).st_size
        if before is not None and before.size_bytes == size:
            return before
        key = Key(f"{target}/{path.name}")
        async with BufferedMultipartWriter(self._storage, key) as writer:
            with await asyncio.to_thread(path.open, "rb") as source:
                while piece := await asyncio.to_thread(source.read, _PIECE_BYTES):
                    await writer.write(piece)
            await writer.finish()
        return SnapshotFile(path.name, key, size)

    async def _download(self, key: Key, path: Path) -> None:
        with await asyncio.to_thread(path.open, "wb") as target:
            async for piece in self._storage.stream(key):
                await asyncio.to_thread(target.write, piece)

    async def _sweep(self, bucket: TableBucket, fence: Fence) -> None:
        """Delete files that no snapshot references: of deleted snapshots, and of interrupted uploads."""
        # List first: a server that begins to lead after the fence has uploaded nothing that was listed.
        found = await self._list(_name(bucket))
        kept = await self._snapshots.all(bucket, fence)
        needed = frozenset(file.key for snapshot in kept for file in snapshot.files)
        await self._delete("orphan files of KV snapshots deleted", [head for head in found if head.key not in needed])

    async def _list(self, folder: str) -> list[ObjectHead]:
        return [head async for head in self._storage.list_prefix(f"{self._prefix}/{folder}/")]

    async def _delete(self, event: str, found: list[ObjectHead]) -> None:
        await delete_listed(self._storage, self._ownership, found, _logger, event)


def _folder(table_id: int, partition_id: int | None) -> str:
    return str(table_id) if partition_id is None else f"{table_id}/p{partition_id}"


def _name(bucket: TableBucket) -> str:
    return f"{_folder(bucket.table_id, bucket.partition_id)}/{bucket.bucket}"


def _files(folder: Path) -> list[Path]:
    """The files that belong to a snapshot."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix == _DATA or path.name == "CURRENT" or path.name.startswith(("MANIFEST-", "OPTIONS-"))
    )


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)


def _move(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
