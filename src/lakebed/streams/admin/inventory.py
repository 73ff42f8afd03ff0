"""The stream inventory: numbers of tables, buckets and records, sizes and lake lag, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakebed.core.clock import Clock

from ..buckets.log_maintenance import UploadCounts
from ..buckets.open_buckets import OpenBucket
from ..durations import Durations
from ..kv.snapshots import KvSnapshots
from ..lake.schedule import TieringState, TieringTable
from ..lake.service import LakeTiering, is_tiered, pending_records
from ..log.remote.remote_backed_log import RemoteBackedLog
from ..partitions import StreamPartitions
from ..table import StreamTable
from ..tables import StreamTables
from ..traffic import TableTraffic, Traffic
from .kv_sizes import KvSizeCollector, KvSizes
from .stats import ClusterHealth, ClusterHealthCheck

__all__ = ["InventoryCollector", "LakeTableStats", "StreamInventory", "TableInventory"]

TABLES: Final = 100
"""Maximum number of tables with per-table inventory."""


@dataclass(frozen=True, slots=True)
class LakeTableStats:
    """Lake tiering of a table. Unknown values are None."""

    freshness_ms: int
    """The table's freshness."""

    tiered_ms: int | None = None
    """The time as of which all records were in the lake."""

    age_ms: int | None = None
    """The time since `tiered_ms`."""

    lag_ms: int | None = None
    """From `tiered_ms` to the newest pending record: records of so long a time are missing."""

    waits_ms: int = 0
    """How long it has waited for a worker."""

    took_ms: int | None = None
    """Duration of the last round."""

    file_bytes: int | None = None
    records: int | None = None
    """As reported by the worker."""

    failures: int = 0

    @property
    def is_fresh(self) -> bool:
        """Whether the age is within the freshness."""
        return self.age_ms is not None and self.age_ms <= self.freshness_ms


@dataclass(frozen=True, slots=True)
class TableInventory:
    """The open logs and the KV index of one table."""

    table_id: int
    table: str
    readable: int = 0
    written: int = 0
    """Ever, removed records included."""

    pending: int = 0
    """Not yet tiered; 0 for a table that is not tiered."""

    log_bytes: int = 0
    """On this server's disk."""

    remote_bytes: int = 0
    """In the object store; local segments may be counted there too."""

    index_bytes: int = 0
    lake: LakeTableStats | None = None


