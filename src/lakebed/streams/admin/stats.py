"""How much there is, and whether it can be reached: rows of buckets, and the health of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from lakebed.objects.model import Caller

from ..buckets import Buckets
from ..failures import StreamFailure
from ..gate import Gate, Need
from ..partitions import Partitions
from ..tables import Tables

__all__ = ["BucketRows", "Health", "HealthStatus", "Stats"]


class HealthStatus(IntEnum):
    """How all buckets are, by the protocol's number."""

    GREEN = 0
    YELLOW = 1
    RED = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Health:
    """How many buckets there are, and how many of them can be written to."""

    buckets: int
    active: int

    @property
    def status(self) -> HealthStatus:
        """A bucket has one replica, its leader: it is in sync or it is not there."""
        return HealthStatus.GREEN if self.active == self.buckets else HealthStatus.RED


@dataclass(frozen=True, slots=True)
class BucketRows:
    """How many rows a bucket has, if that is known, or why that cannot be said."""

    partition_id: int | None
    bucket: int
    rows: int | None = None
    failure: StreamFailure | None = None


class Stats:
    """The use cases."""

    def __init__(
        self, gate: Gate, tables: Tables, partitions: Partitions, buckets: Buckets, is_home: Callable[[], bool]
    ) -> None:
        self._gate = gate
        self._tables = tables
        self._partitions = partitions
        self._buckets = buckets
        self._is_home = is_home

    async def table(
        self, caller: Caller, table_id: int, wanted: Sequence[tuple[int | None, int]]
    ) -> Sequence[BucketRows]:
        """Rows of these buckets: live keys, or records that the log has. Reasons: UNKNOWN_BUCKET for the table."""
        table = await self._tables.by_id(table_id)
        await self._gate.check(caller.principal, Need.READ, *table.path, request_id=caller.request_id)
        found = []
        for partition_id, number in wanted:
            try:
                opened = await self._buckets.get(table, partition_id, number)
            except StreamFailure as failure:
                found.append(BucketRows(partition_id, number, failure=failure))
                continue
            log, keys = opened.log, opened.keys
            rows = log.stable_offset - log.start_offset if keys is None else keys.row_count
            found.append(BucketRows(partition_id, number, rows))
        return found

    async def health(self, caller: Caller) -> Health:
        """Of all buckets, whether or not one was asked for since the start: what is not open can be opened."""
        await self._gate.check(caller.principal, Need.DESCRIBE, request_id=caller.request_id)
        count = 0
        for table in await self._tables.all():
            parts = len(await self._partitions.of(table)) if table.is_partitioned else 1
            count += parts * table.bucket_count
        return Health(count, count if self._is_home() else 0)
