"""Log rows in the metadata store: which server has the newest records of a log, and its remote manifest.

Every change is a transaction that first checks whether its server may make it: that it leads or, for a log whose newest
records only its disk has, that the row still names it (`tail_fence`). So late transactions of a former leader fail.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakebed.core.errors import Fenced
from lakebed.core.shared_runs import SharedRuns
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.seam import MetaStore, Reader, Transaction
from lakebed.storage.seam import Key
from lakebed.streams.seam import TableBucket

__all__ = ["Fence", "LogRow", "LogRows", "sample_manifests", "tail_fence"]

Fence: TypeAlias = Callable[[Reader], Awaitable[int]]
"""Returns the epoch if its server is the stream leader. Raises Fenced otherwise."""

_FIND = """
SELECT epoch, tail_server, manifest, recorded_end FROM stream_logs
WHERE table_id = ? AND partition_id = ? AND bucket = ?
"""
_CLAIM = """
INSERT INTO stream_logs (table_id, partition_id, bucket, folder, epoch, tail_server, manifest, uploaded_end)
VALUES (?, ?, ?, ?, ?, '', '', 0)
ON CONFLICT (table_id, partition_id, bucket) DO UPDATE SET epoch = excluded.epoch
"""
_KEEP_TAIL = """
UPDATE stream_logs SET tail_server = ?, uploaded_end = ?, recorded_end = ?
WHERE table_id = ? AND partition_id = ? AND bucket = ?
"""
_RECORD_END = "UPDATE stream_logs SET recorded_end = ? WHERE table_id = ? AND partition_id = ? AND bucket = ?"
_PUBLISH = """
UPDATE stream_logs SET manifest = ?, uploaded_end = ? WHERE table_id = ? AND partition_id = ? AND bucket = ?
"""
_RELEASE_TAIL = "UPDATE stream_logs SET tail_server = '' WHERE table_id = ? AND partition_id = ? AND bucket = ?"
_FOLDERS_OF_TABLE = "SELECT folder FROM stream_logs WHERE table_id = ? ORDER BY folder"
_FOLDERS_OF_PARTITION = "SELECT folder FROM stream_logs WHERE table_id = ? AND partition_id = ? ORDER BY folder"
_MANIFESTS = """
SELECT bucket, manifest FROM stream_logs WHERE table_id = ? AND partition_id = ? AND manifest <> '' ORDER BY bucket
"""
_ALL = "SELECT table_id, partition_id, bucket, tail_server FROM stream_logs ORDER BY table_id, partition_id, bucket"
_TAILS_ELSEWHERE = "SELECT table_id, partition_id, bucket FROM stream_logs WHERE tail_server <> '' AND tail_server <> ?"
_SAMPLE_MANIFESTS = "SELECT manifest FROM stream_logs WHERE manifest <> '' ORDER BY table_id DESC LIMIT ?"
_TAILS_ON = """
SELECT table_id, partition_id, bucket FROM stream_logs WHERE tail_server = ? AND tail_server <> ''
ORDER BY table_id, partition_id, bucket
"""
_REMOVE_TABLE = "DELETE FROM stream_logs WHERE table_id = ?"
_REMOVE_PARTITION = "DELETE FROM stream_logs WHERE table_id = ? AND partition_id = ?"


async def sample_manifests(reader: Reader, limit: int) -> list[Key]:
    """Keys of manifests in the object store, those of the newest tables first."""
    return [Key(row[0]) for row in await reader.rows(_SAMPLE_MANIFESTS, limit)]


@dataclass(frozen=True, slots=True)
class LogRow:
    """The state of a log."""

    epoch: int = 0
    tail_server: str = ""
    """The server whose disk alone may have acknowledged records; empty if the object store has all of them.

    While it is set, no other server opens the log, so that server's files are the log."""
    manifest: str = ""
    recorded_end: int = -1
    """The end of the log as last recorded by the tail server; -1 if it was never recorded."""


