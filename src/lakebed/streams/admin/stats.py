"""Table statistics and cluster health."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum

from lakebed.fluss.errors import FlussError
from lakebed.objects.model import Caller

from ..authorization import StreamAuthorizer, StreamOperation
from ..buckets.open_buckets import OpenBuckets
from ..log.remote.log_rows import LogRows
from ..partitions import StreamPartitions
from ..seam import TableBucket
from ..tables import StreamTables

__all__ = ["BucketCounts", "BucketRows", "ClusterHealth", "ClusterHealthCheck", "ClusterHealthStatus", "TableStats"]

BucketCounts = Mapping[tuple[int, int | None], int]
"""The number of buckets of each table, or of each partition of a partitioned table."""


class ClusterHealthStatus(IntEnum):
    """The status of the cluster, by the protocol's number."""

    GREEN = 0
    YELLOW = 1
    RED = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The number of buckets, and how many are healthy."""

    buckets: int
    active: int
    """Buckets that can be written to."""

    in_sync: int
    """Of these, buckets whose last upload succeeded: the object store is a bucket's only replica."""

    @property
    def status(self) -> ClusterHealthStatus:
        """Red if a bucket cannot be written to; yellow if one is not uploaded."""
        if self.active < self.buckets:
            return ClusterHealthStatus.RED
        return ClusterHealthStatus.YELLOW if self.in_sync < self.buckets else ClusterHealthStatus.GREEN


class ClusterHealthCheck:
    """Checks all buckets, open or not, without opening any.

    A closed bucket counts as healthy unless its last opening failed, or its row says that its newest records are on
    another server's disk.
    """

    def __init__(
        self,
        tables: StreamTables,
        partitions: StreamPartitions,
        buckets: OpenBuckets,
        rows: LogRows,
        not_uploaded: Callable[[], AbstractSet[TableBucket]],
        is_leader: Callable[[], bool],
        *,
        server: str,
    ) -> None:
        """`not_uploaded` returns the buckets whose last upload failed."""
        self._tables = tables
        self._partitions = partitions
        self._buckets = buckets
        self._rows = rows
        self._not_uploaded = not_uploaded
        self._is_leader = is_leader
        self._server = server

    async def take(self) -> ClusterHealth:
        """The health of all buckets. Reads a row for each partition, and those of logs whose tail is elsewhere."""
        counts: dict[tuple[int, int | None], int] = {}
        for table in await self._tables.all():
            counts |= {(table.id, part): table.bucket_count for part in await self._partitions.ids(table)}
        return await self.of(counts)

    async def of(self, counts: BucketCounts) -> ClusterHealth:
        """The health of these buckets."""
        total = sum(counts.values())
        if not self._is_leader():
            return ClusterHealth(total, 0, 0)
        elsewhere = await self._rows.with_tail_elsewhere(self._server)
        offline = {each for each in (*elsewhere, *self._buckets.broken()) if _is_among(counts, each)}
        not_uploaded = {each for each in self._not_uploaded() if _is_among(counts, each)}
        return ClusterHealth(total, total - len(offline), total - len(offline | not_uploaded))


def _is_among(counts: BucketCounts, bucket: TableBucket) -> bool:
    """Whether the bucket exists: it may be dropped, with its files still to be removed."""
    return bucket.bucket < counts.get((bucket.table_id, bucket.partition_id), 0)


@dataclass(frozen=True, slots=True)
class BucketRows:
    """The number of rows of a bucket, or the error that prevents counting."""

    partition_id: int | None
    bucket: int
    rows: int | None = None
    failure: FlussError | None = None


class TableStats:
    """Answers statistics and health requests."""

    def __init__(
        self, authorizer: StreamAuthorizer, tables: StreamTables, buckets: OpenBuckets, check: ClusterHealthCheck
    ) -> None:
        self._authorizer = authorizer
        self._tables = tables
        self._buckets = buckets
        self._check = check

    async def table(
        self, caller: Caller, table_id: int, wanted: Sequence[tuple[int | None, int]]
    ) -> Sequence[BucketRows]:
        """The number of rows of these buckets: current rows, or records in the log.

        Error codes: UNKNOWN_TABLE_OR_BUCKET for the table.
        """
        table = await self._tables.authorized(caller, StreamOperation.READ, table_id)
        found = []
        for partition_id, number in wanted:
            try:
                opened = await self._buckets.get(table, partition_id, number)
            except FlussError as failure:
                found.append(BucketRows(partition_id, number, failure=failure))
                continue
            log, kv = opened.log, opened.kv
            rows = log.high_watermark - log.start_offset if kv is None else kv.row_count
            found.append(BucketRows(partition_id, number, rows))
        return found

    async def health(self, caller: Caller) -> ClusterHealth:
        """The health of all buckets. Raises AccessDenied."""
        await self._authorizer.authorize(caller, StreamOperation.DESCRIBE)
        return await self._check.take()
