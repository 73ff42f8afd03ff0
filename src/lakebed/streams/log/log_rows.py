"""Rows of logs in the metadata store: who has a log's newest records, and what the byte store has of it.

All are written in a transaction that looks whether its writer is the home still. So whoever was it before changes
nothing, however late it comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.storage.seam import Key
from lakebed.streams.failures import Reason, StreamFailure
from lakebed.streams.seam import TableBucket

__all__ = ["Fence", "LogRow", "LogRows", "sample_manifests"]

Fence: TypeAlias = Callable[[Transaction], Awaitable[int]]
"""Raises Fenced unless its server is the home of streams; the epoch, if it is."""

_FIND = "SELECT epoch, tail_server, manifest FROM stream_logs WHERE table_id = ? AND partition_id = ? AND bucket = ?"
_CLAIM = """
INSERT INTO stream_logs (table_id, partition_id, bucket, folder, epoch, tail_server, manifest)
VALUES (?, ?, ?, ?, ?, ?, '')
ON CONFLICT (table_id, partition_id, bucket) DO UPDATE
SET epoch = excluded.epoch, tail_server = excluded.tail_server
"""
_PUBLISH = "UPDATE stream_logs SET manifest = ? WHERE table_id = ? AND partition_id = ? AND bucket = ?"
_RELEASE_TAIL = "UPDATE stream_logs SET tail_server = '' WHERE table_id = ? AND partition_id = ? AND bucket = ?"
_FOLDERS_OF_TABLE = "SELECT folder FROM stream_logs WHERE table_id = ? ORDER BY folder"
_FOLDERS_OF_PARTITION = "SELECT folder FROM stream_logs WHERE table_id = ? AND partition_id = ? ORDER BY folder"
_MANIFESTS = """
SELECT bucket, manifest FROM stream_logs WHERE table_id = ? AND partition_id = ? AND manifest <> '' ORDER BY bucket
"""
_ALL = "SELECT table_id, partition_id, bucket, tail_server FROM stream_logs ORDER BY table_id, partition_id, bucket"
_ELSEWHERE = "SELECT table_id, partition_id, bucket FROM stream_logs WHERE tail_server <> '' AND tail_server <> ?"
_SAMPLE_MANIFESTS = "SELECT manifest FROM stream_logs WHERE manifest <> '' ORDER BY table_id DESC LIMIT ?"
_REMOVE_TABLE = "DELETE FROM stream_logs WHERE table_id = ?"
_REMOVE_PARTITION = "DELETE FROM stream_logs WHERE table_id = ? AND partition_id = ?"


async def sample_manifests(reader: Reader, limit: int) -> list[Key]:
    """Keys of manifests in the object store, those of the newest tables first."""
    return [Key(row[0]) for row in await reader.rows(_SAMPLE_MANIFESTS, limit)]


@dataclass(frozen=True, slots=True)
class LogRow:
    """What is known of a log wherever it is."""

    epoch: int = 0
    tail_server: str = ""
    manifest: str = ""


class LogRows:
    """The rows, changed by the home of streams alone."""

    def __init__(self, store: MetaStore, fence: Fence) -> None:
        self._store = store
        self._fence = fence

    async def find(self, bucket: TableBucket, reader: Reader | None = None) -> LogRow:
        """A log's row; that of one that was never opened if there is none."""
        found = await (reader or self._store).row(_FIND, *_key(bucket))
        return LogRow() if found is None else LogRow(*found)

    async def claim(self, bucket: TableBucket, folder: str, server: str, *, keeps_tail: bool) -> tuple[LogRow, int]:
        """Open a log here: what its row said before, and the epoch now.

        With `keeps_tail`, records may be acknowledged from now on that are only here.
        Raises NO_LEADER if another server has records that were acknowledged and are nowhere else.
        """

        async def work(tx: Transaction) -> tuple[LogRow, int]:
            epoch = await self._fence(tx)
            row = await self.find(bucket, tx)
            if row.tail_server not in ("", server):
                raise StreamFailure(
                    Reason.NO_LEADER,
                    "records of this bucket were acknowledged that only another server has; it is to be started again, "
                    f"or to hand them over. server={row.tail_server} table_id={bucket.table_id} bucket={bucket.bucket}",
                )
            # A tail that is here stays noted until `released`, even if from now on nothing is kept back.
            tail = server if keeps_tail else row.tail_server
            await tx.run(_CLAIM, *_key(bucket), folder, epoch, tail)
            return row, epoch

        return await self._store.transact(work)

    async def manifest(self, bucket: TableBucket) -> str:
        """What `publish` was told last, if we are the home."""

        async def work(tx: Transaction) -> str:
            await self._fence(tx)
            return (await self.find(bucket, tx)).manifest

        return await self._store.transact(work)

    async def publish(self, bucket: TableBucket, manifest: str) -> None:
        """The byte store has what is listed under this key."""

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            await tx.run(_PUBLISH, manifest, *_key(bucket))

        await self._store.transact(work)

    async def release_tail(self, bucket: TableBucket) -> None:
        """All that was acknowledged is in the byte store."""

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            await tx.run(_RELEASE_TAIL, *_key(bucket))

        await self._store.transact(work)

    async def manifests(self, table_id: int, partition_id: int | None) -> list[tuple[int, str]]:
        """Of each bucket that has something in the byte store, under which key that is listed."""
        return [(row[0], row[1]) for row in await self._store.rows(_MANIFESTS, table_id, partition_id or 0)]

    async def all(self) -> list[tuple[TableBucket, str]]:
        """Every bucket that ever was opened, and which server alone has its newest records, if one has."""
        return [
            (TableBucket(table, part or None, bucket), tail)
            for table, part, bucket, tail in await self._store.rows(_ALL)
        ]

    async def elsewhere(self, server: str) -> list[TableBucket]:
        """The buckets whose newest records another server has alone: here they cannot be opened."""
        return [
            TableBucket(table, part or None, bucket)
            for table, part, bucket in await self._store.rows(_ELSEWHERE, server)
        ]

    async def folders(self, table_id: int, partition_id: int | None) -> list[str]:
        """Where the byte store has what it has of the logs of a table, or of one of its partitions."""
        if partition_id is None:
            found = await self._store.rows(_FOLDERS_OF_TABLE, table_id)
        else:
            found = await self._store.rows(_FOLDERS_OF_PARTITION, table_id, partition_id)
        return [row[0] for row in found]

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Forget the logs of a table, or of one of its partitions."""

        async def work(tx: Transaction) -> None:
            if partition_id is None:
                await tx.run(_REMOVE_TABLE, table_id)
            else:
                await tx.run(_REMOVE_PARTITION, table_id, partition_id)

        await self._store.transact(work)


def _key(bucket: TableBucket) -> tuple[int, int, int]:
    return bucket.table_id, bucket.partition_id or 0, bucket.bucket