class LogRows:
    """Reads log rows and, on the leader, changes them."""

    def __init__(self, store: MetaStore, fence: Fence) -> None:
        self._store = store
        self._fence = fence
        self._checks = SharedRuns(self._check)

    def fenced_by(self, fence: Fence) -> LogRows:
        """The same rows with another fence for changes."""
        return LogRows(self._store, fence)

    async def find(self, bucket: TableBucket, reader: Reader | None = None) -> LogRow:
        """The row of a log; a default row if it was never opened."""
        found = await (reader or self._store).row(_FIND, *_key(bucket))
        return LogRow() if found is None else LogRow(*found)

    async def check(self) -> None:
        """Return if this server could change rows at some time after the call. Raises Fenced.

        Unlike the server's clock, the metadata store knows whether another server leads. Concurrent calls share reads.
        """
        await self._checks.wait()

    async def _check(self) -> None:
        await self._fence(self._store)

    async def claim(self, bucket: TableBucket, folder: str, server: str) -> tuple[LogRow, int]:
        """Open a log here. Returns its previous row and the current epoch.

        Raises LEADER_NOT_AVAILABLE if only another server's disk has some of its acknowledged records.
        """

        async def work(tx: Transaction) -> tuple[LogRow, int]:
            epoch = await self._fence(tx)
            row = await self.find(bucket, tx)
            if row.tail_server not in ("", server):
                raise FlussError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    "only the disk of another server has some acknowledged records of this bucket: start that server, "
                    "or see `lakebed streams status`. "
                    f"server={row.tail_server} table_id={bucket.table_id} bucket={bucket.bucket}",
                )
            await tx.run(_CLAIM, *_key(bucket), folder, epoch)
            return row, epoch

        return await self._store.transact(work)

    async def keep_tail(self, bucket: TableBucket, server: str, uploaded_end: int, end: int) -> None:
        """Record that acknowledged records may be on this server's disk only.

        Call it only once its files contain all records acknowledged before.
        """

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            await tx.run(_KEEP_TAIL, server, uploaded_end, end, *_key(bucket))

        await self._store.transact(work)

    async def record_ends(self, ends: Sequence[tuple[TableBucket, int]]) -> None:
        """Record the ends of logs whose tail is on this disk only: how much the loss of the disk would cost."""

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            for bucket, end in ends:
                await tx.run(_RECORD_END, end, *_key(bucket))

        await self._store.transact(work)

    async def manifest(self, bucket: TableBucket) -> str:
        """The key that was last published. Raises Fenced if this server does not lead."""

        async def work(tx: Transaction) -> str:
            await self._fence(tx)
            return (await self.find(bucket, tx)).manifest

        return await self._store.transact(work)

    async def publish(self, bucket: TableBucket, manifest: str, uploaded_end: int) -> None:
        """Record a manifest, and that all records before `uploaded_end` are in the object store."""

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            await tx.run(_PUBLISH, manifest, uploaded_end, *_key(bucket))

        await self._store.transact(work)

    async def release_tail(self, bucket: TableBucket) -> None:
        """Record that all acknowledged records are in the object store."""

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            await tx.run(_RELEASE_TAIL, *_key(bucket))

        await self._store.transact(work)

    async def manifests(self, table_id: int, partition_id: int | None) -> list[tuple[int, str]]:
        """For each bucket with a manifest, its number and the manifest's key."""
        return [(row[0], row[1]) for row in await self._store.rows(_MANIFESTS, table_id, partition_id or 0)]

    async def all(self) -> list[tuple[TableBucket, str]]:
        """All buckets that were ever opened, each with its tail server or an empty string."""
        return [
            (TableBucket(table, part or None, bucket), tail)
            for table, part, bucket, tail in await self._store.rows(_ALL)
        ]

    async def with_tail_elsewhere(self, server: str) -> list[TableBucket]:
        """Buckets whose newest records are on another server's disk only: they cannot be opened here."""
        return [
            TableBucket(table, part or None, bucket)
            for table, part, bucket in await self._store.rows(_TAILS_ELSEWHERE, server)
        ]

    async def with_tail_on(self, server: str) -> list[TableBucket]:
        """Buckets whose newest records are on this server's disk only."""
        return [
            TableBucket(table, part or None, bucket)
            for table, part, bucket in await self._store.rows(_TAILS_ON, server)
        ]

    async def folders(self, table_id: int, partition_id: int | None) -> list[str]:
        """The folders of the remote logs of a table or partition."""
        if partition_id is None:
            found = await self._store.rows(_FOLDERS_OF_TABLE, table_id)
        else:
            found = await self._store.rows(_FOLDERS_OF_PARTITION, table_id, partition_id)
        return [row[0] for row in found]

    async def remove(self, table_id: int, partition_id: int | None) -> None:
        """Delete the log rows of a table or partition."""

        async def work(tx: Transaction) -> None:
            if partition_id is None:
                await tx.run(_REMOVE_TABLE, table_id)
            else:
                await tx.run(_REMOVE_PARTITION, table_id, partition_id)

        await self._store.transact(work)


def tail_fence(bucket: TableBucket, row: LogRow) -> Fence:
    """A fence for a tail server that does not lead: passes while the log row still names it.

    `row` is what the server read. No other server opens the log before the row changes, so writes under this fence
    cannot come between the records of another.
    """

    async def check(reader: Reader) -> int:
        found = await reader.row(_FIND, *_key(bucket))
        if found is None or tuple(found[:2]) != (row.epoch, row.tail_server):
            raise Fenced(f"log was dropped, or its server was given up. server={row.tail_server} bucket={bucket}")
        return row.epoch

    return check


def _key(bucket: TableBucket) -> tuple[int, int, int]:
    return bucket.table_id, bucket.partition_id or 0, bucket.bucket
