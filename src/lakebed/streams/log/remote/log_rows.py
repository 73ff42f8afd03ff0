"""Rows of logs in the metadata store: which server has a log's newest records, and what the object store has of it.

Every change is a transaction that checks first whether its server may make it: that it still is the leader, or, of a
log whose newest records only its disk has, that the row still names it (`tail_fence`). A former leader changes nothing,
however late its transaction comes.
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
"""Raises Fenced unless its server is the home of streams; the epoch, if it is."""

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
_ELSEWHERE = "SELECT table_id, partition_id, bucket FROM stream_logs WHERE tail_server <> '' AND tail_server <> ?"
_SAMPLE_MANIFESTS = "SELECT manifest FROM stream_logs WHERE manifest <> '' ORDER BY table_id DESC LIMIT ?"
_HELD = """
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
    """What is known of a log wherever it is."""

    epoch: int = 0
    tail_server: str = ""
    """The server whose disk alone may have acknowledged records; empty if the object store has all of them.

    While a server is named here no other opens the log. So that server's files are the log, and no other's."""
    manifest: str = ""
    recorded_end: int = -1
    """The end of the log when the tail server last recorded it; -1 if it never did."""


class LogRows:
    """The rows, changed by the home of streams alone."""

    def __init__(self, store: MetaStore, fence: Fence) -> None:
        self._store = store
        self._fence = fence
        self._checks = SharedRuns(self._check)

    def fenced_by(self, fence: Fence) -> LogRows:
        """The same rows, changed under another fence."""
        return LogRows(self._store, fence)

    async def find(self, bucket: TableBucket, reader: Reader | None = None) -> LogRow:
        """A log's row; that of one that was never opened if there is none."""
        found = await (reader or self._store).row(_FIND, *_key(bucket))
        return LogRow() if found is None else LogRow(*found)

    async def check(self) -> None:
        """Return if this server could change rows at some moment after the call. Raises Fenced.

        Unlike its clock, the metadata store knows that no other server has begun to lead. Calls share their reads.
        """
        await self._checks.wait()

    async def _check(self) -> None:
        await self._fence(self._store)

    async def claim(self, bucket: TableBucket, folder: str, server: str) -> tuple[LogRow, int]:
        """Open a log here: what its row said before, and the epoch now.

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
        """From now on this server's disk may alone have acknowledged records.

        Only once its files have all that was acknowledged before: from then on they are the log.
        """

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            await tx.run(_KEEP_TAIL, server, uploaded_end, end, *_key(bucket))

        await self._store.transact(work)

    async def record_ends(self, ends: Sequence[tuple[TableBucket, int]]) -> None:
        """Record how far logs reach whose tail is on this server's disk alone: it is what a lost disk would lose."""

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            for bucket, end in ends:
                await tx.run(_RECORD_END, end, *_key(bucket))

        await self._store.transact(work)

    async def manifest(self, bucket: TableBucket) -> str:
        """What `publish` was told last, if we are the home."""

        async def work(tx: Transaction) -> str:
            await self._fence(tx)
            return (await self.find(bucket, tx)).manifest

        return await self._store.transact(work)

    async def publish(self, bucket: TableBucket, manifest: str, uploaded_end: int) -> None:
        """The object store has what is listed under this key, and all records before `uploaded_end`."""

        async def work(tx: Transaction) -> None:
            await self._fence(tx)
            await tx.run(_PUBLISH, manifest, uploaded_end, *_key(bucket))

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

    async def held(self, server: str) -> list[TableBucket]:
        """The buckets whose newest records only this server's disk has."""
        return [
            TableBucket(table, part or None, bucket) for table, part, bucket in await self._store.rows(_HELD, server)
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


def tail_fence(bucket: TableBucket, row: LogRow) -> Fence:
    """A fence for a tail server that is not the leader: passes as long as the log's row still names it.

    `row` is what the server read. No other server opens the log before the row changes, so nothing it writes under this
    fence can come between the records of another.
    """

    async def check(reader: Reader) -> int:
        found = await reader.row(_FIND, *_key(bucket))
        if found is None or tuple(found[:2]) != (row.epoch, row.tail_server):
            raise Fenced(f"the log was dropped, or its server was given up. server={row.tail_server} bucket={bucket}")
        return row.epoch

    return check


def _key(bucket: TableBucket) -> tuple[int, int, int]:
    return bucket.table_id, bucket.partition_id or 0, bucket.bucket
