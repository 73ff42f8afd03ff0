"""Rows of KV snapshots and their leases: which snapshots exist, and which are deleted.

The newest few of a bucket are kept, and those with a lease. Files that no row references are orphans.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction
from lakebed.streams.seam import TableBucket

__all__ = ["Fence", "KvSnapshot", "KvSnapshots", "SnapshotFile"]

Fence = Callable[[Transaction], Awaitable[None]]
"""Raises Fenced if another server leads."""

RETAINED: Final = 2

_BUCKET: Final = "table_id = ? AND partition_id = ? AND bucket = ?"
_COLUMNS: Final = "table_id, partition_id, bucket, id, log_offset, row_count, lineage, files"
_INSERT: Final = f"INSERT INTO stream_key_snapshots ({_COLUMNS}, taken_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_OF_BUCKET: Final = f"SELECT {_COLUMNS} FROM stream_key_snapshots WHERE {_BUCKET} ORDER BY id"  # noqa: S608
_OF_TABLE: Final = f"""
SELECT {_COLUMNS} FROM stream_key_snapshots WHERE table_id = ? AND partition_id = ? ORDER BY bucket, id
"""  # noqa: S608
_DELETE: Final = f"DELETE FROM stream_key_snapshots WHERE {_BUCKET} AND id = ?"  # noqa: S608
_LEASED: Final = f"""
SELECT DISTINCT d.snapshot_id FROM stream_key_leased d JOIN stream_key_leases l ON l.id = d.lease_id
WHERE {_BUCKET} AND l.expires_ms > ?
"""  # noqa: S608
_TERM: Final = """
INSERT INTO stream_key_leases (id, expires_ms) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET expires_ms = ?
"""
_HOLD: Final = """
INSERT INTO stream_key_leased (lease_id, table_id, partition_id, bucket, snapshot_id) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (lease_id, table_id, partition_id, bucket) DO UPDATE SET snapshot_id = ?
"""
_RELEASE: Final = f"DELETE FROM stream_key_leased WHERE lease_id = ? AND {_BUCKET}"  # noqa: S608
_DROP: Final = "DELETE FROM stream_key_leases WHERE id = ?"
_EXPIRE: Final = "DELETE FROM stream_key_leases WHERE expires_ms <= ?"
_HELD: Final = """
SELECT count(DISTINCT l.id), count(d.snapshot_id) FROM stream_key_leases l LEFT JOIN stream_key_leased d
ON d.lease_id = l.id WHERE l.expires_ms > ?
"""


class SnapshotFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of a snapshot: its name in the folder, and its object key."""

    name: str
    key: str
    size_bytes: int


_encode_files = msgspec.msgpack.Encoder().encode
_decode_files = msgspec.msgpack.Decoder(tuple[SnapshotFile, ...]).decode


@dataclass(frozen=True, slots=True)
class KvSnapshot:
    """A snapshot of a bucket's KV index at `log_offset`."""

    bucket: TableBucket
    id: int
    log_offset: int
    row_count: int | None
    lineage: str
    files: tuple[SnapshotFile, ...]


