"""How much there is of streams, counted now and then: for metrics, and for who looks after the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..buckets import OpenBucket
from ..keys.snapshots import KeySnapshots
from ..partitions import Partitions
from ..tables import Tables
from .lake import Lake, is_tiered, pending_records

__all__ = ["Census", "CensusTaker", "TableCount"]

TABLES: Final = 100
"""How many tables are counted one by one."""


@dataclass(frozen=True, slots=True)
class TableCount:
    """What was counted of the open logs of one table."""

    table: str
    readable: int
    written: int
    """Ever: what was let go of is among them."""

    pending: int
    """Not in the lake yet; of a table that is not tiered, none."""


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
    by_table: Sequence[TableCount] = ()
    """Of the first `TABLES` tables that there are."""


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
        counts = {table.id: _Count() for table in tables}
        for each in opened:
            # Its table may have been dropped while we counted.
            counts.setdefault(each.bucket.table_id, _Count()).add(each, tiered.get(each.bucket.table_id))
        waiting = self._lake.tiering.tables.values()
        leases, leased = await self._snapshots.held()
        return Census(
            tables=len(tables),
            keyed_tables=sum(table.is_keyed for table in tables),
            partitions=partitions,
            buckets=buckets,
            open_buckets=len(opened),
            records=sum(each.readable for each in counts.values()),
            lake_tables=Counter(table.state.value for table in waiting),
            lake_failures=sum(table.failures for table in waiting),
            pending_records=sum(each.pending for each in counts.values()),
            leases=leases,
            leased_snapshots=leased,
            by_table=[
                TableCount(
                    str(table.path), counts[table.id].readable, counts[table.id].written, counts[table.id].pending
                )
                for table in tables[:TABLES]
            ],
        )


class _Count:
    """The open logs of one table, added up."""

    def __init__(self) -> None:
        self.readable = self.written = self.pending = 0

    def add(self, opened: OpenBucket, lake: Mapping[tuple[int | None, int], int] | None) -> None:
        """Count one more; `lake` is how far the table is there, if it is tiered."""
        start, end = opened.log.start_offset, opened.log.stable_offset
        self.readable += end - start
        self.written += end
        if lake is not None:
            self.pending += pending_records(opened, lake)
