"""Takes snapshots of indexes into the byte store, and makes indexes of them again.

A snapshot is a folder that RocksDB opens: what its files are called there is in its row. Files of data never change, so
one that an earlier snapshot has is not sent again; the few others are each snapshot's own.

No name in the byte store is used twice. So whoever lost the place of the home, and does not know it yet, cannot change
what another wrote; and what it removes was there before it asked whether it is the home still, and needed by nobody.
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
    """Moves snapshots between folders and the byte store, under a prefix."""

    def __init__(
        self, snapshots: KvSnapshots, storage: ObjectStorage, ownership: Ownership, prefix: str, scratch: Path
    ) -> None:
        """`scratch` is a folder on the disk of the indexes, for links to their files."""
        self._snapshots = snapshots
        self._storage = storage
        self._ownership = ownership
        self._prefix = prefix
        self._scratch = scratch

    async def take(self, bucket: TableBucket, index: RocksIndex, fence: Fence) -> KvSnapshot | None:
        """Take one, unless nothing changed since the last; None then. One at a time for each bucket."""
        before = await self._snapshots.latest(bucket)
        if before is not None and before.lineage == index.lineage and before.log_offset == index.log_offset:
            return None
        folder = self._scratch / _name(bucket).replace("/", "-")
        await asyncio.to_thread(_clear, folder)
        try:
            log_offset, row_count = await asyncio.to_thread(index.checkpoint, folder)
            number = 1 if before is None else before.id + 1
            sent = {}
            if before is not None and before.lineage == index.lineage:
                sent = {file.name: file for file in before.files if file.name.endswith(_DATA)}
            place = f"{self._prefix}/{_name(bucket)}/snap-{number}-{secrets.token_hex(8)}"
            files = []
            for path in await asyncio.to_thread(_files, folder):
                files.append(await self._send(place, path, sent.get(path.name)))
            taken = KvSnapshot(bucket, number, log_offset, row_count, index.lineage, tuple(files))
            await self._snapshots.add(taken, fence)
        finally:
            await asyncio.to_thread(_clear, folder)
        await self._forget(bucket, fence)
        return taken

    async def covered(self, bucket: TableBucket) -> int:
        """Where the changes begin that are in no snapshot of the bucket."""
        latest = await self._snapshots.latest(bucket)
        return 0 if latest is None else latest.log_offset

    async def restore(self, bucket: TableBucket, folder: Path) -> bool:
        """Make an index of the newest snapshot, where there is none; False if there is no snapshot either."""
        snapshot = await self._snapshots.latest(bucket)
        if snapshot is None:
            return False
        fresh = self._scratch / (_name(bucket).replace("/", "-") + "-restored")
        await asyncio.to_thread(_clear, fresh)
        await asyncio.to_thread(fresh.mkdir, parents=True)
        try:
            for file in snapshot.files:
                await self._fetch(Key(file.key), fresh / file.name)
            await asyncio.to_thread(RocksIndex.adopt, fresh, snapshot.log_offset, snapshot.row_count)
            await asyncio.to_thread(_move, fresh, folder)
        finally:
            await asyncio.to_thread(_clear, fresh)
        return True

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Remove the files of a table, or of one of its partitions. Idempotent."""
        found = await self._found(_folder(table_id, partition_id))
        await self._delete("KV snapshots of a dropped table deleted", found)

    async def _send(self, place: str, path: Path, before: SnapshotFile | None) -> SnapshotFile:
        """Send a file to `place`, unless it is where it was `before`."""
        size = (await asyncio.to_thread(path.stat)).st_size
        if before is not None and before.size_bytes == size:
            return before
        key = Key(f"{place}/{path.name}")
        async with BufferedMultipartWriter(self._storage, key) as writer:
            with await asyncio.to_thread(path.open, "rb") as source:
                while piece := await asyncio.to_thread(source.read, _PIECE_BYTES):
                    await writer.write(piece)
            await writer.finish()
        return SnapshotFile(path.name, key, size)

    async def _fetch(self, key: Key, path: Path) -> None:
        with await asyncio.to_thread(path.open, "wb") as target:
            async for piece in self._storage.stream(key):
                await asyncio.to_thread(target.write, piece)

    async def _forget(self, bucket: TableBucket, fence: Fence) -> None:
        """Remove all that no snapshot has: of those that were let go of, and of takings that a crash ended."""
        # In this order: whoever becomes the home after we have been found to be it has sent nothing yet that was found.
        found = await self._found(_name(bucket))
        kept = await self._snapshots.kept(bucket, fence)
        needed = frozenset(file.key for snapshot in kept for file in snapshot.files)
        await self._delete("orphan files of KV snapshots deleted", [head for head in found if head.key not in needed])

    async def _found(self, folder: str) -> list[ObjectHead]:
        return [head async for head in self._storage.list_prefix(f"{self._prefix}/{folder}/")]

    async def _delete(self, event: str, found: list[ObjectHead]) -> None:
        await delete_listed(self._storage, self._ownership, found, _logger, event)


def _folder(table_id: int, partition_id: int | None) -> str:
    return str(table_id) if partition_id is None else f"{table_id}/p{partition_id}"


def _name(bucket: TableBucket) -> str:
    return f"{_folder(bucket.table_id, bucket.partition_id)}/{bucket.bucket}"


def _files(folder: Path) -> list[Path]:
    """What a reader of the folder needs."""
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