class KvSnapshots:
    """The KV snapshots of all buckets."""

    def __init__(self, meta: MetaStore, clock: Clock, retained: int = RETAINED) -> None:
        self._meta = meta
        self._clock = clock
        self._retained = retained

    async def latest(self, bucket: TableBucket) -> KvSnapshot | None:
        """The newest snapshot of a bucket."""
        found = await self._of(self._meta, bucket)
        return found[-1] if found else None

    async def listed(self, table_id: int, partition_id: int | None) -> list[KvSnapshot]:
        """All snapshots of a table or partition, by bucket and age."""
        return [_snapshot(row) for row in await self._meta.rows(_OF_TABLE, table_id, partition_id or 0)]

    async def get(self, bucket: TableBucket, snapshot_id: int) -> KvSnapshot:
        """A snapshot by id. Error codes: KV_SNAPSHOT_NOT_EXIST."""
        for snapshot in await self._of(self._meta, bucket):
            if snapshot.id == snapshot_id:
                return snapshot
        raise FlussError(
            ErrorCode.KV_SNAPSHOT_NOT_EXIST, f"no such KV snapshot. bucket={bucket} snapshot_id={snapshot_id}"
        )

    async def all(self, bucket: TableBucket, fence: Fence) -> list[KvSnapshot]:
        """All snapshots of a bucket. Raises Fenced if another server leads."""

        async def work(tx: Transaction) -> list[KvSnapshot]:
            await fence(tx)
            return await self._of(tx, bucket)

        return await self._meta.transact(work)

    async def add(self, snapshot: KvSnapshot, fence: Fence) -> None:
        """Add a snapshot whose files are uploaded, and delete the rows of those that are no longer retained."""
        now_ms = self._clock.now_ms()
        path = _path(snapshot.bucket)

        async def work(tx: Transaction) -> None:
            await fence(tx)
            files = _encode_files(snapshot.files)
            await tx.run(
                _INSERT, *path, snapshot.id, snapshot.log_offset, snapshot.row_count, snapshot.lineage, files, now_ms
            )
            await tx.run(_EXPIRE, now_ms)
            leased = {int(row[0]) for row in await tx.rows(_LEASED, *path, now_ms)}
            found = await self._of(tx, snapshot.bucket)
            kept = [each for each in found[: -self._retained] if each.id in leased] + found[-self._retained :]
            for each in found:
                if each not in kept:
                    await tx.run(_DELETE, *path, each.id)

        await self._meta.transact(work)

    async def lease(
        self, lease_id: str, duration_ms: int, snapshots: Sequence[tuple[TableBucket, int]]
    ) -> list[tuple[TableBucket, int]]:
        """Extend a lease and add snapshots to it. Returns those that do not exist."""
        if not lease_id or duration_ms <= 0:
            raise FlussError(
                ErrorCode.INVALID_CONFIG, f"expected a lease id and a positive duration. duration_ms={duration_ms}"
            )
        expires_ms = self._clock.now_ms() + duration_ms

        async def work(tx: Transaction) -> list[tuple[TableBucket, int]]:
            await tx.run(_TERM, lease_id, expires_ms, expires_ms)
            missing = []
            for bucket, snapshot_id in snapshots:
                if any(each.id == snapshot_id for each in await self._of(tx, bucket)):
                    await tx.run(_HOLD, lease_id, *_path(bucket), snapshot_id, snapshot_id)
                else:
                    missing.append((bucket, snapshot_id))
            return missing

        return await self._meta.transact(work)

    async def release(self, lease_id: str, buckets: Sequence[TableBucket]) -> None:
        """Remove the snapshots of these buckets from a lease. Idempotent."""

        async def work(tx: Transaction) -> None:
            for bucket in buckets:
                await tx.run(_RELEASE, lease_id, *_path(bucket))

        await self._meta.transact(work)

    async def drop_lease(self, lease_id: str) -> None:
        """Drop a lease. Idempotent."""

        async def work(tx: Transaction) -> None:
            await tx.run(_DROP, lease_id)

        await self._meta.transact(work)

    async def lease_counts(self) -> tuple[int, int]:
        """The numbers of leases and of leased snapshots."""
        row = await self._meta.row(_HELD, self._clock.now_ms())
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    async def _of(self, reader: Reader, bucket: TableBucket) -> list[KvSnapshot]:
        return [_snapshot(row) for row in await reader.rows(_OF_BUCKET, *_path(bucket))]


def _path(bucket: TableBucket) -> tuple[int, int, int]:
    return bucket.table_id, bucket.partition_id or 0, bucket.bucket


def _snapshot(row: Row) -> KvSnapshot:
    table_id, partition_id, bucket, id_, log_offset, row_count, lineage, files = row
    return KvSnapshot(
        TableBucket(int(table_id), int(partition_id) or None, int(bucket)),
        int(id_),
        int(log_offset),
        None if row_count is None else int(row_count),
        str(lineage),
        _decode_files(files),
    )