@dataclass(frozen=True, slots=True)
class StreamInventory:
    """The numbers."""

    tables: int = 0
    kv_tables: int = 0
    partitions: int = 0
    health: ClusterHealth = field(default_factory=lambda: ClusterHealth(0, 0, 0))
    """Of all buckets."""

    open_buckets: int = 0
    segments: int = 0
    remote_segments: int = 0
    writers: int = 0
    """Of open logs: a writer to several buckets is counted for each."""

    records: int = 0
    """Of open logs: records that can be read."""

    log_bytes: int = 0
    remote_bytes: int = 0
    """Of open logs."""

    lake_tables: Mapping[str, int] = field(default_factory=dict)
    """By tiering state."""

    lake_failures: int = 0
    pending_records: int = 0
    """Of open logs of tiered tables: records not yet in the lake."""

    leases: int = 0
    leased_snapshots: int = 0
    kv: KvSizes = field(default_factory=KvSizes)
    uploads: UploadCounts = field(default_factory=UploadCounts)
    """Since the last inventory."""

    traffic: Mapping[int | None, TableTraffic] = field(default_factory=dict)
    """By table, since the last inventory."""

    flush_seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By kind (log, kv): the duration of each flush since the last inventory."""

    by_table: Sequence[TableInventory] = ()
    """Of the first `TABLES` tables."""


class InventoryCollector:
    """Collects the inventory."""

    def __init__(
        self,
        tables: StreamTables,
        partitions: StreamPartitions,
        opened: Iterable[OpenBucket],
        lake: LakeTiering,
        snapshots: KvSnapshots,
        clock: Clock,
        check: ClusterHealthCheck,
        kv_sizes: KvSizeCollector,
        take_uploads: Callable[[], UploadCounts] = UploadCounts,
        traffic: Traffic | None = None,
        flushes: Mapping[str, Durations] | None = None,
    ) -> None:
        """`opened` iterates over the open buckets. `take_uploads` returns the uploads since its last call."""
        self._tables = tables
        self._partitions = partitions
        self._opened = opened
        self._lake = lake
        self._snapshots = snapshots
        self._clock = clock
        self._check = check
        self._kv_sizes = kv_sizes
        self._take_uploads = take_uploads
        self._traffic = Traffic() if traffic is None else traffic
        self._flushes = {} if flushes is None else flushes

    async def take(self) -> StreamInventory:
        """Collect the inventory. Reads a few metadata rows for each table, and no records."""
        tables = await self._tables.all()
        buckets: dict[tuple[int, int | None], int] = {}
        partitions = 0
        tiered = {}
        for table in tables:
            parts = await self._partitions.ids(table)
            partitions += len(parts) if table.is_partitioned else 0
            buckets |= {(table.id, part): table.bucket_count for part in parts}
            if is_tiered(table):
                tiered[table.id] = await self._lake.offsets(table.id)
        health = await self._check.of(buckets)
        kv = await self._kv_sizes.of(tables)
        leases, leased = await self._snapshots.lease_counts()
        await self._lake.waiting()  # also loads tables that no worker has requested
        # From here on without an await: counts that are taken are also returned.
        opened = list(self._opened)
        counts = {table.id: _TableTotals() for table in tables}
        for each in opened:
            # Its table may have been dropped meanwhile.
            counts.setdefault(each.bucket.table_id, _TableTotals()).add(each, tiered.get(each.bucket.table_id))
        lake = self._lake.tiering.tables
        now_ms = self._clock.now_ms()

        def of_table(table: StreamTable) -> TableInventory:
            tiering = lake.get(table.id)
            return counts[table.id].finished(
                table, kv.index_bytes.get(table.id, 0), None if tiering is None else (tiering, now_ms)
            )

        return StreamInventory(
            tables=len(tables),
            kv_tables=sum(table.has_primary_key for table in tables),
            partitions=partitions,
            health=health,
            open_buckets=len(opened),
            segments=sum(each.segments for each in counts.values()),
            remote_segments=sum(each.remote_segments for each in counts.values()),
            writers=sum(each.writers for each in counts.values()),
            records=sum(each.readable for each in counts.values()),
            log_bytes=sum(each.log_bytes for each in counts.values()),
            remote_bytes=sum(each.remote_bytes for each in counts.values()),
            lake_tables=Counter(table.state.value for table in lake.values()),
            lake_failures=sum(table.failures for table in lake.values()),
            pending_records=sum(each.pending for each in counts.values()),
            leases=leases,
            leased_snapshots=leased,
            kv=kv,
            uploads=self._take_uploads(),
            traffic=self._traffic.take(),
            flush_seconds={kind: flushes.take() for kind, flushes in self._flushes.items()},
            by_table=[of_table(table) for table in tables[:TABLES]],
        )


class _TableTotals:
    """Totals of the open logs of one table."""

    def __init__(self) -> None:
        self.readable = self.written = self.pending = 0
        self.segments = self.remote_segments = self.writers = 0
        self.log_bytes = self.remote_bytes = 0
        self._newest_ms: int | None = None
        """Commit time of the newest record that is not in the lake."""

    def add(self, opened: OpenBucket, lake: Mapping[tuple[int | None, int], int] | None) -> None:
        """Add a log; `lake` has the table's tiered offsets, if it is tiered."""
        log = opened.log
        start, end = log.start_offset, log.high_watermark
        self.readable += end - start
        self.written += end
        if isinstance(log, RemoteBackedLog):
            remote = log.remote.manifest.segments
            self.segments += len(log.local.segments)
            self.remote_segments += len(remote)
            self.writers += log.local.writer_count
            self.log_bytes += log.local.size_bytes
            self.remote_bytes += sum(segment.size_bytes for segment in remote)
        if lake is not None and (pending := pending_records(opened, lake)):
            self.pending += pending
            if isinstance(log, RemoteBackedLog) and (newest := _newest_ms(log)) is not None:
                self._newest_ms = max(newest, self._newest_ms or 0)

    def finished(self, table: StreamTable, index_bytes: int, lake: tuple[TieringTable, int] | None) -> TableInventory:
        """The table's inventory; `lake` is its tiering state and the current time."""
        return TableInventory(
            table.id,
            str(table.path),
            self.readable,
            self.written,
            self.pending,
            self.log_bytes,
            self.remote_bytes,
            index_bytes,
            None if lake is None else self._lake(*lake),
        )

    def _lake(self, table: TieringTable, now_ms: int) -> LakeTableStats:
        tiered_ms = table.tiered_ms
        lag_ms = None if self.pending else 0
        if tiered_ms is not None and self._newest_ms is not None:
            lag_ms = max(self._newest_ms - tiered_ms, 0)
        return LakeTableStats(
            freshness_ms=table.freshness_ms,
            tiered_ms=tiered_ms,
            age_ms=None if tiered_ms is None else max(now_ms - tiered_ms, 0),
            lag_ms=lag_ms,
            waits_ms=max(now_ms - table.since_ms, 0) if table.state is TieringState.PENDING else 0,
            took_ms=table.took_ms,
            file_bytes=table.last.file_size,
            records=table.last.record_count,
            failures=table.failures,
        )


def _newest_ms(log: RemoteBackedLog) -> int | None:
    """Commit time of the last batch, if there is one."""
    for segment in reversed(log.local.segments):
        if segment.timestamp_ms >= 0:  # or the segment is new and empty
            return segment.timestamp_ms
    remote = log.remote.manifest.segments
    return remote[-1].max_timestamp_ms if remote else None
