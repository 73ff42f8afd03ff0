"""How much there is of streams, counted now and then: for metrics, and for who looks after the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..buckets import OpenBucket
from ..keys.snapshots import KeySnapshots
from ..partitions import Partitions
from ..tables import Tables
from .lake import Lake, is_tiered

__all__ = ["Census", "CensusTaker"]


@dataclass(frozen=True, slots=True)
class Census:
    """What was counted."""

    tables: int = 0
    keyed_tables: int = 0
    partitions: int = 0
    buckets: int = 0
    open_buckets: int = 0
    records: int = 0
    """Of the logs that are open: what can be read of them."""

    lake_tables: Mapping[str, int] = field(default_factory=dict)
    """By what they wait for."""

    lake_failures: int = 0
    pending_records: int = 0
    """Of the logs that are open and of tables of the lake: what is not in it yet."""

    leases: int = 0
    leased_snapshots: int = 0


class CensusTaker:
    """Counts."""

    def __init__(
        self,
        tables: Tables,
        partitions: Partitions,
        opened: Iterable[OpenBucket],
        lake: Lake,
        snapshots: KeySnapshots,
    ) -> None:
        """`opened` are the buckets that are open, each time that it is gone through."""
        self._tables = tables
        self._partitions = partitions
        self._opened = opened
        self._lake = lake
        self._snapshots = snapshots

    async def take(self) -> Census:
        """Count all there is. It reads a few rows for each table, and nothing of records."""
        tables = await self._tables.all()
        partitions = buckets = 0
        tiered = {}
        for table in tables:
            parts = len(await self._partitions.of(table)) if table.is_partitioned else 0
            partitions += parts
            buckets += table.bucket_count * (parts if table.is_partitioned else 1)
            if is_tiered(table):
                tiered[table.id] = await self._lake.offsets(table.id)
        opened = list(self._opened)
        pending = 0
        for each in opened:
            offsets = tiered.get(each.bucket.table_id)
            if offsets is not None:
                start = each.log.start_offset
                reached = offsets.get((each.bucket.partition_id, each.bucket.bucket), start)
                pending += max(each.log.stable_offset - max(reached, start), 0)
        waiting = self._lake.tiering.tables.values()
        leases, leased = await self._snapshots.held()
        return Census(
            tables=len(tables),
            keyed_tables=sum(table.is_keyed for table in tables),
            partitions=partitions,
            buckets=buckets,
            open_buckets=len(opened),
            records=sum(each.log.stable_offset - each.log.start_offset for each in opened),
            lake_tables=Counter(table.state.value for table in waiting),
            lake_failures=sum(table.failures for table in waiting),
            pending_records=pending,
            leases=leases,
            leased_snapshots=leased,
        )
