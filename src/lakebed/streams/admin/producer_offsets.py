"""Producer offsets: registered once under a job's name, so that a restarted job can undo later writes.

The first registration of a name wins; later ones are rejected and the job reads the first. Registrations expire.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.model import Caller

from ..authorization import StreamAuthorizer, StreamOperation
from ..cluster_configs import ClusterConfigs
from ..seam import TableBucket
from ..tables import StreamTables

__all__ = ["BucketOffset", "ProducerOffsets", "RegisteredOffsets"]

MAX_OFFSETS: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}")

_FIND: Final = "SELECT offsets, expires_ms FROM stream_producers WHERE id = ? AND expires_ms > ?"
_INSERT: Final = "INSERT INTO stream_producers (id, offsets, expires_ms) VALUES (?, ?, ?)"
_DELETE: Final = "DELETE FROM stream_producers WHERE id = ?"
_EXPIRE: Final = "DELETE FROM stream_producers WHERE expires_ms <= ?"


@dataclass(frozen=True, slots=True)
class BucketOffset:
    """The end of a job's writes to a bucket."""

    bucket: TableBucket
    offset: int


@dataclass(frozen=True, slots=True)
class RegisteredOffsets:
    """The offsets registered under a name."""

    offsets: tuple[BucketOffset, ...]
    expires_ms: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, int | None, int, int]]).decode


class ProducerOffsets:
    """Registers, reads and deletes producer offsets."""

    def __init__(
        self, meta: MetaStore, clock: Clock, authorizer: StreamAuthorizer, tables: StreamTables, configs: ClusterConfigs
    ) -> None:
        self._meta = meta
        self._clock = clock
        self._authorizer = authorizer
        self._tables = tables
        self._configs = configs

    async def register(
        self, caller: Caller, name: str, offsets: Sequence[BucketOffset], ttl_ms: int | None = None
    ) -> bool:
        """Register offsets unless the name is registered; whether they were.

        Error codes: INVALID_PRODUCER_ID, INVALID_CONFIG, UNKNOWN_TABLE_OR_BUCKET.
        """
        _check_name(name)
        if ttl_ms is not None and ttl_ms <= 0:
            raise FlussError(ErrorCode.INVALID_CONFIG, f"expected a positive time to live. ttl_ms={ttl_ms}")
        if len(offsets) > MAX_OFFSETS:
            raise FlussError(ErrorCode.INVALID_CONFIG, f"too many buckets. limit={MAX_OFFSETS}")
        await self._authorize(caller, StreamOperation.WRITE, offsets)
        if ttl_ms is None:
            ttl_ms = await self._configs.number("coordinator.producer-offsets.ttl")
        now_ms = self._clock.now_ms()
        packed = _pack(offsets)

        async def work(tx: Transaction) -> bool:
            if await tx.row(_FIND, name, now_ms) is not None:
                return False
            await tx.run(_DELETE, name)
            await tx.run(_INSERT, name, packed, now_ms + ttl_ms)
            return True

        return await self._meta.transact(work)

    async def get(self, caller: Caller, name: str) -> RegisteredOffsets | None:
        """The registered offsets; None if there are none, or they expired. Error codes: INVALID_PRODUCER_ID."""
        _check_name(name)
        row = await self._meta.row(_FIND, name, self._clock.now_ms())
        if row is None:
            await self._authorizer.authorize(caller, StreamOperation.DESCRIBE)
            return None
        found = _unpack(row[0])
        await self._authorize(caller, StreamOperation.READ, found, if_exists=True)
        return RegisteredOffsets(found, row[1])

    async def delete(self, caller: Caller, name: str) -> None:
        """Delete a registration. Idempotent. Error codes: INVALID_PRODUCER_ID."""
        _check_name(name)
        row = await self._meta.row(_FIND, name, self._clock.now_ms())
        if row is None:
            return
        found = _unpack(row[0])
        await self._authorize(caller, StreamOperation.WRITE, found, if_exists=True)

        async def work(tx: Transaction) -> None:
            await tx.run(_DELETE, name)

        await self._meta.transact(work)

    async def expire(self) -> int:
        """Remove expired registrations; how many."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> int:
            return await tx.run(_EXPIRE, now_ms)

        return await self._meta.transact(work)

    async def _authorize(
        self, caller: Caller, operation: StreamOperation, offsets: Sequence[BucketOffset], *, if_exists: bool = False
    ) -> None:
        """Authorize the operation on each table. With `if_exists`, dropped tables are skipped."""
        for table_id in sorted({each.bucket.table_id for each in offsets}):
            try:
                path = (await self._tables.by_id(table_id)).path
            except FlussError as failure:
                if if_exists and failure.code is ErrorCode.UNKNOWN_TABLE_OR_BUCKET:
                    continue
                raise
            await self._authorizer.authorize(caller, operation, *path)


def _pack(offsets: Sequence[BucketOffset]) -> bytes:
    return _encode(
        [(each.bucket.table_id, each.bucket.partition_id, each.bucket.bucket, each.offset) for each in offsets]
    )


def _unpack(packed: bytes) -> tuple[BucketOffset, ...]:
    return tuple(
        BucketOffset(TableBucket(table_id, partition_id, bucket), offset)
        for table_id, partition_id, bucket, offset in _decode(packed)
    )


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise FlussError(ErrorCode.INVALID_PRODUCER_ID, f"invalid producer id. producer_id={name[:255]!r}")
