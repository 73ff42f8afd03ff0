"""How much there is, and whether it can be reached: rows of buckets, and the health of all of them."""

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
"""How many buckets there are of each table, or of each partition of one that has some."""


class ClusterHealthStatus(IntEnum):
    """How all buckets are, by the protocol's number."""

    GREEN = 0
    YELLOW = 1
    RED = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """How many buckets there are, and how many of them are as they should be."""

    buckets: int
    active: int
    """Those that can be written to."""

    in_sync: int
    """Those of which, besides, the byte store has what it should: that is the one copy that a bucket has."""

    @property
    def status(self) -> ClusterHealthStatus:
        """Red if a bucket cannot be written to, yellow if all can and one is not copied."""
        if self.active < self.buckets:
            return ClusterHealthStatus.RED
        return ClusterHealthStatus.YELLOW if self.in_sync < self.buckets else ClusterHealthStatus.GREEN


class ClusterHealthCheck:
    """Looks at all buckets, whether or not one was asked for since the start.

    One that is not open counts as one that can be opened, unless that failed the last time, or its row says that its
    newest records are on the disk of another server. Nothing is opened to find out.
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
        """`not_uploaded` are those whose last copying to the byte store failed."""
        self._tables = tables
        self._partitions = partitions
        self._buckets = buckets
        self._rows = rows
        self._not_uploaded = not_uploaded
        self._is_leader = is_leader
        self._server = server

    async def take(self) -> ClusterHealth:
        """How all are now. It reads a row for each partition, and those of logs that are elsewhere."""
        counts: dict[tuple[int, int | None], int] = {}
        for table in await self._tables.all():
            parts: list[int | None] = [None]
            if table.is_partitioned:
                parts = [each.id for each in await self._partitions.of(table)]
            counts |= {(table.id, part): table.bucket_count for part in parts}
        return await self.of(counts)

    async def of(self, counts: BucketCounts) -> ClusterHealth:
        """The same of these, for who has counted them."""
        total = sum(counts.values())
        if not self._is_leader():
            return ClusterHealth(total, 0, 0)
        elsewhere = await self._rows.elsewhere(self._server)
        offline = {each for each in (*elsewhere, *self._buckets.broken()) if _is_among(counts, each)}
        not_uploaded = {each for each in self._not_uploaded() if _is_among(counts, each)}
        return ClusterHealth(total, total - len(offline), total - len(offline | not_uploaded))


def _is_among(counts: BucketCounts, bucket: TableBucket) -> bool:
    """Whether there is such a bucket: it may have been dropped, and its files and rows wait to be removed."""
    return bucket.bucket < counts.get((bucket.table_id, bucket.partition_id), 0)


@dataclass(frozen=True, slots=True)
class BucketRows:
    """How many rows a bucket has, if that is known, or why that cannot be said."""

    partition_id: int | None
    bucket: int
    rows: int | None = None
    failure: FlussError | None = None


class TableStats:
    """The use cases."""

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
        """Rows of these buckets: live keys, or records that the log has.

        Error codes: UNKNOWN_TABLE_OR_BUCKET for the table.
        """
        table = await self._tables.by_id(table_id)
        await self._authorizer.authorize(caller, StreamOperation.READ, *table.path)
        found = []
        for partition_id, number in wanted:
            try:
                opened = await self._buckets.get(table, partition_id, number)
            except FlussError as failure:
                found.append(BucketRows(partition_id, number, failure=failure))
                continue
            log, keys = opened.log, opened.keys
            rows = log.stable_offset - log.start_offset if keys is None else keys.row_count
            found.append(BucketRows(partition_id, number, rows))
        return found

    async def health(self, caller: Caller) -> ClusterHealth:
        """Of all buckets. Raises AccessDenied."""
        await self._authorizer.authorize(caller, StreamOperation.DESCRIBE)
        return await self._check.take()
