"""Partitions of stream tables: create, list, look up, drop.

A partition's name is the values of the partition keys, in order, joined by `$`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.core.clock import Clock
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.model import Caller

from .authorization import StreamAuthorizer, StreamOperation
from .cluster_configs import ClusterConfigs
from .events import append_event
from .log.writer_state import FORGET_WRITERS_AFTER_MS
from .names import check_partition_value
from .table import StreamTable
from .tables import StreamTables

__all__ = ["StreamPartition", "StreamPartitions", "partition_name"]

SEPARATOR: Final = "$"

_COLUMNS: Final = """
SELECT p.id, p.table_id, p.name, p.created_ms, d.dropped_ms FROM stream_partitions p
LEFT JOIN stream_dropped_partitions d ON d.table_id = p.table_id AND d.name = p.name
"""
_BY_NAME: Final = f"{_COLUMNS} WHERE p.table_id = ? AND p.name = ?"
_BY_ID: Final = f"{_COLUMNS} WHERE p.id = ?"
_OF_TABLE: Final = f"{_COLUMNS} WHERE p.table_id = ? ORDER BY p.id"
_COUNT: Final = "SELECT COUNT(*) FROM stream_partitions WHERE table_id = ?"
_INSERT: Final = """
INSERT INTO stream_partitions (table_id, name, created_ms) VALUES (?, ?, ?)
ON CONFLICT (table_id, name) DO NOTHING RETURNING id
"""
_HAS_TABLE: Final = "SELECT 1 FROM stream_tables WHERE id = ?"
_INSERT_DROPPED: Final = """
INSERT INTO stream_dropped (table_id, partition_id, database_name, table_name, partition_name, dropped_ms)
VALUES (?, ?, ?, ?, ?, ?)
"""
_DELETE: Final = "DELETE FROM stream_partitions WHERE id = ?"
_RECORD_DROP: Final = """
INSERT INTO stream_dropped_partitions (table_id, name, dropped_ms) VALUES (?, ?, ?)
ON CONFLICT (table_id, name) DO UPDATE SET dropped_ms = excluded.dropped_ms
"""
_DELETE_OLD_DROPS: Final = "DELETE FROM stream_dropped_partitions WHERE table_id = ? AND dropped_ms < ?"

Dropped = Callable[[int, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StreamPartition:
    """An existing partition."""

    id: int
    table_id: int
    name: str
    created_ms: int
    predecessor_dropped_ms: int | None = None
    """When the last partition of this name was dropped, if that is within the time that writers are remembered."""

    def values(self, table: StreamTable) -> Mapping[str, str]:
        """The values by partition key."""
        return dict(zip(table.definition.partition_keys, self.name.split(SEPARATOR), strict=True))


def partition_name(table: StreamTable, spec: Mapping[str, str]) -> str:
    """The name of the partition with these values. Error codes: TABLE_NOT_PARTITIONED, PARTITION_SPEC_INVALID."""
    _check_partitioned(table)
    keys = table.definition.partition_keys
    if set(spec) != set(keys):
        raise FlussError(
            ErrorCode.PARTITION_SPEC_INVALID,
            f"expected a value for each partition key. keys={list(keys)} found={sorted(spec)}",
        )
    for value in spec.values():
        check_partition_value(value)
    return SEPARATOR.join(spec[key] for key in keys)


class StreamPartitions:
    """Creates, finds and drops partitions, with a cache that is valid on the leader."""

    def __init__(
        self,
        meta: MetaStore,
        outbox: Outbox,
        clock: Clock,
        authorizer: StreamAuthorizer,
        tables: StreamTables,
        configs: ClusterConfigs,
    ) -> None:
        self._configs = configs
        self._meta = meta
        self._outbox = outbox
        self._clock = clock
        self._authorizer = authorizer
        self._tables = tables
        self._by_id: dict[int, StreamPartition] = {}
        self._drops = 0
        """Incremented by each drop: a row read before a drop may be of a dropped partition."""
        self._on_dropped: list[Dropped] = []
        self._is_cache_valid: Callable[[], bool] = lambda: True

    def cache_while(self, is_cache_valid: Callable[[], bool]) -> None:
        """Bypass the cache while `is_cache_valid` returns False: another server may drop partitions."""
        self._is_cache_valid = is_cache_valid

    def on_dropped(self, callback: Dropped) -> None:
        """Await `callback` with the ids of table and partition after each drop."""
        self._on_dropped.append(callback)

    def forget_all(self) -> None:
        """Clear the cache: another server may have led."""
        self._drops += 1
        self._by_id.clear()

    def forget_table(self, table_id: int) -> None:
        """Remove a dropped table's partitions from the cache."""
        self._drops += 1
        for partition in [found for found in self._by_id.values() if found.table_id == table_id]:
            del self._by_id[partition.id]

    async def by_id(self, partition_id: int) -> StreamPartition:
        """The partition, without a permission check.

        Error codes: UNKNOWN_TABLE_OR_BUCKET. Clients take it as stale metadata and look the partition up by its name.
        """
        found = self._by_id.get(partition_id)
        if found is not None and self._is_cache_valid():
            return found
        drops = None
        row = None
        while drops != self._drops:
            # A drop during the read may be of this partition: cached, it would be opened again.
            drops = self._drops
            row = await self._meta.row(_BY_ID, partition_id)
        if row is None:
            self._by_id.pop(partition_id, None)
            raise FlussError(ErrorCode.UNKNOWN_TABLE_OR_BUCKET, f"unknown partition. partition_id={partition_id}")
        return self._by_id.setdefault(partition_id, StreamPartition(*row))

    async def by_name(self, table: StreamTable, name: str) -> StreamPartition:
        """The partition, without a permission check. Error codes: TABLE_NOT_PARTITIONED, PARTITION_NOT_EXISTS."""
        _check_partitioned(table)
        row = await self._meta.row(_BY_NAME, table.id, name)
        if row is None:
            raise _no_partition(table, name)
        return StreamPartition(*row)

    async def of(self, table: StreamTable) -> Sequence[StreamPartition]:
        """All partitions of a table by id, without a permission check."""
        return [StreamPartition(*row) for row in await self._meta.rows(_OF_TABLE, table.id)]

    async def ids(self, table: StreamTable) -> Sequence[int | None]:
        """The ids of a table's partitions; only None for a table that is not partitioned."""
        return [partition.id for partition in await self.of(table)] if table.is_partitioned else [None]

    async def list(
        self, caller: Caller, database: str, name: str, partial: Mapping[str, str] | None = None
    ) -> tuple[StreamTable, Sequence[StreamPartition]]:
        """The table and its partitions with these values.

        Error codes: TABLE_NOT_EXIST, TABLE_NOT_PARTITIONED.
        """
        table = await self._tables.get(caller, database, name)
        _check_partitioned(table)
        values = partial or {}
        if unknown := sorted(set(values) - set(table.definition.partition_keys)):
            raise FlussError(
                ErrorCode.PARTITION_SPEC_INVALID, f"no such partition keys. table={table.path} keys={unknown}"
            )
        found = await self.of(table)
        return table, [each for each in found if values.items() <= each.values(table).items()]

    async def create(
        self, caller: Caller, database: str, name: str, spec: Mapping[str, str], *, ignore_if_exists: bool = False
    ) -> None:
        """Create a partition, as writers do.

        Error codes: as `partition_name`; PARTITION_ALREADY_EXISTS, PARTITION_MAX_NUM.
        """
        await self._authorizer.authorize(caller, StreamOperation.WRITE, database, name)
        table = await self._tables.by_path(database, name)
        if not await self.add(caller, table, partition_name(table, spec)) and not ignore_if_exists:
            raise FlussError(
                ErrorCode.PARTITION_ALREADY_EXISTS, f"partition exists. table={table.path} partition={dict(spec)}"
            )

    async def add(self, caller: Caller, table: StreamTable, name: str) -> bool:
        """Create a partition of a valid name for an authorized caller; False if it exists."""
        now_ms, most = self._clock.now_ms(), await self._configs.number("max.partition.num")

        async def work(tx: Transaction) -> bool:
            if await tx.row(_HAS_TABLE, table.id) is None:
                raise FlussError(ErrorCode.TABLE_NOT_EXIST, f"no such table. table={table.path}")
            if await tx.row(_BY_NAME, table.id, name) is not None:
                return False
            count = await tx.row(_COUNT, table.id)
            if count is not None and count[0] >= most:
                raise FlussError(ErrorCode.PARTITION_MAX_NUM, f"too many partitions. table={table.path} limit={most}")
            row = await tx.row(_INSERT, table.id, name, now_ms)
            if row is None:
                return False
            await append_event(
                self._outbox,
                tx,
                "StreamPartitionCreated",
                caller,
                now_ms,
                *table.path,
                name,
                table_id=table.id,
                partition_id=int(row[0]),
            )
            return True

        return await self._meta.transact(work)

    async def drop(
        self, caller: Caller, database: str, name: str, spec: Mapping[str, str], *, ignore_if_not_exists: bool = False
    ) -> None:
        """Drop a partition with its records. Error codes: those of `partition_name`, PARTITION_NOT_EXISTS."""
        await self._authorizer.authorize(caller, StreamOperation.WRITE, database, name)
        table = await self._tables.by_path(database, name)
        partition = partition_name(table, spec)
        if not await self.remove(caller, table, partition) and not ignore_if_not_exists:
            raise _no_partition(table, partition)

    async def remove(self, caller: Caller, table: StreamTable, name: str) -> bool:
        """Drop a partition for an authorized caller; False if it does not exist."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> int | None:
            row = await tx.row(_BY_NAME, table.id, name)
            if row is None:
                return None
            partition = StreamPartition(*row)
            await tx.run(_INSERT_DROPPED, table.id, partition.id, *table.path, name, now_ms)
            await tx.run(_DELETE, partition.id)
            await tx.run(_DELETE_OLD_DROPS, table.id, now_ms - FORGET_WRITERS_AFTER_MS)
            await tx.run(_RECORD_DROP, table.id, name, now_ms)
            await append_event(
                self._outbox,
                tx,
                "StreamPartitionDropped",
                caller,
                now_ms,
                *table.path,
                name,
                table_id=table.id,
                partition_id=partition.id,
            )
            return partition.id

        partition_id = await self._meta.transact(work)
        if partition_id is None:
            return False
        self._drops += 1
        self._by_id.pop(partition_id, None)
        for callback in self._on_dropped:
            await callback(table.id, partition_id)
        return True


def _no_partition(table: StreamTable, name: str) -> FlussError:
    """The error of a lookup by name, with Fluss's message: clients show and compare it."""
    return FlussError(ErrorCode.PARTITION_NOT_EXISTS, f"Table partition '{table.path}(p={name})' does not exist.")


def _check_partitioned(table: StreamTable) -> None:
    if not table.is_partitioned:
        raise FlussError(ErrorCode.TABLE_NOT_PARTITIONED, f"the table is not partitioned. table={table.path}")
